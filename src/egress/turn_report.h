/* turn_report.h - how long the turns of egress's loop take, told to cordond: EGRESS_TURNS. */
#pragma once

#include "egress_session.h"

void turn_report(struct egress *e);
