/* session_volume.h - the volumes that a session mounts, from the lines in its row (volume_line.h)
 * to the keeper and the store. Called by session_spec.c and session_lifecycle.c when a session is
 * made. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/session/volume_line.h"
#include "daemon/store/store_session.h"
#include "daemon/store/store_volume.h"

/* The form of a volume on disk: kind of its row. */
enum volume_kind {
	VOLUME_DIRECTORY, /* without a limit of its own */
	VOLUME_IMAGE,	  /* a file system in a file, which limits it */
};

/* Fill in the source for the keeper. ERR_NOT_FOUND: the volume does not exist any more. */
int volume_mount_plan(const struct core *c, const char *source, struct cell_source *ret,
		      struct err *e) MUST_USE;
/* Record that the session uses its volumes, in the transaction that inserts the session. */
int volume_mount_add_uses(const struct core *c, const struct store_session *row,
			  struct err *e) MUST_USE;

/* ---- the mount of a volume outside of sessions
 *
 * Asks a keeper to mount the image of a volume, for the content of the volume
 * (daemon/volumes/content_call.c), and to see whether this machine can mount one. Only the
 * descriptor holds the mount.
 */

struct keeper_call;

struct volume_open {
	/* fd: a detached mount, owned by the callee, or -1 with e. Called once, unless cancelled.
	 */
	void (*on_done)(struct volume_open *o, int fd, const struct err *e);
	void *arg;		  /* the owner's */
	struct keeper_call *call; /* session_volume.c's */
};

/* Ask a keeper for the mount. on_done is called later, never from inside. */
void volume_open_start(struct core *c, const struct store_volume *v, struct volume_open *o);
/* Cancel the request. Repeatable. */
void volume_open_cancel(struct volume_open *o);
