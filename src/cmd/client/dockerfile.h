/* dockerfile.h - reads a Dockerfile into the recipe of a build (doc/openapi.yaml: Recipe). Pure.
 *
 * FROM, RUN, COPY (also from an earlier stage), ADD of local files, ENV, ARG, WORKDIR, USER, CMD
 * and ENTRYPOINT (the start command). LABEL, EXPOSE, MAINTAINER, STOPSIGNAL, VOLUME, HEALTHCHECK
 * and SHELL are ignored. A line with another meaning than in Docker is an error that names the
 * line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

#define DOCKERFILE_MAX ((size_t)1 << 20)
#define DOCKERFILE_STEPS_MAX 252 /* with those that template_build.c adds a recipe has 256 */
#define DOCKERFILE_ARGS_MAX 64
#define DOCKERFILE_STAGES_MAX 16

/* One step of a recipe. args has its words without quotes. Those of RUN are one text for the
 * shell. */
struct dockerfile_step {
	const char *type; /* "RUN", "COPY", "ENV", "WORKDIR", "USER" */
	unsigned line;
	unsigned argc;
	char *args[DOCKERFILE_ARGS_MAX]; /* owned */
	const struct dockerfile *stage;	 /* of COPY --from. NULL: of the directory */
};

/* A stage. That of the file is its last one. */
struct dockerfile {
	struct dockerfile *before;	     /* owned. The stage before it */
	unsigned number;		     /* of the stage, from 0 */
	char *name;			     /* owned. NULL: none */
	char *from;			     /* owned */
	const struct dockerfile *from_stage; /* which that names. NULL: none */
	char *start;			     /* owned. NULL: none */
	unsigned nsteps;
	struct dockerfile_step *steps; /* owned */
};

/* build_args: NAME=VALUE texts that set ARG. ERR_INVALID: "Dockerfile:3: ...". The caller calls
 * dockerfile_release() in either case. */
int dockerfile_read(const char *text, size_t len, const char *const *build_args, size_t nargs,
		    struct dockerfile *ret, struct err *e) MUST_USE;
void dockerfile_release(struct dockerfile *d);
/* Does the stage, or one that it begins with, have an instruction of this type? */
bool dockerfile_has(const struct dockerfile *d, const char *type);
/* The stage at its root, with an image or a template in its FROM. */
const struct dockerfile *dockerfile_first(const struct dockerfile *d);
