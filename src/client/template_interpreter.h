/* template_interpreter.h - cordon template interpreter: a template whose sessions run the server of
 * the code interpreter, with the layers of another one, or of a Debian with the scientific packages
 * of Python. */
#pragma once

#include "template_import.h"

struct template_interpreter {
	const char *from; /* NULL: host, or what science makes */
	const char *name; /* NULL: made from the other's */
	bool science;
	const char *suite, *include, *mirror; /* of science; NULL: as usual */
};

/* *ret is the template, owned by the caller. */
int template_interpreter(struct api_call *a, const struct template_interpreter *t, json_t **ret,
			 struct err *e) MUST_USE;
