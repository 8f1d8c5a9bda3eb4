/* volume_mount.h - volumes in the mounts of a session. A line of a row's mounts (session.h) whose
 * source is "volume:ID:NAME" is a volume; no other source begins so, as those are absolute paths.
 *
 * Called by session_spec.c and session_lifecycle.c when a session is made, and by the interfaces,
 * which write the source after they have found the tenant's volume, and show the lines. */
#pragma once

#include "core.h"
#include "store_session.h"
#include "store_volume.h"

#define VOLUME_MOUNT_SOURCE_MAX (16 + STORE_ID_MAX + STORE_NAME_MAX)

/* What a volume is on disk: kind of its row. */
enum volume_kind {
	VOLUME_DIRECTORY, /* without a limit of its own */
	VOLUME_IMAGE,	  /* a file system in a file, which limits it */
};

struct volume_mount {
	char id[STORE_ID_MAX];
	char name[STORE_NAME_MAX];
	char target[CELL_PATH_MAX];
	bool writable;
};

void volume_mount_write(const struct store_volume *v, char ret_source[VOLUME_MOUNT_SOURCE_MAX]);
/* Is this source a volume? */
bool volume_mount_is(const char *source);
/* The next volume among lines of mounts. *at begins at the first line and moves on. False: there is
 * no more. */
bool volume_mount_next(const char **at, struct volume_mount *ret);

/* The source for the keeper. ERR_NOT_FOUND: the volume is not there any more. */
int volume_mount_plan(const struct core *c, const char *source, struct cell_source *ret,
		      struct err *e) MUST_USE;
/* Writes down that the session uses its volumes, in the transaction that inserts the session. */
int volume_mount_add_uses(const struct core *c, const struct store_session *row,
			  struct err *e) MUST_USE;
