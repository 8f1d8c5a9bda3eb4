/* host.h - names of hosts in their normal form, and patterns of them. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "own.h"

#define HOST_MAX 254 /* with its NUL */

/* Lower-case ASCII, labels of letters, digits, '-' and '_' (1 to 63), at most 253 in all, without
 * the one dot at the end that may be there. -1: anything else, above all what somebody could take
 * for an address (a last label that is a number in any base) or that needs another encoding
 * (bytes above 127, escapes, "@", NUL): names in other scripts come as xn--. */
int host_normal(const char *text, size_t n, char ret[HOST_MAX]) MUST_USE;

/* localhost, and what is below it: loopback, whatever a server says (RFC 6761). host: normal. */
bool host_is_localhost(const char *host);

/* "example.com" itself; "*.example.com": all below it, at any depth, not itself; "*": every name.
 */
struct host_pattern {
	bool below, any;
	size_t n;
	char text[HOST_MAX]; /* in its normal form, without "*." */
};
int host_pattern_read(const char *text, struct host_pattern *ret) MUST_USE;
/* host: normal, n bytes. */
bool host_pattern_fits(const struct host_pattern *p, const char *host, size_t n);
