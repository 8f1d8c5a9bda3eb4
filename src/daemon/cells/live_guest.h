/* live_guest.h - the guest of a cell whose PID 1 is cordon-shim (boot_msg.h): started when the cell
 * is made, stopped for a snapshot of its memory, let run again. Part of live_cell.h. The answers
 * come over channel B.
 *
 *   making -> greeting -> linger sent -> booting -> up
 *
 * A cell with a guest is up when the guest answers. Programs that continue in a restored guest are
 * reported by on_held() before that. One request is in progress at a time. */
#pragma once

#include "daemon/cells/live_cell.h"

#define LIVE_GUEST_IMAGE 2 /* descriptors of a memory image: memory, devices */

/* fds: as many as r->fds names, in its order, taken over. For an unfinished cell. */
void live_guest_set(struct live_cell *c, const struct boot_request *r, const int *fds);

/* A request to a guest. The owner has it, sets on_done and arg, and is called exactly once unless
 * it cancels. */
struct live_guest_call {
	/* e NULL: it is done. image: descriptors of a SNAPSHOT, owned by the callee. Otherwise
	 * NULL.
	 */
	void (*on_done)(struct live_guest_call *k, int *image, const struct err *e);
	void *arg;
	struct live_cell *cell; /* NULL: not in progress */
	/* Of SNAPSHOT. Asked for: so many bytes of changes to live_guest_base() will do. Came: the
	 * memory of the image is such changes. */
	uint64_t changes_max;
	bool only_changes;
};

/* How long an answer is waited for: then on_done is called with REASON_TIMEOUT, and the guest
 * counts as unresponsive until the answer comes. Tests set it. */
extern unsigned live_guest_wait_ms;

/* Stop the guest, and write its memory. stay: only live_guest_resume() lets it run again. After an
 * error it runs, unless the cell is dead. ERR_CONFLICT: a request is in progress, or there is no
 * guest. If it stops for a cancelled caller, or after the caller's time, on_stopped() of the cell
 * follows. */
void live_guest_snapshot(struct live_cell *c, bool stay, struct live_guest_call *k);
/* Let it run, with this identity and these limits. */
void live_guest_resume(struct live_cell *c, const struct boot_request *r,
		       struct live_guest_call *k);
/* The memory image that a guest of this daemon was started from, and maps. Borrowed. -1: it has
 * none, or an earlier daemon has started it. */
int live_guest_base(const struct live_cell *c);
/* on_done is not called any more. An image that comes is closed. Repeatable. */
void live_guest_cancel(struct live_guest_call *k);

/* ---- for live_cell.c */

struct live_guest;

/* The cell lingers: sends BOOT. False: there is no guest to be started, and the cell is up. */
bool live_guest_boot(struct live_cell *c, int *ret_result, struct err *e);
/* BOOTED, SNAPSHOT_DONE or GUEST. *ret_up: the answer to BOOT says that the guest runs. -1: that it
 * does not, and why. */
int live_guest_event(struct live_cell *c, enum agent_type type, const struct agent_event *v,
		     bool *ret_up, struct err *e) MUST_USE;
/* May PID 1 say that once more? */
int live_guest_check(struct live_cell *c, enum agent_type type, struct err *e) MUST_USE;
/* The cell is dead, or ends. */
void live_guest_lost(struct live_cell *c);
void live_guest_free(struct live_cell *c);
