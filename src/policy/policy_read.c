/* policy_read.c - reads a document: its members in order, then the checks that involve several of
 * them. Called by cordond and the CLI to check a layer, by policy_merge.c, and by cordon-egress
 * for a merged document. The text comes from an operator, a tenant or a session's owner and is
 * untrusted: every list and text has a bound (policy_private.h), and unknown members are errors,
 * so that a misspelled rule never allows more than was meant. All memory belongs to the policy and
 * is freed with it. */
#include "policy_private.h"

#include <stdio.h>
#include <string.h>

#include "json_fault.h"
#include "packages_private.h"

/* Zeroed memory after its head, freed with the policy. */
struct policy_chunk {
	struct policy_chunk *next;
	_Alignas(64) char data[];
};

const char *const policy_layer_names[POLICY_LAYERS] = { "node", "tenant", "session" };

void *policy_alloc(struct policy *p, size_t n, size_t size)
{
	size_t bytes = sizeof(struct policy_chunk);
	struct policy_chunk *c;

	if (__builtin_mul_overflow(n, size, &n) || __builtin_add_overflow(bytes + 63, n, &bytes))
		return NULL;
	bytes -= bytes % 64;
	c = aligned_alloc(64, bytes);
	if (c == NULL)
		return NULL;
	memset(c, 0, bytes);
	c->next = p->chunks;
	p->chunks = c;
	return c->data;
}

int policy_no_memory(struct err *e)
{
	return err_set(e, ERR_SYSTEM, "out of memory for the policy");
}

void policy_free(struct policy *p)
{
	if (p == NULL)
		return;
	while (p->chunks != NULL) {
		struct policy_chunk *c = p->chunks;

		p->chunks = c->next;
		free(c);
	}
	json_decref(p->root);
	json_decref(p->expanded);
	free(p);
}

static int name_rule(struct policy *p, const char *at, enum policy_layer layer,
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

static int read_layer(const json_t *v, const char *at, enum policy_layer *layer, struct err *e)
{
	size_t word = POLICY_SESSION;

	if (v == NULL)
		return policy_value_fail(e, at, "layer", "is missing in a merged policy");
	if (policy_value_word(v, policy_layer_names, POLICY_LAYERS, at, "layer", &word, e) < 0)
		return -1;
	*layer = (enum policy_layer)word;
	return 0;
}

/* Reads the rules of a list. layer POLICY_LAYERS: each rule names its layer. */
static int read_list(struct policy *p, const json_t *v, const char *name, enum policy_layer layer,
		     bool ceiling, struct policy_list *ret, struct err *e)
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
		    (layer == POLICY_LAYERS && read_layer(layer_name, at, &of, e) < 0) ||
		    name_rule(p, at, of, r, e) < 0)
			return -1;
		r->number = i;
		ret->n++;
	}
	return policy_list_index(p, ret, e);
}

static int read_ceilings(struct policy *p, enum policy_layer layer, struct err *e)
{
	const json_t *one = json_object_get(p->root, "ceiling");
	const json_t *all = json_object_get(p->root, "ceilings");

	if (!p->merged) {
		if (one != NULL && layer == POLICY_SESSION)
			return policy_value_fail(
				e, "", "ceiling",
				"is allowed in the policy of a node or a tenant only");
		return read_list(p, one, "ceiling", layer, true, &p->ceilings[layer], e);
	}
	if (all != NULL &&
	    policy_value_known(all, policy_layer_names, POLICY_SESSION, "ceilings", e) < 0)
		return -1;
	for (size_t i = 0; i < POLICY_SESSION; i++)
		if (read_list(p, json_object_get(all, policy_layer_names[i]), "ceiling",
			      (enum policy_layer)i, true, &p->ceilings[i], e) < 0)
			return -1;
	return 0;
}

static int read_default(struct policy *p, enum policy_layer layer, struct err *e)
{
	static const char *const words[] = { "deny", "allow" };
	size_t word = 0;

	if (policy_value_word(json_object_get(p->root, "default"), words, COUNT(words), "",
			      "default", &word, e) < 0)
		return -1;
	p->allow = word == 1;
	p->allow_layer = layer;
	if (p->merged && p->allow)
		return read_layer(json_object_get(p->root, "default_layer"), "default",
				  &p->allow_layer, e);
	return 0;
}

static int read_refused_names(struct policy *p, struct err *e)
{
	static const char *const words[] = { "nxdomain", "answer" };
	size_t word = 0;

	if (policy_value_word(json_object_get(p->root, "refused_names"), words, COUNT(words), "",
			      "refused_names", &word, e) < 0)
		return -1;
	p->answers_refused = word == 1;
	return 0;
}

static int no_preset(const char *name, struct err *e)
{
	char known[192] = "";
	const char *summary, *preset;

	for (size_t i = 0; (preset = policy_preset_name(i, &summary)) != NULL; i++)
		(void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			       i == 0 ? "" : ", ", preset);
	return policy_value_fail(e, "", "extends", "there is no preset '%s'; there are %s", name,
				 known);
}

static int read_extends(struct policy *p, struct err *e)
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
			return no_preset(names[i], e);
	return 0;
}

static int read_private(struct policy *p, enum policy_layer layer, struct err *e)
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

static int check_members(const struct policy *p, struct err *e)
{
	static const char *const single[] = { "version",  "extends",	  "default", "private",
					      "ceiling",  "limits",	  "proxy",   "rules",
					      "packages", "refused_names" };
	static const char *const merged[] = { "version",       "merged",       "default",
					      "default_layer", "private",      "ceilings",
					      "limits",	       "proxy",	       "rules",
					      "packages",      "refused_names" };
	const json_t *version = json_object_get(p->root, "version");

	if (policy_value_known(p->root, p->merged ? merged : single,
			       p->merged ? COUNT(merged) : COUNT(single), "", e) < 0)
		return -1;
	/* Without a version it is the first. */
	if (version != NULL && (!json_is_integer(version) || json_integer_value(version) != 1))
		return policy_value_fail(e, "", "version", "must be 1");
	if (p->merged && !json_is_true(json_object_get(p->root, "merged")))
		return policy_value_fail(e, "", "merged", "must be true");
	return 0;
}

static int read_document(struct policy *p, enum policy_layer layer, struct err *e)
{
	if (check_members(p, e) < 0 || read_extends(p, e) < 0 || read_default(p, layer, e) < 0 ||
	    read_refused_names(p, e) < 0 || read_private(p, layer, e) < 0 ||
	    policy_value_limits(json_object_get(p->root, "limits"), "", &p->limits, e) < 0 ||
	    read_list(p, json_object_get(p->root, "rules"), "rules", layer, false, &p->list, e) <
		    0 ||
	    read_ceilings(p, layer, e) < 0)
		return -1;
	if (policy_set_headers_check(p, e) < 0 || packages_read(p, layer, e) < 0 ||
	    packages_rules_check(p, e) < 0)
		return -1;
	return policy_proxy_read(p, json_object_get(p->root, "proxy"), layer, e);
}

static void free_policy(struct policy **p)
{
	policy_free(*p);
}

/* Texts are read up to their NUL, so none may contain one. The parser bounds the depth. */
static bool has_nul(const json_t *v)
{
	size_t n = json_array_size(v);
	const char *key;
	json_t *member;

	if (json_is_string(v))
		return strlen(json_string_value(v)) != json_string_length(v);
	for (size_t i = 0; i < n; i++)
		if (has_nul(json_array_get(v, i)))
			return true;
	/* jansson's iteration does not change what it walks over. */
	json_object_foreach((json_t *)(uintptr_t)v, key, member)
	{
		if (has_nul(member))
			return true;
	}
	return false;
}

/* A merged document without rules, ceilings and proxy: nothing is borrowed from it. Of the many
 * sessions that are refused everything, egress then keeps little. */
static void drop_document(struct policy *p)
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

static int read_root(json_t *root, enum policy_layer layer, bool checked, struct policy **ret,
		     struct err *e)
{
	__attribute__((cleanup(free_policy))) struct policy *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return policy_no_memory(e);
	p->checked = checked;
	p->merged = layer == POLICY_LAYERS;
	p->root = json_incref(root);
	p->expanded = json_array();
	if (p->expanded == NULL)
		return policy_no_memory(e);
	if (has_nul(root))
		return err_set(e, ERR_INVALID, "document: a string contains a NUL");
	if (read_document(p, layer, e) < 0)
		return -1;
	/* Thousands of pins may be in it, of which nothing is borrowed. */
	if (p->merged)
		(void)json_object_del(p->root, "packages");
	drop_document(p);
	*ret = p;
	p = NULL;
	return 0;
}

int policy_read_json(json_t *root, enum policy_layer layer, struct policy **ret, struct err *e)
{
	return read_root(root, layer, false, ret, e);
}

int policy_read_checked(json_t *root, struct err *e)
{
	struct policy *p = NULL;

	if (read_root(root, POLICY_LAYERS, true, &p, e) < 0)
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
