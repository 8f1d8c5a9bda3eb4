/* policy_merge.c - theory of operation
 *
 * Merges the layers into one document. Called by cordond when a policy changes (policy_memo.c) and
 * by egress for `cordon run` (session_control.c). Each layer is first read by itself, so that
 * errors refer to the text of its author. Then its own rules are added to the common list, followed
 * by those of its presets, each with its layer.
 *
 * The default and refused_names come from the lowest layer with them. The strictest value of each
 * limit holds, and so does the strictest rule of each kind of alarm. The proxy comes from the
 * highest layer that names one. Packages members stay apart, one for each layer. The result is read
 * as a whole before it is returned, so an unreadable document is never passed on. */
#include "lib/policy/policy_private.h"

#include <stdio.h>
#include <string.h>

static int set_text(json_t *object, const char *name, const char *text)
{
	return json_object_set_new(object, name, json_string(text));
}

/* Rules are copied, since the same preset may be added to several layers. */
static int add_rule(json_t *rules, json_t *rule, const char *name, const char *layer)
{
	OWN_POLICY_JSON *copy = json_is_string(rule) ? policy_rule_expand(json_string_value(rule))
						     : json_copy(rule);

	if (copy == NULL)
		return -1;
	if (json_object_get(copy, "name") == NULL && set_text(copy, "name", name) < 0)
		return -1;
	if (layer != NULL && set_text(copy, "layer", layer) < 0)
		return -1;
	return json_array_append(rules, copy);
}

/* layer NULL: rules of a ceiling, with the layer of their list. */
static int add_rules(json_t *rules, const json_t *from, const char *what, const char *layer,
		     struct err *e)
{
	for (size_t i = 0; i < json_array_size(from); i++) {
		char name[POLICY_NAME_MAX];

		(void)snprintf(name, sizeof(name), "%s[%zu]", what, i);
		if (json_array_size(rules) == POLICY_RULES_MAX)
			return err_set(e, ERR_LIMIT, "more than %d rules in all layers",
				       POLICY_RULES_MAX);
		if (add_rule(rules, json_array_get(from, i), name, layer) < 0)
			return policy_no_memory(e);
	}
	return 0;
}

static int set_default(json_t *root, const json_t *from, enum policy_layer layer)
{
	json_t *word = json_object_get(from, "default");

	if (word == NULL)
		return 0;
	return json_object_set(root, "default", word) < 0 ||
			       set_text(root, "default_layer", policy_layer_names[layer]) < 0
		       ? -1
		       : 0;
}

static int set_refused_names(json_t *root, const json_t *from)
{
	json_t *word = json_object_get(from, "refused_names");

	return word == NULL ? 0 : json_object_set(root, "refused_names", word);
}

/* Keep each layer's packages member apart. A layer's own members replace those of its presets. */
static int merge_packages(json_t *root, const json_t *from, enum policy_layer layer)
{
	json_t *one = json_object_get(from, "packages"), *all = json_object_get(root, "packages");
	json_t *of_preset;

	if (one == NULL)
		return 0;
	if (all == NULL) {
		all = json_object();
		if (json_object_set_new(root, "packages", all) < 0)
			return -1;
	}
	of_preset = json_object_get(all, policy_layer_names[layer]);
	if (of_preset != NULL)
		return json_object_update(of_preset, one);
	return json_object_set(all, policy_layer_names[layer], one);
}

static int add_preset(json_t *root, json_t *rules, const char *name, enum policy_layer layer,
		      struct err *e)
{
	OWN_POLICY_JSON *preset = json_loads(policy_preset(name), JSON_REJECT_DUPLICATES, NULL);

	if (preset == NULL || set_default(root, preset, layer) < 0 ||
	    set_refused_names(root, preset) < 0 || merge_packages(root, preset, layer) < 0)
		return policy_no_memory(e);
	return add_rules(rules, json_object_get(preset, "rules"), name, policy_layer_names[layer],
			 e);
}

static int add_presets(json_t *root, json_t *rules, const json_t *names, enum policy_layer layer,
		       struct err *e)
{
	if (json_is_string(names))
		return add_preset(root, rules, json_string_value(names), layer, e);
	for (size_t i = 0; i < json_array_size(names); i++)
		if (add_preset(root, rules, json_string_value(json_array_get(names, i)), layer, e) <
		    0)
			return -1;
	return 0;
}

/* Take the stricter value of each limit. */
static int merge_limits(json_t *root, json_t *from)
{
	json_t *limits = json_object_get(root, "limits"), *value;
	const char *name;

	json_object_foreach(json_object_get(from, "limits"), name, value)
	{
		const json_t *before = json_object_get(limits, name);

		if (before != NULL && json_integer_value(before) <= json_integer_value(value))
			continue;
		if (json_object_set(limits, name, value) < 0)
			return -1;
	}
	return 0;
}

/* Layers are merged from the highest, so the first proxy stays. */
static int merge_proxy(json_t *root, const json_t *from, enum policy_layer layer)
{
	json_t *proxy = json_object_get(from, "proxy");
	OWN_POLICY_JSON *copy = NULL;

	if (proxy == NULL || json_object_get(root, "proxy") != NULL)
		return 0;
	copy = json_copy(proxy);
	if (copy == NULL || set_text(copy, "layer", policy_layer_names[layer]) < 0)
		return -1;
	return json_object_set(root, "proxy", copy);
}

static int merge_ceiling(json_t *root, const json_t *from, enum policy_layer layer, struct err *e)
{
	const json_t *ceiling = json_object_get(from, "ceiling");
	const char *name = policy_layer_names[layer];
	json_t *rules, *all = json_object_get(root, "ceilings");
	char what[32];

	if (ceiling == NULL)
		return 0;
	(void)snprintf(what, sizeof(what), "%s ceiling", name);
	rules = json_array();
	if (rules == NULL || json_object_set_new(all, name, rules) < 0)
		return policy_no_memory(e);
	return add_rules(rules, ceiling, what, NULL, e);
}

/* Own rules come before those of presets, so a layer can restrict a preset. */
static int merge_layer(json_t *root, json_t *from, enum policy_layer layer, struct err *e)
{
	json_t *rules = json_object_get(root, "rules"), *nets = json_object_get(from, "private");
	char what[32];

	(void)snprintf(what, sizeof(what), "%s rules", policy_layer_names[layer]);
	if (merge_ceiling(root, from, layer, e) < 0 ||
	    add_rules(rules, json_object_get(from, "rules"), what, policy_layer_names[layer], e) <
		    0 ||
	    add_presets(root, rules, json_object_get(from, "extends"), layer, e) < 0)
		return -1;
	/* A layer's own default overrides that of its presets. */
	if (set_default(root, from, layer) < 0 || set_refused_names(root, from) < 0 ||
	    merge_limits(root, from) < 0 || merge_proxy(root, from, layer) < 0 ||
	    merge_packages(root, from, layer) < 0 || policy_alarms_merge(root, from) < 0 ||
	    (nets != NULL && json_object_set(root, "private", nets) < 0))
		return policy_no_memory(e);
	return 0;
}

/* Read the layer for its errors, then merge it. */
static int read_layer(json_t *root, const char *text, enum policy_layer layer, struct err *e)
{
	struct policy *p = NULL;
	int result;

	if (policy_read(text, strlen(text), layer, &p, e) < 0)
		return err_wrap(e, "policy of the %s", policy_layer_names[layer]);
	result = merge_layer(root, p->root, layer, e);
	policy_free(p);
	return result;
}

/* Write the text before the check: reading removes the packages member. */
static int policy_merge_finish(json_t *root, char **ret, struct err *e)
{
	OWN_MEM char *text = json_dumps(root, JSON_COMPACT);

	if (text == NULL)
		return policy_no_memory(e);
	if (policy_read_checked(root, e) < 0)
		return err_wrap(e, "all layers together");
	if (strlen(text) > POLICY_TEXT_MAX)
		return err_set(e, ERR_LIMIT, "all layers together: a policy has at most %u bytes",
			       POLICY_TEXT_MAX);
	*ret = text;
	text = NULL;
	return 0;
}

int policy_merge(const char *const layers[POLICY_LAYERS], char **ret, struct err *e)
{
	OWN_POLICY_JSON *root = json_pack("{s:i, s:b, s:{}, s:{}, s:[]}", "version", 1, "merged", 1,
					  "limits", "ceilings", "rules");

	if (root == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		if (layers[i] == NULL || *layers[i] == '\0')
			continue;
		if (read_layer(root, layers[i], (enum policy_layer)i, e) < 0)
			return -1;
	}
	return policy_merge_finish(root, ret, e);
}
