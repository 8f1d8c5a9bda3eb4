/* package_recognise.h - finds the package of a request by host, method, path and query alone. Pure.
 * Called by package_gate.c of cordon-egress, and by tests that compare it with the answers of real
 * servers. */
#pragma once

#include "lib/policy/package_judge.h"

/* The request to recognise. */
struct package_target {
	const char *host; /* its name, "": only an address is known */
	uint16_t port;
	const char *method, *path, *query; /* normal (path.h), query may be NULL */
	/* No rule allows the request. An entry of `registries` lets it pass, so other files of the
	 * host stay closed. */
	bool by_registry;
};

/* The result: a request for a package, and the registry that serves it. */
struct package_found {
	const struct package_registry *registry; /* NULL: a direct URL */
	bool at_registry; /* its host belongs to a registry, also if the request is a direct URL */
	bool is_files;	  /* the host serves files of the registry */
	struct package_request request;
	/* For struct package_question. path is the target's. */
	const char *path;
	size_t prefix;
	unsigned git_starts;
	bool is_loose;
	/* Requests of git, Go and for images are understood at any host. Is it one of these, and
	 * does the entry give it another meaning? */
	bool has_direct;
	struct package_request direct;
};

/* Recognise a request. p NULL: only the registries that Cordon knows, for records. False: the
 * request is not for a package. */
bool package_recognise(const struct packages_policy *p, const struct package_target *t,
		       struct package_found *ret);
