/* template_import.h - cordon template import and debian: sends an archive to the server, which
 * makes a template of it. */
#pragma once

#include <stdbool.h>

#include "api_call.h"

struct template_import {
	const char *name;		  /* NULL: made from the file's */
	const char *tag, *user, *workdir; /* NULL: none */
	bool public;
};

/* A file: an archive as it is; a directory: packed by tar(1), with owners and attributes. *ret is
 * the template, owned by the caller. */
int template_import(struct api_call *a, const struct template_import *t, const char *path,
		    json_t **ret, struct err *e) MUST_USE;

/* A Debian of that suite, made by mmdebstrap(1) on this machine. include: names of packages with
 * commas, mirror: where they come from; both may be NULL. */
int template_import_debian(struct api_call *a, const struct template_import *t, const char *suite,
			   const char *include, const char *mirror, json_t **ret,
			   struct err *e) MUST_USE;
