/* template_build.h - cordon template build: a Dockerfile and its directory become a template. */
#pragma once

#include <jansson.h>

#include "cmd/client/api_call.h"

/* Print how --template names a just made version of a template.
 *
 * A bare name or id means the version with the tag `default`. One made with other tags
 * only is printed with the first of them. Called by import, debian and build of `cordon template`.
 */
/* answer: of the server, with `tags`. member: which name is printed, "name" or "template_id". */
void template_reference_print(const json_t *answer, const char *member);

struct template_build {
	const char *dir, *file; /* file NULL: DIR/Dockerfile */
	const char *name;	/* NAME[:TAG] */
	const char *ready;	/* command. NULL: none */
	const struct option_list *args, *tags;
	const char *memory, *cpus; /* NULL: the server's default */
	const char *network;	   /* presets. NULL: the server's */
	bool no_cache, no_start;
	bool is_stage; /* one of several of the file, not the last: its name is not printed */
	bool json;     /* prints the build as JSON in the end, instead of its name */
};

/* Build it and print the log as it comes. Fail if the build does. */
int template_build(struct api_call *a, const struct template_build *b, struct err *e) MUST_USE;
