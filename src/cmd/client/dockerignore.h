/* dockerignore.h - which files of a directory a build takes: .dockerignore, and the patterns of
 * COPY. Paths are relative to the directory, without "./". Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define DOCKERIGNORE_RULES_MAX 1024

struct dockerignore {
	size_t n;
	struct {
		const char *pattern; /* borrowed from the text */
		size_t len;
		bool keeps; /* it began with '!' */
	} rules[DOCKERIGNORE_RULES_MAX];
};

/* text is borrowed. Rules beyond DOCKERIGNORE_RULES_MAX: false. */
bool dockerignore_read(const char *text, size_t len, struct dockerignore *ret);

/* Is the path excluded? The last rule that matches it, or a directory that it is in, decides. */
bool dockerignore_excludes(const struct dockerignore *d, const char *path);
/* Could something below an excluded directory be kept by a rule with '!'? */
bool dockerignore_may_keep(const struct dockerignore *d);

/* Is the path one that the pattern of COPY names, or below one? ancestor: it is a directory on the
 * way to such a path. */
enum dockerignore_fit { DOCKERIGNORE_NO, DOCKERIGNORE_ANCESTOR, DOCKERIGNORE_YES };
enum dockerignore_fit dockerignore_fits(const char *pattern, const char *path);
