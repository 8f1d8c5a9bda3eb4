/* turn_report.h - sends cordond how long the turns of egress's loop take (EGRESS_TURNS). Called by
 * control_channel.c every few seconds. */
#pragma once

#include "egress_session.h"

void turn_report(struct egress *e);
