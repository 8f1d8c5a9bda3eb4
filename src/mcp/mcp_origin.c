/* mcp_origin.c - Origin and Host: a page of another site must not use a server on this machine, not
 * even by a name that is made to resolve to it (DNS rebinding). */
#include <string.h>
#include <strings.h>

#include "mcp_request.h"

/* "name:80" or "[::1]:80" without the port. What is neither stays as it is, and equals no name. */
static struct http1_span without_port(struct http1_span host)
{
	size_t n = host.n;

	while (n > 0 && host.p[n - 1] >= '0' && host.p[n - 1] <= '9')
		n--;
	if (n < 2 || host.p[n - 1] != ':' || (host.p[0] == '[' && host.p[n - 2] != ']'))
		return host;
	return (struct http1_span){ host.p, n - 1 };
}

static bool is_loopback(struct http1_span host)
{
	struct http1_span name = without_port(host);

	return http1_span_is_nocase(name, "localhost") || http1_span_is(name, "127.0.0.1") ||
	       http1_span_is(name, "[::1]");
}

static bool is_ours(struct http1_span host, const char *const *hosts)
{
	if (is_loopback(host))
		return true;
	for (; hosts != NULL && *hosts != NULL; hosts++) {
		if (http1_span_is_nocase(host, *hosts) ||
		    http1_span_is_nocase(without_port(host), *hosts))
			return true;
	}
	return false;
}

/* The host and port of "https://host:port"; absent if it is no such origin ("null" is none). */
static struct http1_span origin_host(struct http1_span origin)
{
	static const char *const schemes[] = { "https://", "http://" };

	for (size_t i = 0; i < COUNT(schemes); i++) {
		size_t n = strlen(schemes[i]);

		if (origin.n > n && memcmp(origin.p, schemes[i], n) == 0 &&
		    memchr(origin.p + n, '/', origin.n - n) == NULL &&
		    memchr(origin.p + n, '@', origin.n - n) == NULL)
			return (struct http1_span){ origin.p + n, origin.n - n };
	}
	return (struct http1_span){ 0 };
}

static bool same(struct http1_span a, struct http1_span b)
{
	return a.n == b.n && a.n > 0 && strncasecmp(a.p, b.p, a.n) == 0;
}

bool mcp_origin_allowed(struct http1_span origin, struct http1_span host, const char *const *hosts,
			bool loopback_only)
{
	struct http1_span from = origin_host(origin);

	if (loopback_only && !is_ours(host, hosts))
		return false;
	if (origin.p == NULL)
		return true;
	if (from.p == NULL)
		return false;
	if (loopback_only)
		return is_ours(from, hosts);
	/* On loopback names any page of the machine's own user may call; elsewhere only our own. */
	return same(from, host) || (!is_loopback(from) && is_ours(from, hosts)) ||
	       (is_loopback(from) && is_loopback(host));
}
