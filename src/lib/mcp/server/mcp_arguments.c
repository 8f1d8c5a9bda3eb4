#include "lib/mcp/server/mcp_arguments.h"

#include <stdio.h>
#include <string.h>

#define SCHEMA_DEPTH 16
#define PATH_MAX_BYTES 96

/* Where a value is: "edits[3].old". */
struct mcp_argument_place {
	char text[PATH_MAX_BYTES];
};

/* One value against one schema. at is for messages only. */
static int arguments_check(const struct json_node *schema, const struct json_node *v,
			   const struct mcp_argument_place *at, unsigned depth, struct err *e);

/* Long paths are cut: they are for a reader, and no code reads them. */
static struct mcp_argument_place arguments_member(const struct mcp_argument_place *at,
						  struct json_span name)
{
	struct mcp_argument_place p;
	size_t n = name.n < 40 ? name.n : 40;

	(void)snprintf(p.text, sizeof(p.text), "%.50s%s%.*s", at->text,
		       at->text[0] == '\0' ? "" : ".", (int)n, name.p);
	return p;
}

static struct mcp_argument_place arguments_element(const struct mcp_argument_place *at, size_t i)
{
	struct mcp_argument_place p;

	(void)snprintf(p.text, sizeof(p.text), "%.80s[%zu]", at->text, i);
	return p;
}

static const char *arguments_name_of(const struct mcp_argument_place *at)
{
	return at->text[0] == '\0' ? "arguments" : at->text;
}

/* 1.0 is an integer, as JSON Schema says. */
static bool arguments_is_type(const struct json_node *v, struct json_span type)
{
	static const struct {
		const char *name;
		enum json_kind kind;
	} kinds[] = { { "string", JSON_READ_TEXT },  { "object", JSON_READ_OBJECT },
		      { "array", JSON_READ_ARRAY },  { "number", JSON_READ_NUMBER },
		      { "null", JSON_READ_NULL },    { "boolean", JSON_READ_TRUE },
		      { "boolean", JSON_READ_FALSE } };
	int64_t whole;

	if (json_span_is(type, "integer"))
		return json_tree_int(v, &whole);
	for (size_t i = 0; i < COUNT(kinds); i++) {
		if (v->kind == kinds[i].kind && json_span_is(type, kinds[i].name))
			return true;
	}
	return false;
}

static int arguments_check_type(const struct json_node *schema, const struct json_node *v,
				const struct mcp_argument_place *at, struct err *e)
{
	const struct json_node *type = json_tree_get(schema, "type");

	if (type == NULL)
		return 0;
	if (type->kind == JSON_READ_TEXT) {
		if (arguments_is_type(v, type->text))
			return 0;
		return err_set(e, ERR_INVALID, "%s must be of type %.*s", arguments_name_of(at),
			       (int)type->text.n, type->text.p);
	}
	for (const struct json_node *t = json_tree_first(type); t != NULL;
	     t = json_tree_next(type, t)) {
		if (arguments_is_type(v, t->text))
			return 0;
	}
	return err_set(e, ERR_INVALID, "%s must be of one of the types %.*s", arguments_name_of(at),
		       (int)type->raw.n, type->raw.p);
}

static int arguments_check_enum(const struct json_node *schema, const struct json_node *v,
				const struct mcp_argument_place *at, struct err *e)
{
	const struct json_node *list = json_tree_get_kind(schema, "enum", JSON_READ_ARRAY);

	if (list == NULL)
		return 0;
	for (const struct json_node *t = json_tree_first(list); t != NULL;
	     t = json_tree_next(list, t)) {
		if (t->kind == JSON_READ_TEXT && v->kind == JSON_READ_TEXT &&
		    t->text.n == v->text.n && memcmp(t->text.p, v->text.p, v->text.n) == 0)
			return 0;
	}
	return err_set(e, ERR_INVALID, "%s must be one of %.*s", arguments_name_of(at),
		       (int)list->raw.n, list->raw.p);
}

/* A bound of the schema, if it has one. */
static bool arguments_bound(const struct json_node *schema, const char *name, double *ret)
{
	return json_tree_number(json_tree_get(schema, name), ret);
}

/* what: the words between "must" and the bound. */
static int arguments_check_bounds(const struct json_node *schema, double value,
				  const char *min_name, const char *max_name, const char *what,
				  const struct mcp_argument_place *at, struct err *e)
{
	double min, max;

	if (arguments_bound(schema, min_name, &min) && value < min)
		return err_set(e, ERR_INVALID, "%s must %s at least %.15g", arguments_name_of(at),
			       what, min);
	if (arguments_bound(schema, max_name, &max) && value > max)
		return err_set(e, ERR_INVALID, "%s must %s at most %.15g", arguments_name_of(at),
			       what, max);
	return 0;
}

/* Characters, as JSON Schema counts them. */
static size_t arguments_characters(struct json_span text)
{
	size_t n = 0;

	for (size_t i = 0; i < text.n; i++)
		n += ((unsigned char)text.p[i] & 0xc0) != 0x80;
	return n;
}

/* A NUL is refused in each text, because it would end the text in C. */
static int arguments_check_string(const struct json_node *schema, const struct json_node *v,
				  const struct mcp_argument_place *at, struct err *e)
{
	if (memchr(v->text.p, '\0', v->text.n) != NULL)
		return err_set(e, ERR_INVALID, "%s must not have a NUL character",
			       arguments_name_of(at));
	if (json_tree_get(schema, "pattern") != NULL)
		return err_set(e, ERR_SYSTEM, "the schema of %s has a pattern",
			       arguments_name_of(at));
	return arguments_check_bounds(schema, (double)arguments_characters(v->text), "minLength",
				      "maxLength", "have a length of", at, e);
}

static int arguments_check_array(const struct json_node *schema, const struct json_node *v,
				 const struct mcp_argument_place *at, unsigned depth, struct err *e)
{
	const struct json_node *items = json_tree_get(schema, "items");
	size_t i = 0;

	if (arguments_check_bounds(schema, (double)v->size, "minItems", "maxItems", "have", at, e) <
	    0)
		return -1;
	if (items == NULL)
		return 0;
	for (const struct json_node *t = json_tree_first(v); t != NULL;
	     t = json_tree_next(v, t), i++) {
		struct mcp_argument_place p = arguments_element(at, i);

		if (arguments_check(items, t, &p, depth + 1, e) < 0)
			return -1;
	}
	return 0;
}

/* A member's schema: its name's, or the one for all others. */
static int arguments_check_member(const struct json_node *schema, const struct json_node *key,
				  const struct mcp_argument_place *at, unsigned depth,
				  struct err *e)
{
	const struct json_node *properties = json_tree_get(schema, "properties");
	const struct json_node *others = json_tree_get(schema, "additionalProperties");
	struct mcp_argument_place p = arguments_member(at, key->text);

	for (const struct json_node *k = json_tree_first(properties); k != NULL;
	     k = json_tree_next(properties, k)) {
		if (k->text.n == key->text.n && memcmp(k->text.p, key->text.p, k->text.n) == 0)
			return arguments_check(json_tree_value(k), json_tree_value(key), &p,
					       depth + 1, e);
	}
	if (json_tree_is(others, JSON_READ_TRUE))
		return 0;
	if (json_tree_is(others, JSON_READ_OBJECT))
		return arguments_check(others, json_tree_value(key), &p, depth + 1, e);
	return err_set(e, ERR_INVALID, "there is no argument %s", p.text);
}

/* Names are checked before required ones are missed, so that a misspelled name is reported as such.
 */
static int arguments_check_object(const struct json_node *schema, const struct json_node *v,
				  const struct mcp_argument_place *at, unsigned depth,
				  struct err *e)
{
	const struct json_node *required = json_tree_get(schema, "required");

	for (const struct json_node *k = json_tree_first(v); k != NULL; k = json_tree_next(v, k)) {
		if (arguments_check_member(schema, k, at, depth, e) < 0)
			return -1;
	}
	for (const struct json_node *t = json_tree_first(required); t != NULL;
	     t = json_tree_next(required, t)) {
		struct mcp_argument_place p = arguments_member(at, t->text);
		char name[64];

		(void)snprintf(name, sizeof(name), "%.*s", (int)t->text.n, t->text.p);
		if (json_tree_get(v, name) == NULL)
			return err_set(e, ERR_INVALID, "%s is required", p.text);
	}
	return arguments_check_bounds(schema, (double)v->size, "minProperties", "maxProperties",
				      "have a number of members of", at, e);
}

static int arguments_check_kind(const struct json_node *schema, const struct json_node *v,
				const struct mcp_argument_place *at, unsigned depth, struct err *e)
{
	double value;

	switch (v->kind) {
	case JSON_READ_NUMBER:
		if (!json_tree_number(v, &value))
			return err_set(e, ERR_INVALID, "%s is not a usable number",
				       arguments_name_of(at));
		return arguments_check_bounds(schema, value, "minimum", "maximum", "be", at, e);
	case JSON_READ_TEXT:
		return arguments_check_string(schema, v, at, e);
	case JSON_READ_ARRAY:
		return arguments_check_array(schema, v, at, depth, e);
	case JSON_READ_OBJECT:
		return arguments_check_object(schema, v, at, depth, e);
	case JSON_READ_NONE:
	case JSON_READ_NULL:
	case JSON_READ_FALSE:
	case JSON_READ_TRUE:
	default:
		return 0;
	}
}

/* At least one of the schemas fits. If none does, the error of the last one is kept. */
static int arguments_check_any(const struct json_node *list, const struct json_node *v,
			       const struct mcp_argument_place *at, unsigned depth, struct err *e)
{
	int result = 0;

	for (const struct json_node *t = json_tree_first(list); t != NULL;
	     t = json_tree_next(list, t)) {
		result = arguments_check(t, v, at, depth + 1, e);
		if (result == 0)
			return 0;
	}
	return result;
}

static int arguments_check(const struct json_node *schema, const struct json_node *v,
			   const struct mcp_argument_place *at, unsigned depth, struct err *e)
{
	const struct json_node *any = json_tree_get(schema, "anyOf");

	if (json_tree_is(schema, JSON_READ_TRUE))
		return 0;
	if (!json_tree_is(schema, JSON_READ_OBJECT) || depth > SCHEMA_DEPTH ||
	    json_tree_get(schema, "$ref") != NULL)
		return err_set(e, ERR_SYSTEM, "the schema of %s is not usable",
			       arguments_name_of(at));
	if (any == NULL)
		any = json_tree_get(schema, "oneOf");
	if (any != NULL)
		return arguments_check_any(any, v, at, depth, e);
	if (arguments_check_type(schema, v, at, e) < 0 ||
	    arguments_check_enum(schema, v, at, e) < 0)
		return -1;
	return arguments_check_kind(schema, v, at, depth, e);
}

int mcp_arguments_check(const char *schema, const struct json_node *arguments, struct err *e)
{
	static const struct json_node none = { .kind = JSON_READ_OBJECT,
					       .skip = 1,
					       .raw = { "{}", 2 } };
	const struct mcp_argument_place top = { "" };
	struct json_tree t;
	int result;

	if (json_tree_read(&t, schema, strlen(schema), &json_tree_default, e) < 0) {
		e->code = ERR_SYSTEM;
		return -1;
	}
	result = arguments_check(json_tree_root(&t), arguments == NULL ? &none : arguments, &top, 0,
				 e);
	json_tree_release(&t);
	return result;
}
