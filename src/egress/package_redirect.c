/* package_redirect.c - where a registry may lead; see package_redirect.h. */
#include "package_redirect.h"

#include <stdio.h>
#include <string.h>

bool package_redirect_is(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool package_redirect_read(const struct package_hosts *h, const char *location, unsigned *count,
			   struct endpoint *to, char target[PACKAGE_REDIRECT_TARGET_MAX],
			   char why[POLICY_REASON_MAX])
{
	struct endpoint at = *to;
	const char *rest = "";
	size_t n;

	if (*count >= PACKAGE_REDIRECTS_MAX) {
		(void)snprintf(why, POLICY_REASON_MAX, "the registry redirects too often");
		return false;
	}
	++*count;
	if (!package_hosts_hold(h, location, &at, &rest) || rest[0] != '/') {
		(void)snprintf(why, POLICY_REASON_MAX,
			       "the registry redirects to %.100s, which is none of its hosts",
			       location);
		return false;
	}
	n = strcspn(rest, "#");
	if (n >= PACKAGE_REDIRECT_TARGET_MAX || strcspn(rest, " \t\r\n") < n) {
		(void)snprintf(why, POLICY_REASON_MAX,
			       "the registry redirects to an address that is malformed");
		return false;
	}
	*to = at;
	memcpy(target, rest, n);
	target[n] = '\0';
	return true;
}
