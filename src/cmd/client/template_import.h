/* template_import.h - cordon template import and debian: sends an archive to the server, which
 * makes a template of it. */
#pragma once

#include <stdbool.h>

#include "cmd/client/api_call.h"

/* cordon template interpreter: a template whose sessions run the code interpreter's server, with
 * another one's layers, or a Debian's with Python's scientific packages. */
struct template_interpreter {
	const char *from; /* NULL: host, or what science makes */
	const char *name; /* NULL: made from the other's */
	bool science;
	const char *suite, *include, *mirror; /* of science. NULL: as usual */
};

/* *ret is the template, owned by the caller. */
int template_interpreter(struct api_call *a, const struct template_interpreter *t, json_t **ret,
			 struct err *e) MUST_USE;

struct template_import {
	const char *name;		  /* NULL: made from the file's */
	const char *tag, *user, *workdir; /* NULL: none */
	bool public;
};

/* A file: an archive as it is. A directory: packed by tar(1), with owners and attributes. *ret is
 * the template, owned by the caller. */
int template_import(struct api_call *a, const struct template_import *t, const char *path,
		    json_t **ret, struct err *e) MUST_USE;

/* A Debian of that suite, made by mmdebstrap(1) on this machine. include: names of packages with
 * commas, mirror: where they come from. Both may be NULL. */
int template_import_debian(struct api_call *a, const struct template_import *t, const char *suite,
			   const char *include, const char *mirror, json_t **ret,
			   struct err *e) MUST_USE;
