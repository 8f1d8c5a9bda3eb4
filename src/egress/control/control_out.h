/* control_out.h - messages from egress to cordond on channel C, queued until the socket takes them.
 *
 * The queue is that of the channel and outlives a connection: messages queued while there is none
 * are sent to the next cordond, and a frame of which the last cordond got a part is sent again as a
 * whole. Used by access_record.c, session_counts.c and control_channel.c. control_channel.c begins
 * and ends the channel. */
#pragma once

#include "lib/channel/channel.h"
#include "lib/wire/egress_msg.h"

struct control_out {
	struct channel channel;
};

/* One session's records in the queue. Starts zeroed. */
struct control_out_share {
	size_t bytes;	  /* record bytes queued since the queue was last empty */
	uint64_t emptied; /* number of that emptying */
};

/* Queue a message. It is sent at the end of this turn. False: EGRESS_RECORD or EGRESS_COUNTS over
 * the bound of the queue, or out of memory. The message is lost. */
bool control_out_put(struct control_out *o, enum egress_type type, const char *id, const char *text,
		     size_t len);
/* Queue a record of one session. While more than half of the queue is in use, a session may have a
 * sixteenth of it, so a session that floods loses its own records only. False: it is lost. */
bool control_out_record(struct control_out *o, struct control_out_share *share, const char *id,
			const char *text, size_t len);
