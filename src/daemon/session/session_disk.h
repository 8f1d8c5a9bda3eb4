/* session_disk.h - the disk of a session with storage "disk": an image in the storage folder.
 * cordon-storage makes, checks and removes it, and the keeper mounts it (cell/keeper/disk_image.h).
 *
 * The session's row is the truth: it is written before its image is made. The image is removed when
 * the session has stopped, also if that cannot be recorded: on a full disk the record needs the
 * room of the image. An image without a live session is removed after recovery, when a
 * cordon-storage has started, and every ten minutes. Each step can be repeated, so a daemon or a
 * cordon-storage that dies in between loses nothing.
 */
#pragma once

#include "daemon/session/session.h"

struct keeper_create;

typedef void session_disk_fn(struct session *s, const struct keeper_create *plan,
			     const struct err *e);

/* Make or check the session's disk image, before its cell is made by the plan. The image of an
 * earlier cell is kept. Then on_ready is called, from here if there is nothing to do. e: there is
 * no disk. */
void session_disk_prepare(struct session *s, const struct keeper_create *plan,
			  session_disk_fn *on_ready);

/* Remove the image of a stopped session. Called when a session leaves memory, or would but for its
 * record. Repeatable. */
void session_disk_free(struct session *s);

/* Remove images that belong to no session. Not before recovery, or images of live sessions would
 * go. */
void session_disk_collect(struct core *c);
/* Cancel all removals and the listing, at the end of the daemon. */
void session_disk_collect_end(struct core *c);
