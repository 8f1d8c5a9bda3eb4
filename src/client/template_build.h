/* template_build.h - cordon template build: a Dockerfile and its directory become a template. */
#pragma once

#include "api_call.h"

struct template_build {
	const char *dir, *file; /* file NULL: DIR/Dockerfile */
	const char *name;	/* NAME[:TAG] */
	const char *ready;	/* command; NULL: none */
	const struct option_list *args, *tags;
	const char *memory, *cpus; /* NULL: the server's default */
	bool no_cache, no_start;
	bool is_stage; /* one of several of the file, not the last: its name is not printed */
	bool json;     /* prints the build as JSON in the end, instead of its name */
};

/* Builds it and prints the log as it comes. Fails if the build does. */
int template_build(struct api_call *a, const struct template_build *b, struct err *e) MUST_USE;
