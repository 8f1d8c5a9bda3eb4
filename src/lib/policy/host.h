/* host.h - host names in their normal form, and patterns of them. Pure, fuzzed. Used by this
 * folder and by cordon-egress for names in DNS queries, ClientHellos, Host headers and URLs.
 *
 * Rules are compared with the normal form, and egress resolves and sends on the normal form. So
 * two spellings must never have the same normal form if a resolver or server could treat them as
 * different hosts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/own.h"

#define HOST_MAX 254 /* with its NUL */

/* Write the normal form: lower-case ASCII, labels of letters, digits, '-' and '_' (1 to 63 bytes),
 * at most 253 bytes, without a final dot. Return -1 for any other text. That includes texts that
 * could be an address (the last label is a number in any base), and texts that need another
 * encoding (bytes above 127, escapes, "@", NUL). Names in other scripts arrive as xn--. */
int host_normal(const char *text, size_t n, char ret[HOST_MAX]) MUST_USE;

/* Is it localhost or a name below localhost? RFC 6761 reserves these names for the loopback
 * interface, so the answer of a name server is ignored. host: normal. */
bool host_is_localhost(const char *host);

/* A pattern of names. "example.com": this name. "*.example.com": all names below it, at any depth.
 * "*": every name. */
struct host_pattern {
	bool below, any;
	size_t n;
	char text[HOST_MAX]; /* normal form, without "*." */
};
/* Return -1 for a malformed pattern. */
int host_pattern_read(const char *text, struct host_pattern *ret) MUST_USE;
/* Does the pattern match? host: normal, n bytes. */
bool host_pattern_fits(const struct host_pattern *p, const char *host, size_t n);
