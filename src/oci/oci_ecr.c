#include "oci_ecr.h"

#include <stdio.h>
#include <string.h>

#define ACCOUNT 12 /* digits */

static const char digits[] = "0123456789";
static const char region_set[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

static bool skip(const char **at, const char *text)
{
	size_t n = strlen(text);

	if (strncmp(*at, text, n) != 0)
		return false;
	*at += n;
	return true;
}

bool oci_ecr_read(const char *host, struct oci_ecr *ret)
{
	const char *at = host + ACCOUNT;
	const char *api = "api.ecr";
	size_t n;

	if (strspn(host, digits) != ACCOUNT || !skip(&at, ".dkr.ecr"))
		return false;
	if (skip(&at, "-fips"))
		api = "ecr-fips";
	if (!skip(&at, "."))
		return false;
	n = strspn(at, region_set);
	if (n == 0 || n >= sizeof(ret->region))
		return false;
	(void)snprintf(ret->region, sizeof(ret->region), "%.*s", (int)n, at);
	at += n;
	if (strcmp(at, ".amazonaws.com") != 0 && strcmp(at, ".amazonaws.com.cn") != 0)
		return false;
	(void)snprintf(ret->api, sizeof(ret->api), "%s.%s%s", api, ret->region, at);
	return true;
}
