/* session_disk.h - the disk of a session with storage "disk": an image in the storage folder, which
 * cordon-storage makes, checks and removes, and the keeper mounts (keeper/disk_image.h).
 *
 * The session's row is the truth: it is written before its image is made. The image is removed when
 * the session has stopped, also if that cannot be recorded: on a full disk the record needs the
 * room of the image. An image without a live session is removed after recovery, when a
 * cordon-storage has started, and every ten minutes. Each step can be repeated, so a daemon or a
 * cordon-storage that dies in between loses nothing. */
#pragma once

#include "session.h"

struct keeper_create;

typedef void session_disk_fn(struct session *s, const struct keeper_create *plan,
			     const struct err *e);

/* Before the session's cell is made by the plan: if its disk is an image, that is made; or checked,
 * if the session has had a cell before. Then on_ready is called, from here if there is nothing to
 * do; e: there is no disk. */
void session_disk_prepare(struct session *s, const struct keeper_create *plan,
			  session_disk_fn *on_ready);

/* The session stops. True: it was waiting for its disk and has no cell; the caller ends it. */
bool session_disk_stopping(struct session *s);

/* Called when a session leaves memory, or would but for its record: removes the image of one that
 * has stopped. Repeatable. */
void session_disk_free(struct session *s);

/* Not before recovery: removes images that belong to no session. */
void session_disk_collect(struct core *c);
void session_disk_collect_end(struct core *c);
