/* policy_set_headers.c - checks the headers that rules set. Called by policy_read.c after rules
 * and ceilings were read. Headers are set after a request was compared, so a rule must not set a
 * header that a layer above compares, nor one by which servers override parts of a request
 * (override_header.h) where a layer above inspects them: that layer would have judged another
 * request. */
#include "policy_private.h"

#include <string.h>

#include "fold.h"
#include "override_header.h"

static bool looks_at(const struct policy_match *m, const char *name)
{
	for (size_t i = 0; i < m->nheaders; i++)
		if (fold_same_header((struct http1_span){ name, strlen(name) }, m->headers[i].name))
			return true;
	/* Where requests are inspected, a header must not change their meaning. */
	return m->inspects && override_header_is((struct http1_span){ name, strlen(name) });
}

/* Does a rule of a layer above compare this header? */
static bool is_compared(const struct policy_list *list, const char *name, enum policy_layer below)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->rules[i].layer < below && looks_at(list->rules[i].match, name))
			return true;
	return false;
}

/* Usually no rule does, and a document may set many headers. */
static bool is_looking(const struct policy *p)
{
	for (size_t i = 0; i < p->list.n; i++)
		if (p->list.rules[i].layer < POLICY_SESSION && p->list.matches[i]->inspects)
			return true;
	for (size_t i = 0; i < POLICY_LAYERS; i++)
		for (size_t k = 0; k < p->ceilings[i].n; k++)
			if (p->ceilings[i].matches[k]->inspects)
				return true;
	return false;
}

static bool is_taken(const struct policy *p, const char *name, enum policy_layer below)
{
	bool taken = is_compared(&p->list, name, below);

	for (size_t i = 0; i < POLICY_LAYERS && !taken; i++)
		taken = is_compared(&p->ceilings[i], name, below);
	return taken;
}

int policy_set_headers_check(const struct policy *p, struct err *e)
{
	size_t n = is_looking(p) ? p->list.n : 0;

	for (size_t i = 0; i < n; i++) {
		const struct policy_rule *r = &p->list.rules[i];

		for (size_t k = 0; k < r->nset; k++)
			if (is_taken(p, r->set[k].name, r->layer))
				return policy_value_fail(e, r->name, "set_headers",
							 "a layer above compares %s",
							 r->set[k].name);
	}
	return 0;
}
