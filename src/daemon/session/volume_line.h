/* volume_line.h - names of volumes, and volumes among the mounts of a session. A line of a row's
 * mounts (session.h) whose source is "volume:ID:NAME" is a volume. No other source begins so, as
 * those are absolute paths. Pure.
 *
 * The interfaces write such a source after they have found the tenant's volume, and show the lines.
 * session_volume.c acts on them.
 */
#pragma once

#include <stdbool.h>

#include "daemon/store/store_volume.h"
#include "lib/wire/cell_spec.h"

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

/* Write the source text of a volume for a line of mounts. */
void volume_line_write(const struct store_volume *v, char ret_source[VOLUME_LINE_SOURCE_MAX]);
/* Is this source, or a line that begins with it, a volume? */
bool volume_line_is(const char *source);
/* Read the id in a source. False: it is malformed. */
bool volume_line_id(const char *source, char ret_id[STORE_ID_MAX]);
/* Read the next volume among lines of mounts. *at begins at the first line and moves on. False:
 * there is none left. */
bool volume_line_next(const char **at, struct volume_line *ret);
