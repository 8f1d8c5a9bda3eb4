/* package_redirect.c - where a registry may lead. See package_redirect.h. */
#include "egress/packages/package_redirect.h"

#include <stdio.h>
#include <string.h>

#include "lib/policy/package_name_forms.h"
#include "lib/policy/path.h"

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

/* ---- which package is there */

static bool is_file(enum package_kind kind)
{
	return kind == PACKAGE_FILE || kind == PACKAGE_FILEMETA;
}

/* Files of a storage may have paths that read as names. So at a host of files with an unknown
 * layout only a file's own name counts for a file, and what only resembles a request does not. */
static bool is_by_chance(const struct package_found *f, enum package_kind kind)
{
	return f->is_files && f->is_loose &&
	       (f->request.is_lookalike || (is_file(kind) && !is_file(f->request.kind)));
}

/* Below the name of a denied repository there are no pages, either: package_judge() looks. */
static bool has_pages(const struct package_found *f)
{
	return f->registry != NULL &&
	       (f->registry->ecosystem == ECO_GIT || f->registry->ecosystem == ECO_OCI);
}

/* Rules and tables compare normal forms, so a place without one is refused. */
static bool package_redirect_normalise(const char *target, struct package_place *ret)
{
	struct http1_span path = { target, strcspn(target, "?") }, query = { 0 };
	const char *why;

	if (target[path.n] == '?')
		query = (struct http1_span){ target + path.n + 1, strlen(target + path.n + 1) };
	return http1_is_target(path.p, path.n) &&
	       (query.n == 0 || http1_is_target(query.p, query.n)) &&
	       path_normal(path, ret->path, sizeof(ret->path), &why) >= 0 &&
	       (query.n == 0 ||
		path_normal_query(query, ret->query, sizeof(ret->query), &why) >= 0);
}

bool package_redirect_place(const struct packages_policy *p, const struct endpoint *to,
			    const char *method, enum package_kind kind, const char *target,
			    struct package_place *ret)
{
	struct package_target at = { .host = to->host,
				     .port = to->port,
				     .method = method,
				     .path = ret->path,
				     .by_registry = true };
	struct package_request *r = &ret->found.request;

	ret->is_judged = ret->is_named = false;
	ret->query[0] = '\0';
	if (!package_redirect_normalise(target, ret))
		return false;
	at.query = ret->query[0] != '\0' ? ret->query : NULL;
	if (!package_recognise(p, &at, &ret->found))
		return true;
	if (is_by_chance(&ret->found, kind)) {
		r->kind = PACKAGE_OTHER;
		r->is_lookalike = false;
	}
	ret->is_named = r->kind != PACKAGE_OTHER && r->name[0] != '\0';
	ret->is_judged = r->kind != PACKAGE_OTHER || r->is_lookalike || has_pages(&ret->found);
	return true;
}

/* At a host with an unknown layout each tail of the path may be the name. */
bool package_redirect_renames(const struct package_place *place, enum ecosystem eco,
			      const char *name)
{
	const struct package_found *f = &place->found;
	const char *form = f->request.name;

	if (!place->is_named || name[0] == '\0')
		return false;
	if (f->request.ecosystem != eco)
		return true;
	while (form != NULL && strcmp(form, name) != 0)
		form = f->is_loose ? package_form_behind(eco, form) : NULL;
	return form == NULL;
}
