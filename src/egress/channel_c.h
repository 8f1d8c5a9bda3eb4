/* channel_c.h - channel C, egress's end, and the control socket of whoever started it. */
#pragma once

#include "guest.h"

/* sock: the first channel, taken over; -1: none yet. control: a SOCK_SEQPACKET to the supervisor,
 * taken over; -1: none, and egress ends with its channel (cordon run). */
struct channel_c *channel_c_new(struct egress *g, int sock, int control, struct err *e) MUST_USE;
void channel_c_free(struct channel_c *c);
/* A record of this guest. While much waits, none may have more than a share of it: a flood of one
 * loses its own records, not those of others. False: it is lost. */
bool channel_c_record(struct channel_c *c, struct guest *g, const char *text, size_t len);
/* Queues; false if the bound of what may wait is reached (it is lost, the caller counts). */
bool channel_c_say(struct channel_c *c, enum egress_type type, const char *id, const char *text,
		   size_t len);
/* Sends what waits, now, as far as the socket takes it. */
void channel_c_flush(struct channel_c *c);
