/* advisories_import.h - cordon packages advisories: reports of malicious packages become the one
 * sorted file that cordon-egress looks into (packages/advisories.h). */
#pragma once

#include "err.h"

#define ADVISORIES_STATE_DIR "/var/lib/cordon"

/* Reads files and folders of OSV reports and replaces the list in the state directory, which only
 * an operator can write. Prints what was read. */
int advisories_import(const char *state_dir, const char *const *paths, size_t n,
		      struct err *e) MUST_USE;
/* Prints how many lines the list has, and how old it is. */
int advisories_print(const char *state_dir, struct err *e) MUST_USE;
/* Removes the list. */
int advisories_clear(const char *state_dir, struct err *e) MUST_USE;
