/* package_source.h - where a registry keeps the metadata that egress needs of a package, and which
 * addresses belong to a registry. Pure. Called by package_gate.c and package_view.c. */
#pragma once

#include <stddef.h>

#include "egress/flow/endpoint.h"
#include "lib/packages/package_meta.h"
#include "lib/packages/package_request.h"
#include "lib/policy/packages_policy.h"
#include "lib/wire/cache_msg.h"

#define PACKAGE_TARGET_MAX 1024

/* A document of a registry. */
struct package_source {
	enum package_doc doc;
	char target[PACKAGE_TARGET_MAX]; /* its path, as it is sent */
	const char *accept;		 /* NULL: anything */
	size_t host; /* 0: the registry's own. n: the nth of its hosts for files */
};

/* The document that says most of the name (and version) of a request. False: the ecosystem has
 * none that egress reads, or the request has no name. */
bool package_source_of(const struct package_registry *r, const struct package_request *q,
		       struct package_source *ret);

/* The checksum file with this ending (".sha512") beside the Maven repository file with this path
 * and host (0: the registry's own). False: too long. */
bool package_source_checksum(const char *path, const char *ending, size_t host,
			     struct package_source *ret);
/* The record of a Go module in the registry's checksum database. False: it has none. */
bool package_source_sumdb(const struct package_registry *r, const struct package_request *q,
			  struct package_source *ret);
/* The registry's host, as in package_source. */
size_t package_source_host(const struct package_registry *r, const char *name);

/* The hosts of a registry, copied: those of a policy end with it. */
struct package_hosts {
	size_t n;
	bool tls;
	struct package_hosts_one {
		char name[HOST_MAX];
		uint16_t port;
	} * at; /* owned. The first is the registry's own */
};
/* -1: out of memory. */
int package_hosts_copy(struct package_hosts *h, const struct package_registry *r,
		       bool tls) MUST_USE;
void package_hosts_release(struct package_hosts *h);
/* Does this address, as a document or a Location header writes it, lead to one of the hosts? The
 * endpoint and the rest (path and query) of an absolute one. For a relative one (no host in it)
 * ret_to is not changed. ret_to, ret_rest may be NULL. */
bool package_hosts_hold(const struct package_hosts *h, const char *url, struct endpoint *ret_to,
			const char **ret_rest);

/* "npm https://registry.example:443/prefix/", for keys of the cache. The scheme belongs to it: an
 * answer in the clear is never taken for one over TLS. */
#define PACKAGE_REGISTRY_TEXT CACHE_REGISTRY_MAX
void package_registry_text(const struct package_registry *r, bool tls,
			   char ret[PACKAGE_REGISTRY_TEXT]);
uint16_t package_registry_port(const struct package_host *h, bool tls);
