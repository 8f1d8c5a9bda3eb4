#include "lib/oci/oci_ref.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define REGISTRY_PREFIX "library/"

static int ref_bad(struct err *e, const char *why)
{
	return err_set(e, ERR_INVALID, "image reference: %s", why);
}

/* The first part is a host if it cannot be a part of a path. 0: the reference has no host. */
static size_t ref_host_length(const char *text)
{
	size_t n = strcspn(text, "/");

	if (text[n] == '\0')
		return 0;
	if (memchr(text, '.', n) != NULL || memchr(text, ':', n) != NULL)
		return n;
	return n == 9 && memcmp(text, "localhost", 9) == 0 ? n : 0;
}

static bool ref_is_port(const char *p, size_t n)
{
	unsigned value = 0;

	if (n == 0 || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		value = value * 10 + (unsigned)(p[i] - '0');
	}
	return value > 0 && value <= 65535;
}

/* The length of the name before the port. 0 if it is malformed. */
static size_t ref_host_name_length(const char *p, size_t n)
{
	size_t name;

	if (n > 0 && p[0] == '[') {
		const char *end = memchr(p, ']', n);

		name = end == NULL ? 0 : (size_t)(end - p) + 1;
		if (name < 4 || strspn(p + 1, "0123456789abcdefABCDEF:.") < name - 2)
			return 0;
		return name;
	}
	name = strspn(p, LOWER UPPER DIGITS ".-");
	if (name > n)
		name = n;
	return name > 0 && p[0] != '.' && p[0] != '-' && p[name - 1] != '-' ? name : 0;
}

/* Names of hosts do not depend on case, so they are kept in lower case. */
static int ref_take_host(const char *p, size_t n, struct oci_ref *ret, struct err *e)
{
	size_t name = ref_host_name_length(p, n);

	if (n >= OCI_REF_HOST_MAX || name == 0 ||
	    (name < n && (p[name] != ':' || !ref_is_port(p + name + 1, n - name - 1))))
		return ref_bad(e, "malformed host");
	for (size_t i = 0; i < n; i++)
		ret->host[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + ('a' - 'A') : p[i]);
	ret->host[n] = '\0';
	return 0;
}

/* One part of a path: lower-case letters and digits, joined by '.', '_', "__" or any number of
 * '-'. */
static bool ref_is_part(const char *p, size_t n)
{
	size_t at = 0;

	for (;;) {
		size_t word = strspn(p + at, LOWER DIGITS), sep;

		if (word == 0 || at + word > n)
			return false;
		at += word;
		if (at == n)
			return true;
		sep = strspn(p + at, "-");
		if (sep == 0 && (p[at] == '.' || p[at] == '_'))
			sep = p[at] == '_' && p[at + 1] == '_' ? 2 : 1;
		if (sep == 0 || at + sep >= n)
			return false;
		at += sep;
	}
}

/* The bound includes the prefix "library/", so snprintf(3) cannot cut the path. */
static int ref_take_path(const char *p, size_t n, struct oci_ref *ret, struct err *e)
{
	bool prefixed = strcmp(ret->host, OCI_REF_DEFAULT_HOST) == 0 && memchr(p, '/', n) == NULL;
	size_t at = 0;

	if (n + (prefixed ? sizeof(REGISTRY_PREFIX) - 1 : 0) >= OCI_REF_PATH_MAX)
		return ref_bad(e, "the path is too long");
	while (at <= n) {
		const char *slash = memchr(p + at, '/', n - at);
		size_t len = slash == NULL ? n - at : (size_t)(slash - p) - at;

		if (!ref_is_part(p + at, len))
			return ref_bad(e,
				       "malformed path: its parts are of a-z, 0-9, '.', '_', '-'");
		at += len + 1;
	}
	(void)snprintf(ret->path, sizeof(ret->path), "%s%.*s", prefixed ? REGISTRY_PREFIX : "",
		       (int)n, p);
	return 0;
}

static int ref_take_tag(const char *p, size_t n, struct oci_ref *ret, struct err *e)
{
	if (n == 0 || n >= OCI_REF_TAG_MAX || p[0] == '.' || p[0] == '-' ||
	    strspn(p, LOWER UPPER DIGITS "._-") < n)
		return ref_bad(e, "malformed tag");
	memcpy(ret->tag, p, n);
	ret->tag[n] = '\0';
	return 0;
}

/* The digest is cut off first, because it has a ':' as a tag has one. */
int oci_ref_read(const char *text, struct oci_ref *ret, struct err *e)
{
	size_t host = ref_host_length(text), n, tag;
	const char *rest = host == 0 ? text : text + host + 1;
	const char *at = strchr(rest, '@');

	memset(ret, 0, sizeof(*ret));
	if (host == 0)
		str_copy(ret->host, OCI_REF_DEFAULT_HOST);
	else if (ref_take_host(text, host, ret, e) < 0)
		return -1;
	if (at != NULL && oci_digest_read(at + 1, strlen(at + 1), &ret->digest, e) < 0)
		return err_wrap(e, "image reference");
	ret->has_digest = at != NULL;
	n = at == NULL ? strlen(rest) : (size_t)(at - rest);
	tag = strcspn(rest, ":");
	if (tag < n && ref_take_tag(rest + tag + 1, n - tag - 1, ret, e) < 0)
		return -1;
	if (tag >= n && !ret->has_digest)
		(void)snprintf(ret->tag, sizeof(ret->tag), "latest");
	return ref_take_path(rest, tag < n ? tag : n, ret, e);
}

void oci_ref_text(const struct oci_ref *r, char ret[OCI_REF_TEXT_MAX])
{
	char digest[OCI_DIGEST_TEXT] = "";

	if (r->has_digest)
		oci_digest_text(&r->digest, digest);
	(void)snprintf(ret, OCI_REF_TEXT_MAX, "%s/%s%s%s%s%s", r->host, r->path,
		       r->tag[0] == '\0' ? "" : ":", r->tag, r->has_digest ? "@" : "", digest);
}

/* ---- registries of AWS */

#define ACCOUNT 12 /* digits */

static const char digits[] = "0123456789";
static const char region_set[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

/* Move *at behind the text if it begins with it. */
static bool ecr_skip(const char **at, const char *text)
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

	if (strspn(host, digits) != ACCOUNT || !ecr_skip(&at, ".dkr.ecr"))
		return false;
	if (ecr_skip(&at, "-fips"))
		api = "ecr-fips";
	if (!ecr_skip(&at, "."))
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
