/* control_out.h - messages from egress to cordond on channel C, queued until the socket takes them.
 *
 * One buffer for the process. It outlives a channel: what is queued while there is none is sent to
 * the next cordond, and a frame of which the last one got a part is sent again as a whole. Used by
 * access_record.c, session_counts.c and turn_report.c; control_channel.c owns the socket. */
#pragma once

#include "egress_msg.h"
#include "fifo.h"
#include "loop.h"

struct control_out {
	struct loop *loop;
	struct loop_fd *watch; /* of the channel's socket; its fd is -1: no channel */
	struct fifo bytes;
	size_t sent;	  /* of the first frame in bytes */
	uint64_t emptied; /* how often all of it was sent */
	struct loop_task flush;
};

/* One session's records in the queue. Starts zeroed. */
struct control_out_share {
	size_t bytes;	  /* record bytes queued since the queue was last empty */
	uint64_t emptied; /* number of that emptying */
};

/* watch is borrowed and must outlive the queue. */
void control_out_init(struct control_out *o, struct loop *l, struct loop_fd *watch);
void control_out_release(struct control_out *o);
/* The channel is gone: the first frame will be sent from its beginning. */
void control_out_restart(struct control_out *o);
/* Queues a message; it is sent at the end of this turn. False: EGRESS_RECORD or EGRESS_COUNTS over
 * the bound of the queue, or out of memory; the message is lost. */
bool control_out_put(struct control_out *o, enum egress_type type, const char *id, const char *text,
		     size_t len);
/* Queues a record of one session. While more than half of the queue is in use, a session may have a
 * sixteenth of it, so a session that floods loses its own records only. False: it is lost. */
bool control_out_record(struct control_out *o, struct control_out_share *share, const char *id,
			const char *text, size_t len);
/* Sends now, as far as the socket takes it. */
void control_out_flush(struct control_out *o);
