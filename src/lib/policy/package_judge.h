/* package_judge.h - decides about one request for a package. Pure, allocates nothing. Called by
 * cordon-egress for requests and for each version of a document that it shapes, and by `cordon
 * policy explain`.
 *
 * Layers are asked in the order node, tenant, session. All layers must allow the request, and the
 * answer names the first layer that refuses. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/packages/package_request.h"
#include "lib/policy/packages_policy.h"

struct advisories;
struct digest;	      /* of digest.h */
struct package_facts; /* of package_facts.h */

#define PACKAGE_RULE_MAX 64
#define PACKAGE_REASON_MAX                                                    \
	160 /* with its NUL: it is sent as the reason phrase of a status line \
	     */

enum package_verdict {
	PACKAGE_REFUSE,
	PACKAGE_ALLOW,
	PACKAGE_NEEDS_FACTS, /* ask again with the registry's metadata */
	/* no request for a package (a page at a git server): rules decide, and the registry's entry
	 * allows nothing */
	PACKAGE_BY_RULES,
};

/* A request, and all facts known so far. */
struct package_question {
	const struct package_registry *registry; /* NULL: a file at any other host */
	/* The whole path, NULL: unknown. `prefix` bytes of it stand in front of the name. */
	const char *path;
	size_t prefix;
	/* In how many of its first segments the name of a git repository may begin. Such a path
	 * tells a name in every kind of request. 0: the host is no git server. */
	unsigned git_starts;
	/* More bytes may stand in front of the name than belong to the package, because the layout
	 * of the host is unknown. Also set without a registry. */
	bool is_loose;
	/* The meaning of the request if the policy had no entry for its host. NULL: the entry does
	 * not change it. */
	const struct package_request *direct;
	/* To shape a document: kind PACKAGE_FILE, and one version (and file) of it. */
	const struct package_request *request;
	/* NULL: the registry was not asked so far. All zero: the metadata does not tell. */
	const struct package_facts *facts;
	uint64_t now_ms;	/* since the epoch */
	uint64_t first_seen_ms; /* when this node first saw the version, 0: unknown */
	/* The version claims to be older than metadata that did not list it, so the first sight
	 * counts. */
	bool is_backdated;
	const struct advisories *advisories; /* NULL: none imported */
	/* Is it one version of a shaped document? Then install code does not count: see
	 * may_scripts(). */
	bool is_in_list;
};

/* Digests. A file must have one of them. */
struct package_pins {
	const struct digest *list;
	size_t n; /* 0: any */
};

/* The decision. Pins point into the policy. */
struct package_answer {
	enum package_verdict verdict;
	/* a name listed in `own`, asked at another registry: the client is told that it does not
	 * exist */
	bool is_absent;
	bool is_offline;		 /* refused because this session installs nothing */
	char rule[PACKAGE_RULE_MAX];	 /* "session packages.min_age", "": no rule decided */
	char reason[PACKAGE_REASON_MAX]; /* of a refusal: printable ASCII */
	struct package_pins pins[3];	 /* for each layer: the file must satisfy all of them */
};

/* Decide. p NULL: everything is allowed. */
void package_judge(const struct packages_policy *p, const struct package_question *q,
		   struct package_answer *ret);

/* Decide by the member of one layer (enum policy_layer) alone, for explanations. */
void package_judge_layer(const struct packages_policy *p, size_t layer,
			 const struct package_question *q, struct package_answer *ret);
/* Does the layer have a packages member? */
bool package_judge_has(const struct packages_policy *p, size_t layer);

/* May a file without a known digest pass? False: ret has the refusal. */
bool package_judge_unverified(const struct packages_policy *p, const struct package_question *q,
			      struct package_answer *ret);

/* Does the file with this digest satisfy the pins? Pins with only digests of other algorithms do
 * not accept it. */
bool package_answer_accepts(const struct package_answer *a, const struct digest *of_file);
