/* package_apt.h - which indexes of an apt archive programs have asked for, so that egress knows
 * where to look for the digest of a package file: a file does not say which suite it belongs to.
 * Called by package_gate_answer.c and package_gate_sums.c.
 *
 * There is a list for each registry and scope, and none is shared between tenants: what programs of
 * one ask for would take the paths of others away. It holds paths of documents that the registry
 * has answered with 200, the last used first, and is kept in the package cache, too: for later
 * processes, and for sessions that take everything from the cache. It says where to look, and
 * nothing about any file, so a wrong list can only make a file unknown. It also knows since when
 * programs have the last seen release: egress must not use an older one. Bounded: lists of a tenant
 * and of a process, paths of a list. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache_found;
struct egress;

#define PACKAGE_APT_LISTS 512U
#define PACKAGE_APT_TENANT_LISTS 8U
#define PACKAGE_APT_PATHS 64U
#define PACKAGE_APT_PATH_MAX 256U /* with NUL. Longer ones are not remembered */
#define PACKAGE_APT_PICKS 8U

/* The list's key. scope: of one tenant at most. */
struct package_apt_of {
	const char *tenant, *scope, *registry;
};

/* An index that may list a file. */
struct package_apt_pick {
	char release[PACKAGE_APT_PATH_MAX]; /* the path of InRelease or Release */
	char index[PACKAGE_APT_PATH_MAX];   /* the folder of Packages.gz, without the last '/' */
	uint64_t since_ms; /* when a program first got this release. 0: not known */
	size_t base;	   /* length of the archive's part of the file's path, with the last '/' */
};

/* The registry has this document. path: of the request, in its normal form. Others than Release and
 * Packages are ignored. sha256: of the document, if it has just come from there. Else NULL. */
void package_apt_note(struct egress *g, const struct package_apt_of *of, const char *path,
		      const uint8_t *sha256);
/* The indexes that may list a file, the last used first. Return how many. */
size_t package_apt_pick(struct egress *g, const struct package_apt_of *of, const char *path,
			struct package_apt_pick ret[PACKAGE_APT_PICKS]);

/* The path of the list in the cache. Add the paths found there. */
#define PACKAGE_APT_KEY "indexes"
void package_apt_found(struct egress *g, const struct package_apt_of *of,
		       const struct cache_found *found);
