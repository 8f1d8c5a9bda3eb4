/* resolver_conf.h - resolv.conf(5) and hosts(5). Pure, fuzzed; what is not understood is skipped,
 * as everybody does with these files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ip.h"

#define RESOLVER_CONF_SERVERS 3

struct resolver_conf {
	struct ip servers[RESOLVER_CONF_SERVERS];
	size_t nservers;     /* at least one: without any it is 127.0.0.1 */
	unsigned timeout_ms; /* of one try */
	unsigned attempts;   /* at each server */
	bool rotate;
	bool use_vc; /* TCP only */
};

/* "search" and "domain" mean nothing here: names are whole. */
void resolver_conf_read(const char *text, struct resolver_conf *ret);

struct resolver_hosts;

/* NULL: no memory. At most RESOLVER_HOSTS_MAX names, those that host_normal() takes. */
#define RESOLVER_HOSTS_MAX 8192
struct resolver_hosts *resolver_conf_hosts(const char *text);
void resolver_conf_hosts_free(struct resolver_hosts *h);
/* Returns how many addresses the name has there, at most cap. */
size_t resolver_conf_hosts_find(const struct resolver_hosts *h, const char *host, struct ip *ret,
				size_t cap);
