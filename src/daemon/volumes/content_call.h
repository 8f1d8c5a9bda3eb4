/* content_call.h - one operation on the content of a volume: a request to cordon-storage, the
 * stream of its answer (content_msg.h), and for a write the stream of its input. Called by the
 * interfaces.
 *
 * A call ends exactly once by on_end, from the loop, or is cancelled. It ends when its answer is
 * complete. A cut answer ends it with the error of the request to cordon-storage. */
#pragma once

#include "daemon/disk/storage_feed.h"
#include "daemon/disk/storage_link.h"
#include "daemon/session/session_volume.h"
#include "daemon/store/store_volume.h"
#include "lib/loop/completion.h"
#include "lib/loop/jobs.h"
#include "lib/wire/content_msg.h"

struct content_call;
struct core;

struct content_call_events {
	/* Return -1 with e set to end the call. */
	int (*on_entry)(struct content_call *c, const struct content_entry *entry, struct err *e);
	/* len bytes of a file will follow. NULL: there must be none. */
	void (*on_data_begins)(struct content_call *c, uint64_t len);
	/* Return how many were taken. Fewer: content_call_resume() when there is room. */
	size_t (*on_data)(struct content_call *c, const uint8_t *data, size_t len);
	/* There is room for input. May be NULL. */
	void (*on_room)(struct content_call *c);
	/* It has ended. e is NULL if it worked. The call may be started again or freed. */
	void (*on_end)(struct content_call *c, const struct err *e);
};

struct content_call {
	void *arg; /* the owner's */
	/* The rest is for content_call.c only. */
	struct content_call *next, **link; /* list.h: of the node */
	struct volume_node *node;	   /* NULL: not in progress */
	char tenant[STORE_ID_MAX];
	const struct content_call_events *events;
	struct volume_open open;
	struct storage_content *request; /* owned: sent when the image is mounted */
	int its[2];			 /* owned until sent: the other ends of the pipes */
	struct storage_job job;
	int out; /* owned, while node is set. -1: closed */
	struct loop_fd watch_out;
	struct storage_feed feed; /* of the input */
	struct job step;
	uint8_t *bytes; /* owned: read but unused */
	size_t len, at;
	uint64_t data_left;
	bool paused, answered, cut_off, failed;
	bool job_ended;
	struct err why, job_why;
};

/* r: `what`, path and the rest. The head and the volume are set here. ERR_LIMIT: too many at a
 * time.
 */
int content_call_start(struct content_call *c, struct core *core, const struct store_volume *v,
		       const struct storage_content *r, const struct content_call_events *events,
		       struct err *e) MUST_USE;
void content_call_resume(struct content_call *c);
/* Take up to len bytes of content, and return how many: on_room follows if fewer. Bytes for an
 * ended call are dropped. */
size_t content_call_input(struct content_call *c, const uint8_t *data, size_t len);
/* The content is complete. Called again from on_room until it returns true. */
bool content_call_end_input(struct content_call *c);
/* on_end is not called. Allowed at any time, if the structure began as zeros. */
void content_call_cancel(struct content_call *c);
