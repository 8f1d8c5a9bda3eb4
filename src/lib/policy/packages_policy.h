/* packages_policy.h - the `packages` member of a network policy: the packages a session may
 * install, and their registries. doc/policy.md describes the member for its authors. It is read
 * with the rest of the document (policy.h). package_judge.h decides about requests. Pure: no clock,
 * no I/O.
 *
 * Each layer keeps its own member. Members are never merged into one. Each layer must allow a
 * request, so a lower layer can only make the policy stricter. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/packages/package.h"
#include "lib/policy/host.h"

struct policy;
struct packages_policy;

/* A host of a registry. */
struct package_host {
	const char *name; /* normal form (host.h) */
	uint16_t port;	  /* 0: 443, for apt also 80. Plain HTTP of other ecosystems needs a rule */
	/* For a host of files: the prefix of its paths, with "/" at its end. NULL: unknown. Then
	 * the prefix is the registry's, or there is none. */
	const char *path;
};

/* The longest path of an entry and the longest "HOST:PORT/PATH/", with NUL. cache_msg.h and
 * package_record_text.h have room for it. */
#define PACKAGE_REGISTRY_PATH_MAX 241
#define PACKAGE_REGISTRY_MAX (HOST_MAX + sizeof(":65535") - 1 + PACKAGE_REGISTRY_PATH_MAX - 1)

/* A registry, built in or described by the policy. */
struct package_registry {
	enum ecosystem ecosystem;
	const char *name; /* "npm", or for a registry of the policy: its host */
	struct package_host host;
	const char *path; /* "/", or a prefix with "/" at its end */
	/* The path in front of names if a built-in registry has the same host. An entry with a
	 * longer path serves a part of that registry, with the same names. NULL: path. */
	const char *base;
	const struct package_host *files; /* other hosts named in its documents */
	size_t nfiles;
	bool is_private; /* its answers are kept apart for each tenant */
	/* Go: the checksum database. It is asked at its host if this is a file host, else through
	 * the registry, at sumdb/NAME/. NULL: none. */
	const char *sumdb;
	/* Absent from all `registries` lists: its packages are recognised and judged, but rules
	 * must allow its hosts. */
	bool is_implicit;
};

/* The packages member of a merged policy. NULL: no layer has one. */
const struct packages_policy *policy_packages(const struct policy *p);

/* Find the registry of a request. NULL: none. p NULL: the policy has no packages member, and only
 * the registries that Cordon knows are searched, for records. path: normal, without its query,
 * NULL: any. *ret_files: the host serves files. The longest prefix of paths decides. */
const struct package_registry *packages_registry(const struct packages_policy *p, const char *host,
						 uint16_t port, const char *path, bool *ret_files);
/* How many bytes of a path stand in front of the part that package_request_read() reads, without a
 * final slash. -1: this host has no packages at the path. *ret_known: nothing else stands in front
 * of a name. False at a host of files with an unknown prefix. */
int packages_registry_prefix(const struct package_registry *r, const char *host, uint16_t port,
			     const char *path, bool *ret_known);

/* Is it a host of a built-in git server? */
bool packages_is_git_host(const char *host);

/* The first registry of an ecosystem in the policy, else the first built-in registry. NULL: none. p
 * may be NULL. */
const struct package_registry *packages_registry_for(const struct packages_policy *p,
						     enum ecosystem eco);

/* May only cached packages be used (mode "offline-cache")? package_judge() refuses mode
 * "offline". */
bool packages_cache_only(const struct packages_policy *p);
/* The strictest limits of all layers. 0: no limit. */
struct packages_limits {
	uint64_t bytes;	     /* of all files of a session, including cached files */
	uint64_t file_bytes; /* of one file */
	uint64_t new_names;  /* names unknown to their registry: answers of 404 */
};
const struct packages_limits *packages_limits(const struct packages_policy *p);
/* Is the session's tenant kept out of the views shared by tenants ("cache": "private")? */
bool packages_cache_is_private(const struct packages_policy *p);

/* Does any layer demand an age (min_age)? */
bool packages_wants_age(const struct packages_policy *p);

/* Split ECOSYSTEM:NAME[@VERSION]. name is normal. version is "" if absent, and may have stars, as
 * may the name if `stars`. False: malformed. */
struct package_name {
	enum ecosystem ecosystem;
	char name[PACKAGE_NAME_MAX];
	char version[PACKAGE_VERSION_MAX];
};
bool package_name_read(const char *text, bool stars, struct package_name *ret);
