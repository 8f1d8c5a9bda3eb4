#include "policy_select.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_fault.h"
#include "json_size.h"
#include "own.h"

#define PRESETS_MAX 32

/* The document that extends a preset or a list of them. Takes the list over. */
static json_t *extend(json_t *list)
{
	return json_pack("{s:i, s:o}", "version", 1, "extends", list);
}

static json_t *document_of(json_t *value, struct err *e)
{
	if (json_is_string(value))
		return extend(json_pack("[O]", value));
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
	return extend(json_incref(value));
}

/* Takes the document over. It is checked as it was parsed, not parsed again. */
static int finish(json_t *document, enum policy_layer layer, char **ret, struct err *e)
{
	struct policy *p = NULL;
	int read = policy_read_json(document, layer, &p, e);

	policy_free(p);
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

/* The bounds of a session's document hold for all of it but its packages member. */
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

/* May a session's document have packages? Found out before it is parsed. */
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
	return document == NULL ? -1 : finish(document, layer, ret, e);
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
	return document == NULL ? -1 : finish(document, POLICY_SESSION, ret, e);
}

/* Has it a member besides extending "none"? */
static bool says_more(const json_t *root)
{
	return json_array_size(json_object_get(root, "rules")) > 0 ||
	       json_object_get(root, "default") != NULL ||
	       json_object_get(root, "packages") != NULL; /* its registries open hosts */
}

/* May it permit more than its presets do? */
static bool widens(const json_t *root)
{
	return says_more(root) || json_object_get(root, "proxy") != NULL ||
	       json_object_get(root, "private") != NULL;
}

/* May the document have this member or text? Most do not, and need not be parsed then: names and
 * words are written without escapes. */
static bool may_have(const char *document, const char *quoted)
{
	return strstr(document, quoted) != NULL;
}

bool policy_select_is_none(const char *document)
{
	json_t *root = may_have(document, "\"none\"") ? json_loads(document, 0, NULL) : NULL;
	const json_t *list = json_object_get(root, "extends");
	bool none = root != NULL && !says_more(root) && json_array_size(list) > 0;

	for (size_t i = 0; none && i < json_array_size(list); i++)
		none = strcmp(json_string_value(json_array_get(list, i)), "none") == 0;
	json_decref(root);
	return none;
}

void policy_select_name(const char *document, char ret[POLICY_SELECT_NAME_MAX])
{
	json_t *root = may_have(document, "\"extends\"") ? json_loads(document, 0, NULL) : NULL;
	const json_t *list = json_object_get(root, "extends");
	size_t at = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < json_array_size(list) && at < POLICY_SELECT_NAME_MAX; i++)
		at += (size_t)snprintf(ret + at, POLICY_SELECT_NAME_MAX - at, "%s%s",
				       i == 0 ? "" : "+",
				       json_string_value(json_array_get(list, i)));
	if (at < POLICY_SELECT_NAME_MAX && (at == 0 || widens(root)))
		at += (size_t)snprintf(ret + at, POLICY_SELECT_NAME_MAX - at, "%scustom",
				       at == 0 ? "" : "+");
	if (at >= POLICY_SELECT_NAME_MAX)
		(void)snprintf(ret, POLICY_SELECT_NAME_MAX, "custom");
	json_decref(root);
}

/* Replaces the values of headers that the node or the tenant set: one may be a key. */
static void hide_headers(json_t *rules)
{
	for (size_t i = 0; i < json_array_size(rules); i++) {
		json_t *rule = json_array_get(rules, i),
		       *set = json_object_get(rule, "set_headers");
		const char *layer = json_string_value(json_object_get(rule, "layer")), *name;
		json_t *value;

		if (layer == NULL || strcmp(layer, "session") == 0)
			continue;
		json_object_foreach(set, name, value)
		{
			(void)json_object_set_new(set, name, json_string("(not shown)"));
		}
	}
}

char *policy_select_shown(const char *document, bool all)
{
	json_t *root;
	char *text;

	if (document[0] == '{' && !may_have(document, "\"password\"") &&
	    (all || (!may_have(document, "\"private\"") && !may_have(document, "\"set_headers\""))))
		return strdup(document);
	root = json_loads(document, 0, NULL);
	(void)json_object_del(json_object_get(root, "proxy"), "password");
	if (!all) {
		(void)json_object_del(root, "private");
		hide_headers(json_object_get(root, "rules"));
	}
	text = root == NULL ? strdup("{}") : json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}
