/* resolver_conf.h - reads resolv.conf(5) and hosts(5) of the node. Called by resolver.c. Pure,
 * fuzzed. Unknown lines are skipped, as is usual for these files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/ip.h"

#define RESOLVER_CONF_SERVERS 3

struct resolver_conf {
	struct ip servers[RESOLVER_CONF_SERVERS];
	size_t nservers;     /* at least one: 127.0.0.1 if none is named */
	unsigned timeout_ms; /* of one attempt */
	unsigned attempts;   /* at each server */
	bool rotate;
	bool use_vc; /* TCP only */
};

/* "search" and "domain" are ignored: names are complete. */
void resolver_conf_read(const char *text, struct resolver_conf *ret);

struct resolver_hosts;

/* NULL: out of memory. At most RESOLVER_HOSTS_MAX names, those that host_normal() accepts. */
#define RESOLVER_HOSTS_MAX 8192
struct resolver_hosts *resolver_conf_hosts(const char *text);
void resolver_conf_hosts_free(struct resolver_hosts *h);
/* Return how many addresses of the name were found, at most cap. */
size_t resolver_conf_hosts_find(const struct resolver_hosts *h, const char *host, struct ip *ret,
				size_t cap);
