/* netname.h - is a text an address, a name, a place in the network? Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define NETNAME_MAX 253 /* characters of a domain */

/* An address of either kind, or a block of them: "10.0.0.0/8". */
bool netname_is_address(const char *text);
/* A domain, or all below one: "*.example.com". Text that looks like a mistyped address is not a
 * name. */
bool netname_is_name(const char *text, size_t max);
/* "host" or "host:port", where "${PORT}" stands for the requested port. */
bool netname_is_host(const char *text);
/* "host:port", where the host is a domain, an address or an IPv6 address in brackets. */
bool netname_is_endpoint(const char *text);
