/* turns_tell.h - how long the turns of egress's loop take, told to cordond: EGRESS_TURNS. */
#pragma once

#include "guest.h"

void turns_tell(struct egress *e);
