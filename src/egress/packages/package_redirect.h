/* package_redirect.h - redirects of registries: the ones to follow, and where to. Called wherever
 * egress asks a registry: package_gate_answer.c, package_gate_sums.c, package_load.c. Pure.
 *
 * A registry leads to its own hosts only (package_source.h), with the scheme it was asked with, and
 * not forever. Callers send no credentials to where it leads. They judge the place, which may have
 * the name of another package (package_gate_answer.c, package_load.c). */
#pragma once

#include "egress/packages/package_source.h"
#include "lib/policy/package_recognise.h"
#include "lib/policy/policy.h"

#define PACKAGE_REDIRECTS_MAX 3U /* of one request */
#define PACKAGE_REDIRECT_TARGET_MAX 2048

/* Is it a status whose Location is to be asked instead? */
bool package_redirect_is(int status);
/* Read the Location of the answer to a request sent to `to`, and count it. False: it is not
 * followed, and why has the reason. To and target are as they were. */
bool package_redirect_read(const struct package_hosts *h, const char *location, unsigned *count,
			   struct endpoint *to, char target[PACKAGE_REDIRECT_TARGET_MAX],
			   char why[POLICY_REASON_MAX]) MUST_USE;

/* The request that a place means. */
struct package_place {
	/* False: it tells nothing about a package, and files are often at such places. */
	bool is_judged;
	bool is_named;		    /* it tells the name of a package */
	struct package_found found; /* its path is the one below */
	char path[3 * PACKAGE_REDIRECT_TARGET_MAX], query[3 * PACKAGE_REDIRECT_TARGET_MAX];
};
/* Recognises a place that package_redirect_read() has found, for an answer to a request of this
 * method and kind. False: it is malformed. */
bool package_redirect_place(const struct packages_policy *p, const struct endpoint *to,
			    const char *method, enum package_kind kind, const char *target,
			    struct package_place *ret) MUST_USE;
/* Does the place tell another package than this one? A host with an unknown layout may have more in
 * front of the name. */
bool package_redirect_renames(const struct package_place *place, enum ecosystem eco,
			      const char *name);
