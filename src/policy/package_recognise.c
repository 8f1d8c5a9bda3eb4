/* package_recognise.c - theory of operation
 *
 * What is not understood at a registry's host is PACKAGE_OTHER, which package_judge() refuses. Two
 * kinds of hosts have pages as well, those of git and of images: there PACKAGE_OTHER is a page,
 * unless it looks like a request of theirs (is_lookalike). Files of other ecosystems at these hosts
 * are direct URLs, as at any host without a registry. */
#include "package_recognise.h"

#include <string.h>

static bool has_pages(const struct package_registry *r)
{
	return r->ecosystem == ECO_GIT || r->ecosystem == ECO_OCI;
}

/* A server of repositories or images has other files, too. Those are not the entry's, so rules must
 * allow them. */
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

static void read_at_registry(const struct package_target *t, struct package_found *ret)
{
	const struct package_registry *r = ret->registry;
	bool known;
	int prefix = packages_registry_prefix(r, t->host, t->port, t->path, &known);
	const char *path = t->path + (prefix < 0 ? 0 : prefix);

	ret->is_loose = !known;
	package_request_read(r->ecosystem, ret->is_files, t->method, path, t->query, &ret->request);
	/* The prefix is written in another way, or this host has other paths: then it is none of
	 * the registry's requests, whatever it looks like. */
	if (prefix < 0 && ret->request.kind != PACKAGE_OTHER)
		ret->request = (struct package_request){ .ecosystem = r->ecosystem,
							 .kind = PACKAGE_OTHER,
							 .is_lookalike = true };
	if (r->ecosystem == ECO_GIT)
		ret->path = path;
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
	if (ret->request.ecosystem == ECO_GIT)
		ret->path = t->path;
	return true;
}
