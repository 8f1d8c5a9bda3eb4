#include "pull_policy.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The next item of a list, separated by commas or spaces; false at its end. */
static bool next_item(const char **at, const char **ret, size_t *ret_n)
{
	*at += strspn(*at, ", ");
	*ret = *at;
	*ret_n = strcspn(*at, ", ");
	*at += *ret_n;
	return *ret_n > 0;
}

/* Without the port. */
static size_t name_length(const char *host)
{
	const char *end = strrchr(host, ']'), *colon = strrchr(host, ':');

	return colon != NULL && (end == NULL || colon > end) ? (size_t)(colon - host)
							     : strlen(host);
}

static bool same(const char *item, size_t n, const char *host, size_t len)
{
	return n == len && strncasecmp(item, host, n) == 0;
}

static bool fits(const char *item, size_t n, const char *host)
{
	size_t name = name_length(host);

	if (n == 1 && item[0] == '*')
		return true;
	if (n > 2 && item[0] == '*' && item[1] == '.')
		return name > n - 1 && strncasecmp(host + name - (n - 1), item + 1, n - 1) == 0;
	return same(item, n, host, strlen(host)) || same(item, n, host, name);
}

bool pull_policy_allows(const char *registries, const char *host)
{
	const char *item;
	size_t n;

	while (next_item(&registries, &item, &n))
		if (fits(item, n, host))
			return true;
	return false;
}

void pull_policy_mirror(const char *mirrors, const char *host, char ret[PULL_URL_MAX])
{
	const char *item;
	size_t n;

	ret[0] = '\0';
	while (ret[0] == '\0' && next_item(&mirrors, &item, &n)) {
		const char *eq = memchr(item, '=', n);
		size_t key = eq == NULL ? 0 : (size_t)(eq - item);

		if (eq != NULL && same(item, key, host, strlen(host)) && n - key - 1 < PULL_URL_MAX)
			(void)snprintf(ret, PULL_URL_MAX, "%.*s", (int)(n - key - 1), eq + 1);
	}
}

static void add(char ret[PULL_HOSTS_MAX], const char *host, size_t n)
{
	size_t at = strlen(ret);

	if (at + n + 2 < PULL_HOSTS_MAX)
		(void)snprintf(ret + at, PULL_HOSTS_MAX - at, "%s%.*s", at > 0 ? "," : "", (int)n,
			       host);
}

void pull_policy_open_hosts(const char *registries, const char *mirror, char ret[PULL_HOSTS_MAX])
{
	const char *item, *host = strstr(mirror, "://");
	size_t n;

	ret[0] = '\0';
	while (next_item(&registries, &item, &n))
		if (item[0] != '*')
			add(ret, item, n);
	if (host != NULL)
		add(ret, host + 3, strcspn(host + 3, "/"));
}

const char *pull_policy_server(const char *host)
{
	return strcmp(host, "docker.io") == 0 ? "registry-1.docker.io" : host;
}
