/* volume_mounts.h - the member volumeMounts of a sandbox: read from a request, and shown. */
#pragma once

#include <jansson.h>

#include "json.h"
#include "request.h"
#include "volume.h"

#define VOLUME_MOUNTS_PROBLEMS_MAX 1024

struct volume_mounts {
	char sources[CELL_MOUNTS_MAX][VOLUME_LINE_SOURCE_MAX]; /* the spec points into it */
	char problems[VOLUME_MOUNTS_PROBLEMS_MAX];	       /* all that is wrong; "": nothing */
};

/* Adds the volumes of a list [{name, path}] (NULL: none), writable, to the mounts of the spec. -1:
 * ret->problems says what is wrong. */
int volume_mounts_read(struct request *r, const json_t *list, struct session_spec *spec,
		       struct volume_mounts *ret) MUST_USE;

/* Writes the member volumeMounts of lines of mounts. */
void volume_mounts_shape(struct json *j, const char *mounts);
