/* volume_line.h - names of volumes, and volumes among the mounts of a session. A line of a row's
 * mounts (session.h) whose source is "volume:ID:NAME" is a volume; no other source begins so, as
 * those are absolute paths. Pure.
 *
 * The interfaces write such a source after they have found the tenant's volume, and show the lines;
 * volume_mount.c acts on them. */
#pragma once

#include <stdbool.h>

#include "cell_spec.h"
#include "store_volume.h"

#define VOLUME_NAME_MAX (STORE_NAME_MAX - 1)
#define VOLUME_LINE_SOURCE_MAX (16 + STORE_ID_MAX + STORE_NAME_MAX)

struct volume_line {
	char id[STORE_ID_MAX];
	char name[STORE_NAME_MAX];
	char target[CELL_PATH_MAX];
	bool writable;
};

/* Letters, digits, '_' and '-'. */
bool volume_line_is_name(const char *s);

void volume_line_write(const struct store_volume *v, char ret_source[VOLUME_LINE_SOURCE_MAX]);
/* Is this source, or a line that begins with it, a volume? */
bool volume_line_is(const char *source);
/* The id in a source. False: it is malformed. */
bool volume_line_id(const char *source, char ret_id[STORE_ID_MAX]);
/* The next volume among lines of mounts. *at begins at the first line and moves on. False: there is
 * no more. */
bool volume_line_next(const char **at, struct volume_line *ret);
