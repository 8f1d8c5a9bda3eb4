/* volume_mounts.h - the member volumeMounts of a sandbox: read from a request, and shown. */
#pragma once

#include <jansson.h>

#include "daemon/volumes/volume.h"
#include "front/web/request.h"
#include "lib/json/json.h"

#define VOLUME_MOUNTS_PROBLEMS_MAX 1024

struct volume_mounts {
	char sources[CELL_MOUNTS_MAX][VOLUME_LINE_SOURCE_MAX]; /* the spec points into it */
	char problems[VOLUME_MOUNTS_PROBLEMS_MAX];	       /* all problems. "": none */
};

/* Add the volumes of a list [{name, path}] (NULL: none), writable, to the mounts of the spec. -1:
 * ret->problems lists the problems. */
int volume_mounts_read(struct request *r, const json_t *list, struct session_spec *spec,
		       struct volume_mounts *ret) MUST_USE;

/* Write the member volumeMounts of lines of mounts. */
void volume_mounts_shape(struct json *j, const char *mounts);
