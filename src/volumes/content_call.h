/* content_call.h - one operation on the content of a volume: a request to cordon-storage, the
 * stream of its answer (content_msg.h), and for a write the stream of its input. Called by the
 * interfaces.
 *
 * A call ends exactly once by on_end, from the loop, or is cancelled. It ends when its answer is
 * complete; an answer that is cut off ends it with the error of the request to cordon-storage. */
#pragma once

#include "completion.h"
#include "content_msg.h"
#include "storage_feed.h"
#include "storage_link.h"
#include "store_volume.h"
#include "volume_open.h"

struct content_call;
struct core;

struct content_call_events {
	/* Returns -1 with e set to end the call. */
	int (*on_entry)(struct content_call *c, const struct content_entry *entry, struct err *e);
	/* len bytes of a file will follow. NULL: there must be none. */
	void (*on_data_begins)(struct content_call *c, uint64_t len);
	/* Returns how many were taken; fewer: content_call_resume() when there is room. */
	size_t (*on_data)(struct content_call *c, const uint8_t *data, size_t len);
	/* There is room for input. May be NULL. */
	void (*on_room)(struct content_call *c);
	/* It is over; e is NULL if it worked. The call may be started again or freed. */
	void (*on_end)(struct content_call *c, const struct err *e);
};

struct content_call {
	void *arg; /* the owner's */
	/* The rest is for content_call.c only. */
	struct content_call *next, **link; /* list.h: of the node */
	struct volume_node *node;	   /* NULL: not under way */
	char tenant[STORE_ID_MAX];
	const struct content_call_events *events;
	struct volume_open open;
	struct storage_content *request; /* owned: what is sent when the image is mounted */
	int its[2];			 /* owned until sent: the other ends of the pipes */
	struct storage_job job;
	int out; /* owned, while node is set; -1: closed */
	struct loop_fd watch_out;
	struct storage_feed feed; /* of the input */
	struct loop_task step;
	uint8_t *bytes; /* owned: what was read and not used */
	size_t len, at;
	uint64_t data_left;
	bool paused, answered, cut_off, failed;
	bool job_ended;
	struct err why, job_why;
};

/* r: what, path and the rest; the head and the volume are set here. ERR_LIMIT: too many at a time.
 */
int content_call_start(struct content_call *c, struct core *core, const struct store_volume *v,
		       const struct storage_content *r, const struct content_call_events *events,
		       struct err *e) MUST_USE;
void content_call_resume(struct content_call *c);
/* Takes up to len bytes of content, and returns how many: on_room follows if fewer. Bytes for a
 * call that is over are dropped. */
size_t content_call_input(struct content_call *c, const uint8_t *data, size_t len);
/* The content is complete. Called again from on_room until it returns true. */
bool content_call_end_input(struct content_call *c);
/* on_end is not called. Allowed at any time, if the structure began as zeros. */
void content_call_cancel(struct content_call *c);
