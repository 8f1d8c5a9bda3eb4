/* package_gate_limits.c - what a session may have of packages: bytes, and names that registries may
 * not have; see package_gate_base.h. */
#include "package_gate_base.h"

#include <stdio.h>

#define WORK_BYTES ((uint64_t)512 * 1024) /* that a piece of work counts as, in a turn */

/* ---- bytes */

/* Files count against the limits of the policy. */
bool package_gate_may_work(struct package_gate *g)
{
	struct resource_share *share = &g->x->session->share;

	if (resource_share_turn_left(share) == 0)
		return false;
	resource_share_turn_moved(share, WORK_BYTES);
	return true;
}

void package_gate_set_budget(struct package_gate *g)
{
	const struct packages_limits *l = packages_limits(g->policy);

	g->x->budget = (struct gateway_budget){ .counts = g->request.kind == PACKAGE_FILE,
						.all = l->bytes,
						.file = l->file_bytes };
}

static uint64_t under(uint64_t used, uint64_t max)
{
	if (max == 0)
		return UINT64_MAX;
	return used < max ? max - used : 0;
}

bool package_gate_fits(struct package_gate *g, uint64_t size)
{
	const struct packages_limits *l = packages_limits(g->policy);
	char why[POLICY_REASON_MAX];
	bool one = size <= under(0, l->file_bytes);

	if (one && size <= under(g->x->session->packages.bytes, l->bytes))
		return true;
	if (one)
		(void)snprintf(why, sizeof(why),
			       "the package budget of %llu bytes is used up: %llu are left, the "
			       "file has %llu",
			       (unsigned long long)l->bytes,
			       (unsigned long long)under(g->x->session->packages.bytes, l->bytes),
			       (unsigned long long)size);
	else
		(void)snprintf(why, sizeof(why),
			       "the file has %llu bytes, a package file of this session may have "
			       "%llu",
			       (unsigned long long)size, (unsigned long long)l->file_bytes);
	package_gate_refuse(g, one ? "bytes" : "file_bytes", why);
	return false;
}

/* ---- names */

bool package_gate_may_ask(const struct package_gate *g)
{
	uint64_t max = packages_limits(g->policy)->new_names;

	return max == 0 || g->x->session->packages.new_names - (g->named ? 1 : 0) < max;
}

void package_gate_refuse_new(struct package_gate *g)
{
	package_gate_refuse(g, "new_names",
			    "this session asked for too many packages that do not exist: nothing "
			    "new is fetched");
}

void package_gate_count_name(struct package_gate *g)
{
	if (g->named)
		return;
	g->named = true;
	g->x->session->packages.new_names++;
}

void package_gate_uncount_name(struct package_gate *g)
{
	if (g->named)
		g->x->session->packages.new_names--;
	g->named = false;
}

/* Paths of archives, and the queries of lists of images, have no name, and room for data. */
bool package_gate_tells(const struct package_gate *g)
{
	const struct package_request *r = &g->request;

	if (g->registry == NULL)
		return false;
	if (r->ecosystem == ECO_APT)
		return r->kind != PACKAGE_FILE || g->expected.alg == DIGEST_NONE;
	return (r->name[0] != '\0' || g->x->query != NULL) &&
	       (r->kind == PACKAGE_META || r->kind == PACKAGE_FILEMETA ||
		r->kind == PACKAGE_INDEX || r->kind == PACKAGE_KEY);
}
