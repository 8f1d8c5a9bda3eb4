/* package_recognise.c - theory of operation
 *
 * An unknown request at a registry's host is PACKAGE_OTHER, which package_judge() refuses. Hosts of
 * git and of images have pages as well. There PACKAGE_OTHER is a page, unless it looks like a
 * request of git or for images (is_lookalike). Files of other ecosystems at these hosts are direct
 * URLs, as at any host without a registry. */
#include "lib/policy/package_recognise.h"

#include <string.h>

/* The repositories of a host with an unknown layout may begin in any of so many segments. */
#define GIT_STARTS_UNKNOWN 8

static bool has_pages(const struct package_registry *r)
{
	return r->ecosystem == ECO_GIT || r->ecosystem == ECO_OCI;
}

/* A server of repositories or images has other files, too. Those do not belong to the entry, so
 * rules must allow them. */
static void look_for_file(const struct package_target *t, struct package_found *ret)
{
	struct package_request direct;

	if (ret->request.kind != PACKAGE_OTHER || ret->request.is_lookalike || t->by_registry ||
	    !has_pages(ret->registry) ||
	    !package_request_direct(t->method, t->path, t->query, &direct))
		return;
	ret->request = direct;
	ret->registry = NULL;
}

/* How many segments may be the first segment of a repository's name: those of the prefix, and the
 * one behind it. */
static unsigned git_starts(const char *path, int prefix)
{
	unsigned n = 1;

	if (prefix < 0)
		return GIT_STARTS_UNKNOWN;
	for (int i = 0; i < prefix; i++)
		n += path[i] == '/';
	return n;
}

/* Does the prefix of an entry cut a part off a name, so that the rest has another name or none? Not
 * at built-in hosts, whose prefixes are known. */
static bool has_name_in_prefix(const struct package_registry *r, const struct package_target *t,
			       size_t prefix, const struct package_request *read)
{
	struct package_request whole;

	if (prefix == 0 || packages_is_git_host(t->host))
		return false;
	/* With the prefix the name would be too long: no list could contain it. */
	if (read->kind != PACKAGE_OTHER)
		return (r->ecosystem == ECO_GO || r->ecosystem == ECO_GIT) &&
		       prefix + strlen(read->name) >= PACKAGE_NAME_MAX;
	package_request_read(r->ecosystem, false, t->method, t->path, t->query, &whole);
	return whole.kind != PACKAGE_OTHER || whole.is_lookalike;
}

static void read_at_registry(const struct package_target *t, struct package_found *ret)
{
	const struct package_registry *r = ret->registry;
	bool known, like;
	int prefix = packages_registry_prefix(r, t->host, t->port, t->path, &known);
	const char *path = t->path + (prefix < 0 ? 0 : prefix);

	ret->is_loose = !known;
	package_request_read(r->ecosystem, ret->is_files, t->method, path, t->query, &ret->request);
	/* The prefix is spelled in another way, or this host has other paths. Then the request does
	 * not belong to the registry, although it looks like one. */
	like = prefix < 0 ? ret->request.kind != PACKAGE_OTHER
			  : has_name_in_prefix(r, t, (size_t)prefix, &ret->request);
	if (like)
		ret->request = (struct package_request){ .ecosystem = r->ecosystem,
							 .kind = PACKAGE_OTHER,
							 .is_lookalike = true };
	ret->path = t->path;
	ret->prefix = prefix < 0 ? 0 : (size_t)prefix;
	/* The repositories of a git server may contain registries of other ecosystems. */
	if (r->ecosystem == ECO_GIT)
		ret->git_starts = git_starts(t->path, prefix);
	else if (packages_is_git_host(t->host))
		ret->git_starts = GIT_STARTS_UNKNOWN;
	ret->has_direct = package_request_direct(t->method, t->path, t->query, &ret->direct) &&
			  ret->direct.ecosystem != r->ecosystem &&
			  (ret->direct.ecosystem == ECO_GIT || ret->direct.ecosystem == ECO_GO ||
			   ret->direct.ecosystem == ECO_OCI);
}

bool package_recognise(const struct packages_policy *p, const struct package_target *t,
		       struct package_found *ret)
{
	*ret = (struct package_found){ .registry = NULL };
	if (t->host[0] != '\0')
		ret->registry = packages_registry(p, t->host, t->port, t->path, &ret->is_files);
	ret->at_registry = ret->registry != NULL;
	if (ret->registry != NULL) {
		read_at_registry(t, ret);
		if (p != NULL)
			look_for_file(t, ret);
		return true;
	}
	if (p == NULL || !package_request_direct(t->method, t->path, t->query, &ret->request))
		return false;
	ret->path = t->path;
	ret->git_starts = ret->request.ecosystem == ECO_GIT ? 1 : 0;
	return true;
}
