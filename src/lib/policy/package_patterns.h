/* package_patterns.h - lists of package patterns, ECOSYSTEM:NAME[@VERSION], with a fast search for
 * lists of ten thousand. Private to src/lib/policy. Read with a document, asked by
 * package_judge.c. */
#pragma once

#include "lib/policy/packages_policy.h"
#include "lib/policy/policy_private.h"

#define PACKAGE_PATTERNS_MAX 16384 /* of one list */
#define PACKAGE_SLOW_MAX 128	   /* of one list: compared one by one */
/* of these: patterns with a star neither first nor last */
#define PACKAGE_STARS_MAX 8

/* Storage for texts in large pieces. The policy owns and frees the pieces. */
struct package_arena {
	char *at;
	size_t left;
};
/* Copy a text. NULL: out of memory. */
const char *package_arena_keep(struct policy *p, struct package_arena *a, const char *text,
			       size_t n);

struct package_pattern {
	enum ecosystem ecosystem;
	const char *name;    /* normal form. A prefix has no star */
	const char *version; /* "": any */
	size_t n;	     /* bytes of the name */
	uint32_t number;     /* its place in the list, for reasons */
	uint32_t parent;     /* of a prefix: the next shorter prefix, UINT32_MAX: none */
};

/* The patterns of one list. exact: name and version without stars, sorted by ecosystem, name and
 * version. prefixes: the name ends with its only star, and any version fits, sorted in the same
 * way. slow: all others. */
struct package_patterns {
	struct package_pattern *exact, *prefixes, *slow;
	size_t nexact, nprefixes, nslow, nstars;
	bool given;
};

/* Read a list. v NULL: the list is empty and not given. */
int package_patterns_read(struct policy *p, struct package_arena *a, const json_t *v,
			  const char *at, const char *name, struct package_patterns *ret,
			  struct err *e) MUST_USE;

/* Does a pattern match? name: normal. version NULL: any version of the name would do. version "":
 * unknown, and `unknown` says whether a pattern with a version matches. */
bool package_patterns_fit(const struct package_patterns *s, enum ecosystem eco, const char *name,
			  const char *version, bool unknown, uint32_t *ret_number);
/* Does a part of the path match a pattern without a version as the name of a git repository, with
 * two or more segments? The name begins at one of the first `starts` segments (below "/api/",
 * "/repos/": at more). path: normal. */
bool package_patterns_path(const struct package_patterns *s, const char *path, unsigned starts,
			   uint32_t *ret_number);
