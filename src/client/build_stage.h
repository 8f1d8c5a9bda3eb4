/* build_stage.h - COPY --from of a Dockerfile: a file or directory of an earlier stage as an
 * archive. A session is made from the stage's template, its files are read as root, and it is
 * deleted. Called by template_build.c. */
#pragma once

#include <limits.h>

#include "api_call.h"

/* Returns the archive, owned by the caller, or -1. ret_source: how COPY names what is in it. */
int build_stage_pack(struct api_call *a, const char *template, const char *path,
		     char ret_source[NAME_MAX + 1], struct err *e) MUST_USE;
