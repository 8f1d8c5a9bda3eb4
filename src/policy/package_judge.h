/* package_judge.h - decides about one request for a package. Pure, allocates nothing. Called by
 * cordon-egress for requests and for each version of a document that it shapes, and by `cordon
 * policy explain`.
 *
 * Layers are asked in the order node, tenant, session; all must allow it, and the first that
 * refuses is named in the answer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "package_request.h"
#include "packages_policy.h"

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
	PACKAGE_NEEDS_FACTS, /* ask again with what the registry's metadata says */
	PACKAGE_BY_RULES,    /* no request for a package (a page at a git server): rules decide, and
				the registry's entry allows nothing */
};

struct package_question {
	const struct package_registry *registry; /* NULL: a file at any other host */
	/* Of a request to a git server, without the registry's prefix: it tells a name, too,
	 * whatever the request is for. NULL: another server. */
	const char *path;
	/* More may stand in front of the name than the package is called: the layout of the host is
	 * not known. So without a registry. */
	bool is_loose;
	/* To shape a document: kind PACKAGE_FILE, and one version (and file) of it. */
	const struct package_request *request;
	/* NULL: not asked for so far. All zero: the metadata does not tell. */
	const struct package_facts *facts;
	uint64_t now_ms;	/* since the epoch */
	uint64_t first_seen_ms; /* when this node first saw the version; 0: not known */
	/* It claims to be older than metadata that did not have it: the first sight counts. */
	bool is_backdated;
	const struct advisories *advisories; /* NULL: none imported */
	/* Is it one version of a document that is shaped? Install code does not count then: see
	 * may_scripts(). */
	bool is_in_list;
};

/* Digests of which a file must have one. */
struct package_pins {
	const struct digest *list;
	size_t n; /* 0: any */
};

struct package_answer {
	enum package_verdict verdict;
	bool is_absent;	 /* a name of one's own, asked of another registry: it does not exist there
			  */
	bool is_offline; /* refused since nothing is installed in this session */
	char rule[PACKAGE_RULE_MAX];	 /* "session packages.min_age"; "": no rule decided */
	char reason[PACKAGE_REASON_MAX]; /* of a refusal: printable ASCII */
	struct package_pins pins[3];	 /* of each layer: the file must be in each */
};

/* p NULL: allows everything. */
void package_judge(const struct packages_policy *p, const struct package_question *q,
		   struct package_answer *ret);

/* As package_judge(), by the member of one layer (enum policy_layer) alone, for explanations. */
void package_judge_layer(const struct packages_policy *p, size_t layer,
			 const struct package_question *q, struct package_answer *ret);
/* Has the layer a packages member? */
bool package_judge_has(const struct packages_policy *p, size_t layer);

/* May a file of which no digest is known pass? False: ret has the refusal. */
bool package_judge_unverified(const struct packages_policy *p, const struct package_question *q,
			      struct package_answer *ret);

/* Does the file with this digest satisfy the pins? Pins with digests of other algorithms only do
 * not accept it. */
bool package_answer_accepts(const struct package_answer *a, const struct digest *of_file);
