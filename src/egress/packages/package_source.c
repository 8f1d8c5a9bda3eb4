/* package_source.c - paths of metadata, by ecosystem. See package_source.h. */
#include "egress/packages/package_source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/str.h"

#define PYPI_JSON "application/vnd.pypi.simple.v1+json"

/* n is the result of snprintf(3). A path that was cut would ask for another document. */
static bool package_source_fits(int n)
{
	return n > 0 && n < PACKAGE_TARGET_MAX;
}

/* The path in front of names: see struct package_registry. */
static const char *base_of(const struct package_registry *r)
{
	return r->base != NULL ? r->base : r->path;
}

/* The slash of a scope is written as an escape, as npm's clients do. */
static bool package_source_npm(const struct package_registry *r, const struct package_request *q,
			       struct package_source *ret)
{
	const char *slash = strchr(q->written, '/');

	ret->doc = DOC_NPM;
	ret->accept = "application/json";
	if (slash == NULL)
		return package_source_fits(
			snprintf(ret->target, sizeof(ret->target), "%s%s", base_of(r), q->written));
	return package_source_fits(snprintf(ret->target, sizeof(ret->target), "%s%.*s%%2f%s",
					    base_of(r), (int)(slash - q->written), q->written,
					    slash + 1));
}

static bool package_source_pypi(const struct package_registry *r, const struct package_request *q,
				struct package_source *ret)
{
	ret->doc = DOC_PYPI_SIMPLE;
	ret->accept = PYPI_JSON;
	return package_source_fits(
		snprintf(ret->target, sizeof(ret->target), "%ssimple/%s/", base_of(r), q->name));
}

/* The index is a tree by the first letters of the name, in lower case. */
static bool package_source_cargo(const struct package_registry *r, const struct package_request *q,
				 struct package_source *ret)
{
	char name[PACKAGE_NAME_MAX];
	size_t n = strlen(q->written);

	for (size_t i = 0; i <= n; i++)
		name[i] = (char)tolower((unsigned char)q->written[i]);
	ret->doc = DOC_CARGO_INDEX;
	if (n <= 2)
		return package_source_fits(snprintf(ret->target, sizeof(ret->target), "%s%zu/%s",
						    base_of(r), n, name));
	if (n == 3)
		return package_source_fits(snprintf(ret->target, sizeof(ret->target), "%s3/%c/%s",
						    base_of(r), name[0], name));
	return package_source_fits(snprintf(ret->target, sizeof(ret->target), "%s%.2s/%.2s/%s",
					    base_of(r), name, name + 2, name));
}

/* Capital letters of a module are written as '!' and the small one. */
static bool go_escape(const char *text, char *ret, size_t cap)
{
	size_t n = 0;

	for (; *text != '\0'; text++) {
		bool capital = *text >= 'A' && *text <= 'Z';

		if (n + 3 > cap)
			return false;
		if (capital)
			ret[n++] = '!';
		ret[n++] = (char)(capital ? *text - 'A' + 'a' : *text);
	}
	ret[n] = '\0';
	return true;
}

/* With a version the document is about that one, without it is the list. */
static bool package_source_go(const struct package_registry *r, const struct package_request *q,
			      struct package_source *ret)
{
	char name[2 * PACKAGE_NAME_MAX], version[2 * PACKAGE_VERSION_MAX];

	if (!go_escape(q->name, name, sizeof(name)) ||
	    !go_escape(q->version, version, sizeof(version)))
		return false;
	ret->doc = version[0] != '\0' ? DOC_GO_INFO : DOC_GO_LIST;
	if (version[0] != '\0')
		return package_source_fits(snprintf(ret->target, sizeof(ret->target),
						    "%s%s/@v/%s.info", base_of(r), name, version));
	return package_source_fits(
		snprintf(ret->target, sizeof(ret->target), "%s%s/@v/list", base_of(r), name));
}

static bool package_source_gem(const struct package_registry *r, const struct package_request *q,
			       struct package_source *ret)
{
	ret->doc = DOC_GEM_INFO;
	return package_source_fits(
		snprintf(ret->target, sizeof(ret->target), "%sinfo/%s", base_of(r), q->name));
}

/* *ret is complete only if the result is true. */
bool package_source_of(const struct package_registry *r, const struct package_request *q,
		       struct package_source *ret)
{
	*ret = (struct package_source){ 0 };
	if (q->name[0] == '\0')
		return false;
	switch (q->ecosystem) {
	case ECO_NPM:
		return package_source_npm(r, q, ret);
	case ECO_PYPI:
		return package_source_pypi(r, q, ret);
	case ECO_CARGO:
		return package_source_cargo(r, q, ret);
	case ECO_GO:
		return package_source_go(r, q, ret);
	case ECO_GEM:
		return package_source_gem(r, q, ret);
	case ECO_APT:
	case ECO_GIT:
	case ECO_OCI:
	case ECO_MAVEN:
	case ECOSYSTEMS:
		break;
	}
	return false;
}

bool package_source_checksum(const char *path, const char *ending, size_t host,
			     struct package_source *ret)
{
	*ret = (struct package_source){ .doc = DOC_CHECKSUM, .host = host };
	return package_source_fits(
		snprintf(ret->target, sizeof(ret->target), "%s%s", path, ending));
}

size_t package_source_host(const struct package_registry *r, const char *name)
{
	for (size_t i = 0; i < r->nfiles; i++)
		if (strcmp(r->files[i].name, name) == 0)
			return i + 1;
	return 0;
}

/* A database with a host of its own is asked there, any other one by way of the registry's proxy.
 */
bool package_source_sumdb(const struct package_registry *r, const struct package_request *q,
			  struct package_source *ret)
{
	char name[2 * PACKAGE_NAME_MAX], version[2 * PACKAGE_VERSION_MAX];

	*ret = (struct package_source){ .doc = DOC_GO_SUMDB };
	if (r->ecosystem != ECO_GO || r->sumdb == NULL || q->name[0] == '\0' ||
	    !go_escape(q->name, name, sizeof(name)) ||
	    !go_escape(q->version, version, sizeof(version)))
		return false;
	ret->host = package_source_host(r, r->sumdb);
	if (ret->host > 0)
		return package_source_fits(
			snprintf(ret->target, sizeof(ret->target), "/lookup/%s@%s", name, version));
	return package_source_fits(snprintf(ret->target, sizeof(ret->target),
					    "%ssumdb/%s/lookup/%s@%s", base_of(r), r->sumdb, name,
					    version));
}

/* ---- hosts */

uint16_t package_registry_port(const struct package_host *h, bool tls)
{
	if (h->port != 0)
		return h->port;
	return tls ? 443 : 80;
}

void package_registry_text(const struct package_registry *r, bool tls,
			   char ret[PACKAGE_REGISTRY_TEXT])
{
	_Static_assert(sizeof("maven https://") - 1 + PACKAGE_REGISTRY_MAX <= PACKAGE_REGISTRY_TEXT,
		       "the cache takes every registry of a policy");

	(void)snprintf(ret, PACKAGE_REGISTRY_TEXT, "%s %s://%s:%u%s", ecosystem_name(r->ecosystem),
		       tls ? "https" : "http", r->host.name, package_registry_port(&r->host, tls),
		       r->path);
}

/* Ports are made explicit, so that an address without one compares equal. */
int package_hosts_copy(struct package_hosts *h, const struct package_registry *r, bool tls)
{
	*h = (struct package_hosts){ .tls = tls };
	h->at = calloc(r->nfiles + 1, sizeof(h->at[0]));
	if (h->at == NULL)
		return -1;
	for (size_t i = 0; i <= r->nfiles; i++) {
		const struct package_host *from = i == 0 ? &r->host : &r->files[i - 1];

		str_copy(h->at[i].name, from->name);
		h->at[i].port = package_registry_port(from, tls);
		h->n++;
	}
	return 0;
}

void package_hosts_release(struct package_hosts *h)
{
	free(h->at);
	*h = (struct package_hosts){ 0 };
}

static bool package_source_holds(const struct package_hosts *h, const struct endpoint *to)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->at[i].port == to->port && strcmp(h->at[i].name, to->host) == 0)
			return true;
	return false;
}

/* A relative one: it has no scheme and no host. */
static bool is_relative(const char *url)
{
	const char *colon = strchr(url, ':'), *slash = strchr(url, '/');

	if (strncmp(url, "//", 2) == 0 || strchr(url, '\\') != NULL)
		return false;
	return colon == NULL || (slash != NULL && slash < colon);
}

/* "name" or "name:8443". No address, and nothing before the name. */
static bool read_host(const char *text, size_t n, uint16_t default_port, struct endpoint *ret)
{
	const char *colon = memchr(text, ':', n);
	size_t name = colon != NULL ? (size_t)(colon - text) : n;
	unsigned long port = 0;

	*ret = (struct endpoint){ .by_name = true, .port = default_port };
	if (host_normal(text, name, ret->host) < 0)
		return false;
	if (colon == NULL)
		return true;
	if (n - name < 2 || n - name > 6)
		return false;
	for (const char *c = colon + 1; c < text + n; c++) {
		if (*c < '0' || *c > '9')
			return false;
		port = port * 10 + (unsigned long)(*c - '0');
	}
	ret->port = (uint16_t)port;
	return port > 0 && port <= UINT16_MAX;
}

/* The scheme must be that of the request: a document read over TLS never leads to plain HTTP. */
bool package_hosts_hold(const struct package_hosts *h, const char *url, struct endpoint *ret_to,
			const char **ret_rest)
{
	const char *scheme = h->tls ? "https://" : "http://", *host;
	struct endpoint to;
	size_t n;

	if (ret_rest != NULL)
		*ret_rest = url;
	if (is_relative(url))
		return true;
	if (strncasecmp(url, scheme, strlen(scheme)) != 0)
		return false;
	host = url + strlen(scheme);
	n = strcspn(host, "/?#");
	if (!read_host(host, n, h->tls ? 443 : 80, &to) || !package_source_holds(h, &to))
		return false;
	if (ret_to != NULL)
		*ret_to = to;
	if (ret_rest != NULL)
		*ret_rest = host[n] == '/' ? host + n : "/";
	return true;
}
