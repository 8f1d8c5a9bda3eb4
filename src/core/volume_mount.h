/* volume_mount.h - volumes that a session mounts, from the lines in its row (volume_line.h) to the
 * keeper and the store. Called by session_spec.c and session_lifecycle.c when a session is made. */
#pragma once

#include "core.h"
#include "store_session.h"
#include "volume_line.h"

/* What a volume is on disk: kind of its row. */
enum volume_kind {
	VOLUME_DIRECTORY, /* without a limit of its own */
	VOLUME_IMAGE,	  /* a file system in a file, which limits it */
};

/* The source for the keeper. ERR_NOT_FOUND: the volume is not there any more. */
int volume_mount_plan(const struct core *c, const char *source, struct cell_source *ret,
		      struct err *e) MUST_USE;
/* Writes down that the session uses its volumes, in the transaction that inserts the session. */
int volume_mount_add_uses(const struct core *c, const struct store_session *row,
			  struct err *e) MUST_USE;
