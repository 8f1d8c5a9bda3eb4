#include "front/e2b/control/netname.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* The bits of a block: one to three digits. */
static bool is_prefix(const char *text, unsigned max)
{
	size_t n = strspn(text, DIGITS);

	return n > 0 && n <= 3 && text[n] == '\0' && strtoul(text, NULL, 10) <= max;
}

/* An address of either kind, or a block of them. */
bool netname_is_address(const char *text)
{
	size_t n = strcspn(text, "/");
	struct in6_addr parsed;
	char address[64];
	bool six;

	if (n >= sizeof(address))
		return false;
	memcpy(address, text, n);
	address[n] = '\0';
	six = strchr(address, ':') != NULL;
	if (inet_pton(six ? AF_INET6 : AF_INET, address, &parsed) != 1)
		return false;
	return text[n] == '\0' || is_prefix(text + n + 1, six ? 128 : 32);
}

/* Underscores are allowed, since names of services have them. */
static bool is_label(const char *at, size_t n)
{
	return n > 0 && n <= 63 && at[0] != '-' && at[n - 1] != '-' &&
	       strspn(at, LETTERS DIGITS "-_") >= n;
}

/* A name, or all names below one: "*.example.com". Text that looks like a mistyped address is not a
 * name. */
bool netname_is_name(const char *text, size_t max)
{
	size_t n = 0;

	if (strlen(text) > max)
		return false;
	if (strncmp(text, "*.", 2) == 0)
		text += 2;
	for (;; text += n + 1) {
		n = strcspn(text, ".");
		if (!is_label(text, n))
			return false;
		if (text[n] == '\0')
			return strspn(text, DIGITS) < n;
	}
}

/* "host" or "host:port", where "${PORT}" stands for the requested port. */
bool netname_is_host(const char *text)
{
	static const char port[] = "${PORT}";
	size_t n;

	for (; *text != '\0'; text += n) {
		n = strspn(text, LETTERS DIGITS ".-_:[]");
		if (n == 0 && strncmp(text, port, sizeof(port) - 1) == 0)
			n = sizeof(port) - 1;
		if (n == 0)
			return false;
	}
	return true;
}

/* "host:port" of a proxy. */
bool netname_is_endpoint(const char *text)
{
	const char *colon = strrchr(text, ':');
	char host[NETNAME_MAX + 3];
	size_t n = colon == NULL ? 0 : (size_t)(colon - text), digits;

	if (n == 0 || n >= sizeof(host))
		return false;
	digits = strspn(colon + 1, DIGITS);
	if (digits == 0 || digits > 5 || colon[1 + digits] != '\0' ||
	    strtoul(colon + 1, NULL, 10) == 0 || strtoul(colon + 1, NULL, 10) > 65535)
		return false;
	memcpy(host, text, n);
	host[n] = '\0';
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		return strchr(host, '/') == NULL && strchr(host, ':') != NULL &&
		       netname_is_address(host + 1);
	}
	return strchr(host, '/') == NULL && host[0] != '*' &&
	       (netname_is_name(host, NETNAME_MAX) ||
		(strchr(host, ':') == NULL && netname_is_address(host)));
}
