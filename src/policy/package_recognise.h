/* package_recognise.h - which package a request is about: by its host, method, path and query
 * alone. Pure. Called by package_gate.c of cordon-egress, and by tests that compare it with what
 * real servers answer. */
#pragma once

#include "package_judge.h"

struct package_target {
	const char *host; /* its name; "": only an address is known */
	uint16_t port;
	const char *method, *path, *query; /* normal (path.h); query may be NULL */
	/* Only an entry of `registries` lets it pass, no rule: other files of the host do not. */
	bool by_registry;
};

struct package_found {
	const struct package_registry *registry; /* NULL: a direct URL */
	bool at_registry; /* its host is one of a registry, also if it is a direct URL */
	bool is_files;	  /* that host is one of the registry's for files */
	struct package_request request;
	/* For struct package_question. */
	const char *path;
	bool is_loose;
};

/* p NULL: the registries that Cordon knows, for records. False: the request has nothing to do with
 * packages. */
bool package_recognise(const struct packages_policy *p, const struct package_target *t,
		       struct package_found *ret);
