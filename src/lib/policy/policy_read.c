/* policy_read.c - reads a document: its members in order, then the checks that involve several of
 * them. Called by cordond and the CLI to check a layer, by policy_merge.c, and by cordon-egress
 * for a merged document. The text comes from an operator, a tenant or a session's owner and is
 * untrusted: every list and text has a bound (policy_private.h), and unknown members are errors,
 * so that a misspelled rule never allows more than was meant. All memory belongs to the policy and
 * is freed with it. */
#include "lib/policy/policy_private.h"

#include <stdio.h>
#include <string.h>

#include "lib/http/override_header.h"
#include "lib/json/json_fault.h"
#include "lib/policy/fold.h"
#include "lib/policy/packages_private.h"

/* ---- checks the headers that rules set. Called by policy_read.c after rules
 * and ceilings were read. Headers are set after a request was compared, so a rule must not set a
 * header that a layer above compares, nor one by which servers override parts of a request
 * (override_header.h) where a layer above inspects them: that layer would have judged another
 * request. */

/* Would the header change the meaning of requests for this rule? */
static bool policy_set_headers_looks_at(const struct policy_match *m, const char *name)
{
	for (size_t i = 0; i < m->nheaders; i++)
		if (fold_same_header((struct http1_span){ name, strlen(name) }, m->headers[i].name))
			return true;
	/* Where requests are inspected, a header must not change their meaning. */
	return m->inspects && override_header_is((struct http1_span){ name, strlen(name) });
}

/* Does a rule of a layer above compare this header? */
static bool policy_set_headers_is_compared(const struct policy_list *list, const char *name,
					   enum policy_layer below)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->rules[i].layer < below &&
		    policy_set_headers_looks_at(list->rules[i].match, name))
			return true;
	return false;
}

/* Does any rule or ceiling above the session inspect requests? Usually none does, and a document
 * may set many headers. */
static bool policy_set_headers_is_looking(const struct policy *p)
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

static bool policy_set_headers_is_taken(const struct policy *p, const char *name,
					enum policy_layer below)
{
	bool taken = policy_set_headers_is_compared(&p->list, name, below);

	for (size_t i = 0; i < POLICY_LAYERS && !taken; i++)
		taken = policy_set_headers_is_compared(&p->ceilings[i], name, below);
	return taken;
}

int policy_set_headers_check(const struct policy *p, struct err *e)
{
	size_t n = policy_set_headers_is_looking(p) ? p->list.n : 0;

	for (size_t i = 0; i < n; i++) {
		const struct policy_rule *r = &p->list.rules[i];

		for (size_t k = 0; k < r->nset; k++)
			if (policy_set_headers_is_taken(p, r->set[k].name, r->layer))
				return policy_value_fail(e, r->name, "set_headers",
							 "a layer above compares %s",
							 r->set[k].name);
	}
	return 0;
}

const char *const policy_layer_names[POLICY_LAYERS] = { "node", "tenant", "session" };

/* Give the rule a name for display, if its author did not. */
static int policy_read_name_rule(struct policy *p, const char *at, enum policy_layer layer,
				 struct policy_rule *r, struct err *e)
{
	char *name;

	r->layer = layer;
	if (r->name != NULL)
		return 0;
	name = policy_alloc(p, POLICY_NAME_MAX, 1);
	if (name == NULL)
		return policy_no_memory(e);
	(void)snprintf(name, POLICY_NAME_MAX, "%s %.40s", policy_layer_names[layer], at);
	r->name = name;
	return 0;
}

/* The layer of a rule or default in a merged document. */
static int policy_read_layer(const json_t *v, const char *at, enum policy_layer *layer,
			     struct err *e)
{
	size_t word = POLICY_SESSION;

	if (v == NULL)
		return policy_value_fail(e, at, "layer", "is missing in a merged policy");
	if (policy_value_word(v, policy_layer_names, POLICY_LAYERS, at, "layer", &word, e) < 0)
		return -1;
	*layer = (enum policy_layer)word;
	return 0;
}

/* Read the rules of a list. layer POLICY_LAYERS: each rule names its layer. */
static int policy_read_list(struct policy *p, const json_t *v, const char *name,
			    enum policy_layer layer, bool ceiling, struct policy_list *ret,
			    struct err *e)
{
	size_t n = json_array_size(v);

	if (v != NULL && !json_is_array(v))
		return policy_value_fail(e, "", name, "must be a list of rules");
	if (n > POLICY_RULES_MAX)
		return err_set(e, ERR_LIMIT, "%s: more than %d rules", name, POLICY_RULES_MAX);
	ret->given = v != NULL;
	ret->rules = policy_alloc(p, n, sizeof(*ret->rules));
	if (ret->rules == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < n; i++) {
		json_t *item = json_array_get(v, i), *layer_name = json_object_get(item, "layer");
		struct policy_rule *r = &ret->rules[i];
		enum policy_layer of = layer;
		char at[64];

		(void)snprintf(at, sizeof(at), "%s[%zu]", name, i);
		if (layer != POLICY_LAYERS && layer_name != NULL)
			return policy_value_fail(e, at, "", "unknown member 'layer'");
		if (policy_rule_read(p, item, at, ceiling, r, e) < 0 ||
		    (layer == POLICY_LAYERS && policy_read_layer(layer_name, at, &of, e) < 0) ||
		    policy_read_name_rule(p, at, of, r, e) < 0)
			return -1;
		r->number = i;
		ret->n++;
	}
	return policy_list_index(p, ret, e);
}

/* A session has no ceiling, since no layer is below it. */
static int policy_read_ceilings(struct policy *p, enum policy_layer layer, struct err *e)
{
	const json_t *one = json_object_get(p->root, "ceiling");
	const json_t *all = json_object_get(p->root, "ceilings");

	if (!p->merged) {
		if (one != NULL && layer == POLICY_SESSION)
			return policy_value_fail(
				e, "", "ceiling",
				"is allowed in the policy of a node or a tenant only");
		return policy_read_list(p, one, "ceiling", layer, true, &p->ceilings[layer], e);
	}
	if (all != NULL &&
	    policy_value_known(all, policy_layer_names, POLICY_SESSION, "ceilings", e) < 0)
		return -1;
	for (size_t i = 0; i < POLICY_SESSION; i++)
		if (policy_read_list(p, json_object_get(all, policy_layer_names[i]), "ceiling",
				     (enum policy_layer)i, true, &p->ceilings[i], e) < 0)
			return -1;
	return 0;
}

static int policy_read_default(struct policy *p, enum policy_layer layer, struct err *e)
{
	static const char *const words[] = { "deny", "allow" };
	size_t word = 0;

	if (policy_value_word(json_object_get(p->root, "default"), words, COUNT(words), "",
			      "default", &word, e) < 0)
		return -1;
	p->allow = word == 1;
	p->allow_layer = layer;
	if (p->merged && p->allow)
		return policy_read_layer(json_object_get(p->root, "default_layer"), "default",
					 &p->allow_layer, e);
	return 0;
}

static int policy_read_refused_names(struct policy *p, struct err *e)
{
	static const char *const words[] = { "answer", "nxdomain" };
	size_t word = 0;

	if (policy_value_word(json_object_get(p->root, "refused_names"), words, COUNT(words), "",
			      "refused_names", &word, e) < 0)
		return -1;
	p->answers_refused = word == 0;
	return 0;
}

/* The error lists the presets. */
static int policy_read_no_preset(const char *name, struct err *e)
{
	char known[192] = "";
	const char *summary, *preset;

	for (size_t i = 0; (preset = policy_preset_name(i, &summary)) != NULL; i++)
		(void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			       i == 0 ? "" : ", ", preset);
	return policy_value_fail(e, "", "extends", "there is no preset '%s'; there are %s", name,
				 known);
}

static int policy_read_extends(struct policy *p, struct err *e)
{
	const char *const *names = NULL;
	const json_t *v = json_object_get(p->root, "extends");
	size_t n = 0;

	if (v == NULL || (json_is_array(v) && json_array_size(v) == 0))
		return 0;
	if (policy_value_texts(p, v, 64, "", "extends", &names, &n, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (policy_preset(names[i]) == NULL)
			return policy_read_no_preset(names[i], e);
	return 0;
}

/* Only the operator may open private addresses. A merged document has the list of the node. */
static int policy_read_private(struct policy *p, enum policy_layer layer, struct err *e)
{
	const json_t *v = json_object_get(p->root, "private");

	if (v != NULL && !p->merged && layer != POLICY_NODE)
		return policy_value_fail(
			e, "", "private",
			"is allowed in the node's policy only (policy check: --layer node)");
	if (json_is_array(v) && json_array_size(v) == 0)
		return 0;
	return policy_value_nets(p, v, "", "private", &p->private_nets, &p->nprivate, e);
}

static int policy_read_check_members(const struct policy *p, struct err *e)
{
	static const char *const single[] = { "version", "extends",  "default",	     "private",
					      "ceiling", "limits",   "proxy",	     "rules",
					      "alarms",	 "packages", "refused_names" };
	static const char *const merged[] = { "version", "merged",   "default",	 "default_layer",
					      "private", "ceilings", "limits",	 "proxy",
					      "rules",	 "alarms",   "packages", "refused_names" };
	const json_t *version = json_object_get(p->root, "version");

	if (policy_value_known(p->root, p->merged ? merged : single,
			       p->merged ? COUNT(merged) : COUNT(single), "", e) < 0)
		return -1;
	/* A document without a version is of version 1. */
	if (version != NULL && (!json_is_integer(version) || json_integer_value(version) != 1))
		return policy_value_fail(e, "", "version", "must be 1");
	if (p->merged && !json_is_true(json_object_get(p->root, "merged")))
		return policy_value_fail(e, "", "merged", "must be true");
	return 0;
}

/* The checks at the end need all rules and ceilings. */
static int policy_read_document(struct policy *p, enum policy_layer layer, struct err *e)
{
	if (policy_read_check_members(p, e) < 0 || policy_read_extends(p, e) < 0 ||
	    policy_read_default(p, layer, e) < 0 || policy_read_refused_names(p, e) < 0 ||
	    policy_read_private(p, layer, e) < 0 ||
	    policy_value_limits(json_object_get(p->root, "limits"), "", &p->limits, e) < 0 ||
	    policy_alarms_read(json_object_get(p->root, "alarms"), &p->alarms, e) < 0 ||
	    policy_read_list(p, json_object_get(p->root, "rules"), "rules", layer, false, &p->list,
			     e) < 0 ||
	    policy_read_ceilings(p, layer, e) < 0)
		return -1;
	if (policy_set_headers_check(p, e) < 0 || packages_read(p, layer, e) < 0 ||
	    packages_rules_check(p, e) < 0)
		return -1;
	return policy_proxy_read(p, json_object_get(p->root, "proxy"), layer, e);
}

static void policy_read_free_policy(struct policy **p)
{
	policy_free(*p);
}

/* Does a text contain a NUL? Texts are read up to their NUL, so none may contain one. The parser
 * bounds the depth. */
static bool policy_read_has_nul(const json_t *v)
{
	size_t n = json_array_size(v);
	const char *key;
	json_t *member;

	if (json_is_string(v))
		return strlen(json_string_value(v)) != json_string_length(v);
	for (size_t i = 0; i < n; i++)
		if (policy_read_has_nul(json_array_get(v, i)))
			return true;
	/* jansson's iteration does not change the object. */
	json_object_foreach((json_t *)(uintptr_t)v, key, member)
	{
		if (policy_read_has_nul(member))
			return true;
	}
	return false;
}

/* Drop a merged document without rules, ceilings and proxy, because nothing is borrowed from it. So
 * egress keeps little for each of the many sessions without network. */
static void policy_read_drop_document(struct policy *p)
{
	bool borrowed = p->list.n > 0 || p->proxy.host != NULL;

	for (size_t i = 0; i < POLICY_LAYERS; i++)
		borrowed = borrowed || p->ceilings[i].n > 0;
	if (borrowed || !p->merged)
		return;
	json_decref(p->root);
	json_decref(p->expanded);
	p->root = p->expanded = NULL;
}

static int policy_read_root(json_t *root, enum policy_layer layer, bool checked,
			    struct policy **ret, struct err *e)
{
	__attribute__((cleanup(policy_read_free_policy))) struct policy *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return policy_no_memory(e);
	p->checked = checked;
	p->merged = layer == POLICY_LAYERS;
	p->root = json_incref(root);
	p->expanded = json_array();
	if (p->expanded == NULL)
		return policy_no_memory(e);
	if (policy_read_has_nul(root))
		return err_set(e, ERR_INVALID, "document: a string contains a NUL");
	if (policy_read_document(p, layer, e) < 0)
		return -1;
	/* Packages may have thousands of pins, and nothing is borrowed from them. */
	if (p->merged)
		(void)json_object_del(p->root, "packages");
	policy_read_drop_document(p);
	*ret = p;
	p = NULL;
	return 0;
}

int policy_read_json(json_t *root, enum policy_layer layer, struct policy **ret, struct err *e)
{
	return policy_read_root(root, layer, false, ret, e);
}

int policy_read_checked(json_t *root, struct err *e)
{
	struct policy *p = NULL;

	if (policy_read_root(root, POLICY_LAYERS, true, &p, e) < 0)
		return -1;
	policy_free(p);
	return 0;
}

int policy_read(const char *text, size_t len, enum policy_layer layer, struct policy **ret,
		struct err *e)
{
	json_error_t fault;
	json_t *root;
	int read;

	if (len > POLICY_TEXT_MAX)
		return err_set(e, ERR_LIMIT, "a policy has at most %u bytes", POLICY_TEXT_MAX);
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &fault);
	if (root == NULL)
		return err_set(e, ERR_INVALID, "line %d, column %d: %.160s", fault.line,
			       fault.column, json_fault(fault.text));
	read = policy_read_json(root, layer, ret, e);
	json_decref(root);
	return read;
}
