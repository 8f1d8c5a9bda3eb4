/* control_channel.h - channel C, egress's end, and the control socket of whoever started it. */
#pragma once

#include "egress_session.h"

/* sock: the first channel, taken over; -1: none yet. control: a SOCK_SEQPACKET to the supervisor,
 * taken over; -1: none, and egress ends with its channel (cordon run). */
struct control_channel *control_channel_new(struct egress *g, int sock, int control,
					    struct err *e) MUST_USE;
void control_channel_free(struct control_channel *c);
/* A record of this session. While much waits, none may have more than a share of it: a flood of one
 * loses its own records, not those of others. False: it is lost. */
bool control_channel_record(struct control_channel *c, struct egress_session *g, const char *text,
			    size_t len);
/* Queues; false if the bound of what may wait is reached (it is lost, the caller counts). */
bool control_channel_say(struct control_channel *c, enum egress_type type, const char *id,
			 const char *text, size_t len);
/* Sends what waits, now, as far as the socket takes it. */
void control_channel_flush(struct control_channel *c);
