#include "pull/address.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/ip.h"
#include "lib/base/str.h"
#include "lib/http/http1.h"

/* Return -1. Texts of a registry are never part of the message. */
static int address_bad(struct err *e, const char *why)
{
	return err_set(e, ERR_INVALID, "address of the registry or of a redirect: %s", why);
}

/* "name", "192.0.2.1", "[2001:db8::1]" */
static int address_read_host(const char *p, size_t n, char ret[HOST_MAX])
{
	struct ip ip;
	char text[IP_TEXT_MAX];

	if (n > 2 && p[0] == '[' && p[n - 1] == ']') {
		if (ip_read(p + 1, n - 2, &ip) < 0 || memchr(p, ':', n) == NULL)
			return -1;
	} else if (memchr(p, ':', n) != NULL || ip_read(p, n, &ip) < 0) {
		return host_normal(p, n, ret);
	}
	ip_format(&ip, text);
	str_copy_to(ret, HOST_MAX, text);
	return 0;
}

/* Digits only, from 1 to 65535. */
static int address_read_port(const char *p, size_t n, uint16_t *ret)
{
	unsigned port = 0;

	if (n == 0 || n > 5)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -1;
		port = port * 10 + (unsigned)(p[i] - '0');
	}
	if (port == 0 || port > 65535)
		return -1;
	*ret = (uint16_t)port;
	return 0;
}

/* "host" or "host:port". The port stays as it is without one. */
static int address_read_authority(const char *p, size_t n, struct address *a)
{
	size_t host = n;

	for (size_t i = n; i > 0 && p[i - 1] != ']'; i--)
		if (p[i - 1] == ':') {
			host = i - 1;
			break;
		}
	if (host < n && address_read_port(p + host + 1, n - host - 1, &a->port) < 0)
		return -1;
	return address_read_host(p, host, a->host);
}

/* The fragment is cut off, since requests carry none. Characters that HTTP does not allow in a
 * target are refused, so no address can add a header to a request. */
static int address_set_target(struct address *a, const char *p, size_t n, struct err *e)
{
	const char *end = n == 0 ? NULL : memchr(p, '#', n);
	bool bare = n == 0 || p[0] != '/';

	if (end != NULL)
		n = (size_t)(end - p);
	if (n + bare >= sizeof(a->target))
		return address_bad(e, "too long");
	a->target[0] = '/';
	if (n > 0)
		memcpy(a->target + bare, p, n);
	a->target[n + bare] = '\0';
	if (!http1_is_target(a->target, strlen(a->target)))
		return address_bad(e, "has a byte that is not allowed in a URL");
	return 0;
}

/* By name or number, without a lookup. on_connected() in get.c compares the real address. */
bool address_is_loopback(const struct address *a)
{
	struct ip ip;

	if (ip_read(a->host, strlen(a->host), &ip) == 0)
		return ip_kind(&ip) == IP_LOOPBACK;
	return host_is_localhost(a->host);
}

/* The part behind "scheme://". */
static int address_read_rest(const char *p, size_t n, struct address *a, struct err *e)
{
	size_t host = 0;

	while (host < n && strchr("/?#", p[host]) == NULL)
		host++;
	a->port = a->tls ? 443 : 80;
	if (memchr(p, '@', host) != NULL)
		return address_bad(e, "has a user name");
	if (address_read_authority(p, host, a) < 0)
		return address_bad(e, "malformed host or port");
	if (!a->tls && !address_is_loopback(a))
		return address_bad(e, "plain http is for loopback only");
	return address_set_target(a, p + host, n - host, e);
}

static bool address_has_scheme(const char *p, size_t n, const char *scheme)
{
	return n >= strlen(scheme) && strncasecmp(p, scheme, strlen(scheme)) == 0;
}

int address_read(const char *url, size_t n, struct address *ret, struct err *e)
{
	struct address a = { .tls = address_has_scheme(url, n, "https://") };
	size_t skip = a.tls ? 8 : 7;

	if (!a.tls && !address_has_scheme(url, n, "http://"))
		return address_bad(e, "neither https:// nor http://");
	if (memchr(url, '\0', n) != NULL)
		return address_bad(e, "has a NUL");
	if (address_read_rest(url + skip, n - skip, &a, e) < 0)
		return -1;
	*ret = a;
	return 0;
}

/* A redirect without a scheme keeps the one of `from`. Relative paths that do not begin with '/'
 * are refused. An https address may lead to plain http on loopback only. */
int address_follow(const struct address *from, const char *location, size_t n, struct address *ret,
		   struct err *e)
{
	struct address a = *from;

	if (n >= 2 && location[0] == '/' && location[1] == '/') {
		if (memchr(location, '\0', n) != NULL ||
		    address_read_rest(location + 2, n - 2, &a, e) < 0)
			return e->code == ERR_INVALID ? -1 : address_bad(e, "has a NUL");
	} else if (n >= 1 && location[0] == '/') {
		if (address_set_target(&a, location, n, e) < 0)
			return -1;
	} else {
		return address_read(location, n, ret, e);
	}
	*ret = a;
	return 0;
}

/* No scheme is written in a reference, so loopback registries are asked by plain http. */
int address_of_registry(const char *registry, struct address *ret, struct err *e)
{
	struct address a = { .target = "/" };

	if (address_read_authority(registry, strlen(registry), &a) < 0)
		return address_bad(e, "malformed host or port");
	a.tls = !address_is_loopback(&a);
	if (a.port == 0)
		a.port = a.tls ? 443 : 80;
	*ret = a;
	return 0;
}

bool address_same_origin(const struct address *a, const struct address *b)
{
	return a->tls == b->tls && a->port == b->port && strcmp(a->host, b->host) == 0;
}

void address_name(const struct address *a, char ret[ADDRESS_NAME_MAX])
{
	const char *open = strchr(a->host, ':') != NULL ? "[" : "", *close = *open ? "]" : "";

	if (a->port == (a->tls ? 443 : 80))
		(void)snprintf(ret, ADDRESS_NAME_MAX, "%s%s%s", open, a->host, close);
	else
		(void)snprintf(ret, ADDRESS_NAME_MAX, "%s%s%s:%u", open, a->host, close,
			       (unsigned)a->port);
}

/* An item that cannot be read fits nothing. */
bool address_is_listed(const struct address *a, const char *list)
{
	for (const char *p = list + strspn(list, ", "); *p != '\0'; p += strspn(p, ", ")) {
		size_t n = strcspn(p, ", ");
		struct address item = { 0 };

		if (address_read_authority(p, n, &item) == 0 && strcmp(item.host, a->host) == 0 &&
		    (item.port == 0 || item.port == a->port))
			return true;
		p += n;
	}
	return false;
}
