/* packages_policy.h - the `packages` member of a network policy: which packages a session may
 * install, and from where. doc/policy.md describes it for its authors. Read with the rest of the
 * document (policy.h); package_judge.h decides about requests. Pure: no clock, no I/O.
 *
 * Each layer keeps its own member: they are never merged into one. A request must be allowed by
 * each of them, so a lower layer can only make it stricter. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host.h"
#include "package.h"

struct policy;
struct packages_policy;

/* A host that a registry answers at. */
struct package_host {
	const char *name; /* in its normal form (host.h) */
	uint16_t port;	  /* 0: 443, and 80 for apt. Plain HTTP of others needs a rule */
	/* Of a host for files: the prefix of its paths, which ends with "/". NULL: not known; that
	 * of the registry, or none. */
	const char *path;
};

/* The longest path of an entry and the longest "HOST:PORT/PATH/", with NUL; cache_msg.h and
 * package_record_text.h have room for it. */
#define PACKAGE_REGISTRY_PATH_MAX 241
#define PACKAGE_REGISTRY_MAX (HOST_MAX + sizeof(":65535") - 1 + PACKAGE_REGISTRY_PATH_MAX - 1)

struct package_registry {
	enum ecosystem ecosystem;
	const char *name; /* "npm", or of one that the policy describes: its host */
	struct package_host host;
	const char *path;		  /* "/", or a prefix that ends with "/" */
	const struct package_host *files; /* other hosts it names in its documents */
	size_t nfiles;
	bool is_private; /* what it answers is kept apart for each tenant */
	/* Go: the checksum database, asked at its host if that is one of files, else through the
	 * registry, at sumdb/NAME/. NULL: none. */
	const char *sumdb;
	/* In no list of `registries`: recognised, so that its packages are judged, but rules must
	 * allow its hosts. */
	bool is_implicit;
};

/* The packages member of a merged policy; NULL: no layer has one. */
const struct packages_policy *policy_packages(const struct policy *p);

/* The registry that a request belongs to; NULL: none. p NULL: the policy has no packages member, and
 * only the registries that Cordon knows are looked for, for records. path: normal, without its query; NULL: any.
 * *ret_files: the host is one of its hosts for files. The longest prefix of paths decides. */
const struct package_registry *packages_registry(const struct packages_policy *p, const char *host,
						 uint16_t port, const char *path, bool *ret_files);
/* How many bytes of a path stand before what package_request_read() reads, a slash at its end not
 * counted. -1: the path is none of this host's that has packages. *ret_known: nothing else stands
 * before a name; false at a host for files of which the prefix is not known. */
int packages_registry_prefix(const struct package_registry *r, const char *host, uint16_t port,
			     const char *path, bool *ret_known);

/* The first registry of an ecosystem that the policy lists, else the first built-in one; NULL:
 * none. p may be NULL. */
const struct package_registry *packages_registry_for(const struct packages_policy *p,
						     enum ecosystem eco);

/* Is only what the cache holds to be used (mode "offline-cache")? Mode "offline" is refused by
 * package_judge(). */
bool packages_cache_only(const struct packages_policy *p);
/* The strictest of all layers. 0: no limit. */
struct packages_limits {
	uint64_t bytes;	     /* of all files of a session, from the cache, too */
	uint64_t file_bytes; /* of one file */
	uint64_t new_names;  /* names that no registry knows: answers of 404 */
};
const struct packages_limits *packages_limits(const struct packages_policy *p);
/* Is the session's tenant kept out of the views that tenants share ("cache": "private")? */
bool packages_cache_is_private(const struct packages_policy *p);

/* Does any layer want an age (min_age)? */
bool packages_wants_age(const struct packages_policy *p);

/* Splits ECOSYSTEM:NAME[@VERSION]. name is normal; version is "" if there is none, and may have
 * stars, as may the name if `stars`. False: malformed. */
struct package_name {
	enum ecosystem ecosystem;
	char name[PACKAGE_NAME_MAX];
	char version[PACKAGE_VERSION_MAX];
};
bool package_name_read(const char *text, bool stars, struct package_name *ret);
