/* package_patterns.h - lists of patterns of packages, ECOSYSTEM:NAME[@VERSION], and how one is
 * found in ten thousand. Private to src/policy; read with a document, asked by package_judge.c. */
#pragma once

#include "packages_policy.h"
#include "policy_private.h"

#define PACKAGE_PATTERNS_MAX 16384 /* of one list */
#define PACKAGE_SLOW_MAX 128	   /* of one list: compared one by one */
#define PACKAGE_STARS_MAX 8	   /* of these: with a star that is neither first nor last */

/* Texts are kept in large pieces, which are freed with the policy. */
struct package_arena {
	char *at;
	size_t left;
};
/* A copy; NULL: out of memory. */
const char *package_arena_keep(struct policy *p, struct package_arena *a, const char *text,
			       size_t n);

struct package_pattern {
	enum ecosystem ecosystem;
	const char *name;    /* normal form; of a prefix without its star */
	const char *version; /* "": any */
	size_t n;	     /* bytes of the name */
	uint32_t number;     /* its place in the list, for reasons */
	uint32_t parent;     /* of a prefix: the next shorter one; UINT32_MAX: none */
};

/* exact: sorted by ecosystem, name and version, neither with a star. prefixes: NAME is one star at
 * its end, any version; sorted in the same way. slow: all others. */
struct package_patterns {
	struct package_pattern *exact, *prefixes, *slow;
	size_t nexact, nprefixes, nslow, nstars;
	bool given;
};

/* v NULL: the list is empty and not given. */
int package_patterns_read(struct policy *p, struct package_arena *a, const json_t *v,
			  const char *at, const char *name, struct package_patterns *ret,
			  struct err *e) MUST_USE;

/* Does a pattern match? name: normal. version NULL: any version of the name would do; "": it is not
 * known, and `unknown` says whether a pattern with a version matches. */
bool package_patterns_fit(const struct package_patterns *s, enum ecosystem eco, const char *name,
			  const char *version, bool unknown, uint32_t *ret_number);
/* Is any part of a path from its beginning (below "/api/", "/repos/": from any place) the name of a
 * git repository, of two segments or more, that a pattern without a version has? path: normal. */
bool package_patterns_path(const struct package_patterns *s, const char *path,
			   uint32_t *ret_number);
