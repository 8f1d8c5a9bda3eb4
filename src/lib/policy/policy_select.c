#include "lib/policy/policy_select.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/own.h"
#include "lib/base/str.h"
#include "lib/json/json_fault.h"
#include "lib/json/json_read.h"
#include "lib/json/json_size.h"

#define PRESETS_MAX 32
#define DOCUMENT_DEPTH_MAX (2 * POLICY_SELECT_DEPTH_MAX) /* jansson has read it before */

/* Make the document that extends a preset or a list of them. Take the list over. */
static json_t *policy_select_extend(json_t *list)
{
	return json_pack("{s:i, s:o}", "version", 1, "extends", list);
}

/* Return a new reference. NULL: with the error set. */
static json_t *document_of(json_t *value, struct err *e)
{
	if (json_is_string(value))
		return policy_select_extend(json_pack("[O]", value));
	if (json_is_object(value)) {
		json_t *names = json_object_get(value, "extends");

		/* A single name is a list of one. */
		if (json_is_string(names))
			IGNORED(json_object_set_new(value, "extends", json_pack("[O]", names)),
				"policy_read() takes either");
		return json_incref(value);
	}
	if (!json_is_array(value) || json_array_size(value) == 0 ||
	    json_array_size(value) > PRESETS_MAX) {
		(void)err_set(e, ERR_INVALID,
			      "must be a policy, the name of a preset, or a list of names");
		return NULL;
	}
	for (size_t i = 0; i < json_array_size(value); i++)
		if (!json_is_string(json_array_get(value, i))) {
			(void)err_set(e, ERR_INVALID, "must be a list of names of presets");
			return NULL;
		}
	return policy_select_extend(json_incref(value));
}

/* Put the alarms first, where policy_alarms_of() looks for them. Take the document over. */
static json_t *alarms_first(json_t *document)
{
	json_t *alarms = json_object_get(document, "alarms"), *first;

	if (alarms == NULL)
		return document;
	first = json_pack("{s:O}", "alarms", alarms);
	if (json_object_update(first, document) < 0) {
		json_decref(first);
		first = NULL;
	}
	json_decref(document);
	return first;
}

/* Check and write the document. Take it over. The parsed document is checked, so it is not parsed
 * again. */
static int policy_select_finish(json_t *document, enum policy_layer layer, char **ret,
				struct err *e)
{
	struct policy *p = NULL;
	int read = policy_read_json(document, layer, &p, e);

	policy_free(p);
	if (read == 0)
		document = alarms_first(document);
	if (read == 0)
		*ret = json_dumps(document, JSON_COMPACT);
	json_decref(document);
	if (read == 0 && *ret == NULL)
		return err_set(e, ERR_SYSTEM, "policy: out of memory");
	return read;
}

static int check_rules(const json_t *document, enum policy_layer layer, struct err *e)
{
	size_t n = json_array_size(json_object_get(document, "rules"));

	if (layer != POLICY_SESSION || n <= POLICY_SELECT_SESSION_RULES)
		return 0;
	return err_set(e, ERR_INVALID, "policy: more than %u rules", POLICY_SELECT_SESSION_RULES);
}

/* Check everything but the packages member against the bounds of a session's document. */
static int check_rest(json_t *document, struct err *e)
{
	OWN_MEM char *text = NULL;
	json_t *rest = json_copy(document);

	(void)json_object_del(rest, "packages");
	text = json_dumps(rest, JSON_COMPACT);
	json_decref(rest);
	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "policy: out of memory");
	if (strlen(text) <= POLICY_SELECT_SESSION_MAX &&
	    json_size_fits(text, strlen(text), POLICY_SELECT_DEPTH_MAX,
			   POLICY_SELECT_SESSION_VALUES))
		return 0;
	return err_set(e, ERR_INVALID, "policy: more than %u bytes or %u values without packages",
		       POLICY_SELECT_SESSION_MAX, POLICY_SELECT_SESSION_VALUES);
}

/* May a session's document have packages? The answer is needed before the document is parsed, since
 * it decides the bounds. */
static bool may_have_packages(const char *json, size_t len)
{
	static const char word[] = "\"packages\"";

	return memmem(json, len, word, strlen(word)) != NULL;
}

static void find_bounds(const char *json, size_t len, enum policy_layer layer, unsigned *ret_max,
			unsigned *ret_values)
{
	bool long_one = layer == POLICY_SESSION && may_have_packages(json, len);

	*ret_max = layer != POLICY_SESSION ? POLICY_TEXT_MAX
		   : long_one		   ? POLICY_SELECT_PACKAGES_MAX
					   : POLICY_SELECT_SESSION_MAX;
	*ret_values = layer != POLICY_SESSION ? POLICY_SELECT_VALUES_MAX
		      : long_one	      ? POLICY_SELECT_PACKAGES_VALUES
					      : POLICY_SELECT_SESSION_VALUES;
}

/* Check length, depth and number of values before parsing, which costs much more than counting. */
static int check_bounds(const char *json, size_t len, enum policy_layer layer, bool *ret_long,
			struct err *e)
{
	unsigned max, values;

	find_bounds(json, len, layer, &max, &values);
	*ret_long = max == POLICY_SELECT_PACKAGES_MAX;
	if (len > max)
		return err_set(e, ERR_INVALID, "policy: longer than %u bytes", max);
	if (!json_size_fits(json, len, POLICY_SELECT_DEPTH_MAX, values))
		return err_set(e, ERR_INVALID, "policy: too deep, or more than %u values", values);
	return 0;
}

static int read_value(json_t *value, bool long_one, enum policy_layer layer, char **ret,
		      struct err *e)
{
	json_t *document = document_of(value, e);

	if (document != NULL &&
	    (check_rules(document, layer, e) < 0 || (long_one && check_rest(document, e) < 0))) {
		json_decref(document);
		return -1;
	}
	return document == NULL ? -1 : policy_select_finish(document, layer, ret, e);
}

int policy_select_value(json_t *value, enum policy_layer layer, char **ret, struct err *e)
{
	OWN_MEM char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	bool long_one;

	*ret = NULL;
	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "policy: out of memory");
	if (check_bounds(text, strlen(text), layer, &long_one, e) < 0)
		return -1;
	return read_value(value, long_one, layer, ret, e);
}

int policy_select_read(const char *json, size_t len, enum policy_layer layer, char **ret,
		       struct err *e)
{
	json_error_t why;
	json_t *value;
	bool long_one;
	int done;

	*ret = NULL;
	if (check_bounds(json, len, layer, &long_one, e) < 0)
		return -1;
	value = json_loadb(json, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (value == NULL)
		return err_set(e, ERR_INVALID, "policy: line %d, column %d: %.100s", why.line,
			       why.column, json_fault(why.text));
	done = read_value(value, long_one, layer, ret, e);
	json_decref(value);
	return done;
}

int policy_select_presets(const char *words, char **ret, struct err *e)
{
	json_t *list = json_array(), *document;

	*ret = NULL;
	while (*words != '\0') {
		size_t n = strcspn(words, ",");

		IGNORED(json_array_append_new(list, json_stringn(words, n)), "found out below");
		words += n + (words[n] == ',');
	}
	document = document_of(list, e);
	json_decref(list);
	return document == NULL ? -1 : policy_select_finish(document, POLICY_SESSION, ret, e);
}

/* The members of a document that tell its name. */
struct shape {
	struct json_value presets;
	bool says_more; /* more than presets: it may permit more than they do */
	bool proxies;	/* it has a proxy, or private addresses */
};

/* A document may have thousands of pins: it is read without a tree. False: it is none. */
static bool read_shape(const char *document, struct shape *ret)
{
	struct json_value root, key, value, none, first;
	const char *walk = NULL, *rules;
	struct err e;

	*ret = (struct shape){ .says_more = false };
	if (json_read(document, strlen(document), DOCUMENT_DEPTH_MAX, &root, &e) < 0)
		return false;
	while (json_read_next(root, &walk, &key, &value)) {
		rules = NULL;
		if (json_read_is(key, "extends"))
			ret->presets = value;
		ret->says_more |= json_read_is(key, "default") ||
				  /* its registries open hosts */
				  json_read_is(key, "packages") ||
				  (json_read_is(key, "rules") &&
				   json_read_next(value, &rules, &none, &first));
		ret->proxies |= json_read_is(key, "proxy") || json_read_is(key, "private");
	}
	return true;
}

/* May the document have this member or text? Most documents do not, and need not be parsed then.
 * Names and words are written without escapes. */
static bool may_have(const char *document, const char *quoted)
{
	return strstr(document, quoted) != NULL;
}

bool policy_select_is_none(const char *document)
{
	struct json_value key, preset;
	const char *walk = NULL;
	struct shape s;
	size_t n = 0;

	if (!may_have(document, "\"none\"") || !read_shape(document, &s) || s.says_more)
		return false;
	for (; json_read_next(s.presets, &walk, &key, &preset); n++)
		if (!json_read_is(preset, "none"))
			return false;
	return n > 0;
}

void policy_select_name(const char *document, char ret[POLICY_SELECT_NAME_MAX])
{
	struct shape s = { .says_more = false };
	struct json_value key, preset;
	const char *walk = NULL;
	size_t at = 0;

	ret[0] = '\0';
	if (may_have(document, "\"extends\""))
		(void)read_shape(document, &s);
	while (at < POLICY_SELECT_NAME_MAX && json_read_next(s.presets, &walk, &key, &preset) &&
	       preset.kind == JSON_READ_TEXT)
		at += (size_t)snprintf(ret + at, POLICY_SELECT_NAME_MAX - at, "%s%.*s",
				       at == 0 ? "" : "+", (int)preset.n - 2, preset.p + 1);
	if (at < POLICY_SELECT_NAME_MAX && (at == 0 || s.says_more || s.proxies))
		at += (size_t)snprintf(ret + at, POLICY_SELECT_NAME_MAX - at, "%scustom",
				       at == 0 ? "" : "+");
	if (at >= POLICY_SELECT_NAME_MAX)
		str_copy_to(ret, POLICY_SELECT_NAME_MAX, "custom");
}

int policy_select_denied(const char *document, char **ret, struct err *e)
{
	json_t *deny = policy_select_extend(json_pack("[s]", "deny")),
	       *root = json_loads(document, 0, NULL);
	json_t *alarms = json_object_get(root, "alarms");

	*ret = NULL;
	if (alarms != NULL && json_object_set(deny, "alarms", alarms) < 0) {
		json_decref(deny);
		deny = NULL;
	}
	json_decref(root);
	return deny == NULL ? err_set(e, ERR_SYSTEM, "policy: out of memory")
			    : policy_select_finish(deny, POLICY_SESSION, ret, e);
}

/* Replace the values of headers that the node or the tenant set, since one may be a key. all: those
 * of rules that name no layer, too. */
static void hide_headers(json_t *rules, bool all)
{
	for (size_t i = 0; i < json_array_size(rules); i++) {
		json_t *rule = json_array_get(rules, i),
		       *set = json_object_get(rule, "set_headers");
		const char *layer = json_string_value(json_object_get(rule, "layer")), *name;
		json_t *value;

		if (!all && (layer == NULL || strcmp(layer, "session") == 0))
			continue;
		json_object_foreach(set, name, value)
		{
			(void)json_object_set_new(set, name, json_string("(not shown)"));
		}
	}
}

char *policy_select_reported(const char *document)
{
	json_t *root = json_loads(document, 0, NULL);
	char *text;

	(void)json_object_del(json_object_get(root, "proxy"), "password");
	hide_headers(json_object_get(root, "rules"), true);
	text = root == NULL ? strdup("{}") : json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}

char *policy_select_shown(const char *document, bool all)
{
	json_t *root;
	char *text;

	if (document[0] == '{' &&
	    (all || (!may_have(document, "\"private\"") && !may_have(document, "\"set_headers\""))))
		return may_have(document, "\"password\"")
			       ? json_read_without(document, "proxy", "password")
			       : strdup(document);
	root = json_loads(document, 0, NULL);
	(void)json_object_del(json_object_get(root, "proxy"), "password");
	if (!all) {
		(void)json_object_del(root, "private");
		hide_headers(json_object_get(root, "rules"), false);
	}
	text = root == NULL ? strdup("{}") : json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}
