/* host.h - host names in their normal form, and patterns of them. Pure, fuzzed. Used by this
 * folder and by cordon-egress for names in DNS queries, ClientHellos, Host headers and URLs.
 *
 * Rules are compared with the normal form, and egress resolves and sends on the normal form. So
 * two spellings must never have the same normal form if a resolver or server could treat them as
 * different hosts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "own.h"

#define HOST_MAX 254 /* with its NUL */

/* The normal form: lower-case ASCII, labels of letters, digits, '-' and '_' (1 to 63 bytes), at
 * most 253 bytes, without a final dot. -1: anything else, above all what could be taken for an
 * address (a last label that is a number in any base) or needs another encoding (bytes above 127,
 * escapes, "@", NUL): names in other scripts come as xn--. */
int host_normal(const char *text, size_t n, char ret[HOST_MAX]) MUST_USE;

/* localhost, and names below it: loopback, whatever a name server answers (RFC 6761). host: normal.
 */
bool host_is_localhost(const char *host);

/* "example.com": the name itself; "*.example.com": all names below it, at any depth; "*": every
 * name. */
struct host_pattern {
	bool below, any;
	size_t n;
	char text[HOST_MAX]; /* in its normal form, without "*." */
};
int host_pattern_read(const char *text, struct host_pattern *ret) MUST_USE;
/* host: normal, n bytes. */
bool host_pattern_fits(const struct host_pattern *p, const char *host, size_t n);
