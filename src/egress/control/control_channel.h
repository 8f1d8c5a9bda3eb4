/* control_channel.h - egress's end of channel C (lib/wire/egress_msg.h), over which cordond
 * attaches, changes and detaches sessions, and the control socket over which the supervisor passes
 * new channels and new resolver settings. Called by main.c. */
#pragma once

#include "egress/control/egress_session.h"

struct control_channel;

/* sock: the first channel, taken over. -1: none yet. control: a SOCK_SEQPACKET to the supervisor,
 * taken over. -1: none, and egress ends with its channel (cordon run). Initialize egress->out,
 * which control_channel_free() releases. */
struct control_channel *control_channel_new(struct egress *egress, int sock, int control,
					    struct err *e) MUST_USE;
void control_channel_free(struct control_channel *c);

/* ---- sends cordond how long the turns of egress's loop take (EGRESS_TURNS). Called by
 * control_channel.c every few seconds. */

void turn_report(struct egress *e);
