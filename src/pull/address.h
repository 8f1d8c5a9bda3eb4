/* address.h - where a request of cordon-pull goes: "https://host:port/target". Pure, fuzzed.
 *
 * Plain http is for this machine's loopback only: the name must be localhost or a loopback address,
 * and get.c compares the address that it is connected to, too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/policy/host.h"

#define ADDRESS_TARGET_MAX 4096

struct address {
	bool tls;
	char host[HOST_MAX]; /* a name in its normal form, or an address as text without brackets */
	uint16_t port;
	char target[ADDRESS_TARGET_MAX]; /* begins with '/' */
};

/* An absolute URL. ERR_INVALID: malformed, has a user name, or is plain and not loopback. */
int address_read(const char *url, size_t n, struct address *ret, struct err *e) MUST_USE;
/* Where a redirect leads from there: an absolute URL, "//host/path", or a path. */
int address_follow(const struct address *from, const char *location, size_t n, struct address *ret,
		   struct err *e) MUST_USE;
/* "host", "host:port", "[::1]:port" of a reference, without a scheme: https, plain for loopback.
 * The target is "/". */
int address_of_registry(const char *registry, struct address *ret, struct err *e) MUST_USE;

/* Are scheme, host and port the same? Then credentials for one may be sent to the other. */
bool address_same_origin(const struct address *a, const struct address *b);
/* Is it a name or an address of loopback, by its spelling? */
bool address_is_loopback(const struct address *a);
/* "host:port", the port left out if it is the usual one. As Host has it. */
#define ADDRESS_NAME_MAX (HOST_MAX + 10)
void address_name(const struct address *a, char ret[ADDRESS_NAME_MAX]);
/* Is it in the list: items "host" or "host:port" separated by commas or spaces? An item without a
 * port is for every port. Patterns fit nothing here: they are not exact. */
bool address_is_listed(const struct address *a, const char *list);
