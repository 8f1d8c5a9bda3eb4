/* languages.h - the table of languages: names, the kernel of each, and what it needs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

struct language {
	const char *name;
	const char *short_name; /* or NULL */
	const char *program;	/* looked for in PATH */
	const char *package;	/* of Debian: where it is from */
	const char *script;	/* below the folder of kernels */
	const char *argument;	/* behind the script, or NULL */
	const char *file;	/* begins messages of the kernel about code, or NULL; */
	const char *shown;	/* not longer: what is shown in its place */
	bool forked;		/* kernels are forked by a parent: python_parent.h */
	bool at_start;		/* its default context is in the list from the start */
};

/* By its name, in small letters; "" is Python. NULL: there is none. */
const struct language *language_find(const char *name);
const struct language *language_at(size_t i); /* NULL behind the last */

/* Finds its program in PATH. ERR_NOT_FOUND says which package has it. */
int language_program(const struct language *l, char *ret_path, size_t cap, struct err *e) MUST_USE;
