/* json_members.c - theory of operation
 *
 * jansson refuses input that is not JSON, not UTF-8 or has a member twice, and (without
 * JSON_ALLOW_NUL) strings with NULs, so that a C string is the whole value. It recurses, and a
 * small text can hold many values; depth and values are counted before. A reader of an object looks
 * up each member that it knows by name; members left over at the end are an error. */
#include "json_members.h"

#include <assert.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json_fault.h"
#include "json_size.h"
#include "rand.h"
#include "units.h"

#define NUMBER_MAX 9007199254740992.0 /* 2^53: up to here a double is exact */

/* Requests may contain secrets. */
static void wipe(void *p)
{
	if (p != NULL)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

void json_members_setup(void)
{
	size_t seed;

	json_set_alloc_funcs(malloc, wipe);
	rand_bytes(&seed, sizeof(seed));
	json_object_seed(seed | 1);
}

json_t *json_members_parse(const void *body, size_t len, struct err *e)
{
	json_error_t why;
	json_t *root;

	if (len == 0) {
		root = json_object();
		if (root == NULL)
			IGNORED(err_set(e, ERR_SYSTEM, "out of memory"), "reported by NULL");
		return root;
	}
	if (len > JSON_MEMBERS_BODY_MAX ||
	    !json_size_fits(body, len, JSON_MEMBERS_DEPTH_MAX, JSON_MEMBERS_VALUES_MAX)) {
		IGNORED(err_set(e, ERR_INVALID,
				"the body is too large, too deep or has more than %d values",
				JSON_MEMBERS_VALUES_MAX),
			"reported by NULL");
		return NULL;
	}
	root = json_loadb(body, len, JSON_REJECT_DUPLICATES, &why);
	if (root == NULL) {
		IGNORED(err_set(e, ERR_INVALID, "the body is not JSON: line %d, column %d: %s",
				why.line, why.column, json_fault(why.text)),
			"reported by NULL");
		err_sanitize(e);
		return NULL;
	}
	if (json_is_object(root))
		return root;
	json_decref(root);
	IGNORED(err_set(e, ERR_INVALID, "the body is not a JSON object"), "reported by NULL");
	return NULL;
}

void json_members_begin(struct json_members *m, json_t *object, const char *where, struct err *e)
{
	*m = (struct json_members){ .object = object, .where = where, .e = e };
}

int json_members_fail(struct json_members *m, const char *name, const char *why)
{
	bool inner = m->where[0] != '\0';

	if (m->failed)
		return -1;
	m->failed = true;
	IGNORED(err_set(m->e, ERR_INVALID, "%s%s%.64s: %s", m->where, inner ? "." : "", name, why),
		"reported by m->failed");
	err_sanitize(m->e); /* the name may be the client's */
	return -1;
}

static bool is_known(const struct json_members *m, const char *name)
{
	for (unsigned i = 0; i < m->nknown; i++)
		if (strcmp(m->known[i], name) == 0)
			return true;
	return false;
}

int json_members_end(struct json_members *m)
{
	const char *name;
	json_t *value;

	json_object_foreach(
		m->object, name,
		value) if (!is_known(m, name)) return json_members_fail(m, name, "unknown member");
	return m->failed ? -1 : 0;
}

int json_members_end_lenient(struct json_members *m)
{
	return m->failed ? -1 : 0;
}

json_t *json_members_take(struct json_members *m, const char *name)
{
	json_t *value = json_object_get(m->object, name);

	assert(m->nknown < JSON_MEMBERS_MAX);
	m->known[m->nknown++] = name;
	return json_is_null(value) ? NULL : value;
}

void json_members_text(struct json_members *m, const char *name, size_t max, const char **ret)
{
	json_t *value = json_members_take(m, name);

	if (value == NULL)
		return;
	if (!json_is_string(value))
		(void)json_members_fail(m, name, "must be a string");
	else if (json_string_length(value) > max)
		(void)json_members_fail(m, name, "is too long");
	else
		*ret = json_string_value(value);
}

void json_members_bool(struct json_members *m, const char *name, bool *ret)
{
	json_t *value = json_members_take(m, name);

	if (value == NULL)
		return;
	if (!json_is_boolean(value))
		(void)json_members_fail(m, name, "must be true or false");
	else
		*ret = json_is_true(value);
}

void json_members_choice(struct json_members *m, const char *name, const char *const *words,
			 unsigned count, unsigned *ret)
{
	char why[160] = "must be one of";
	const char *text = NULL;

	json_members_text(m, name, 64, &text);
	if (text == NULL)
		return;
	for (unsigned i = 0; i < count; i++) {
		size_t used = strlen(why);

		if (strcmp(text, words[i]) == 0) {
			*ret = i;
			return;
		}
		(void)snprintf(why + used, sizeof(why) - used, " %s", words[i]);
	}
	(void)json_members_fail(m, name, why);
}

void json_members_count(struct json_members *m, const char *name, uint64_t min, uint64_t max,
			uint64_t *ret)
{
	json_t *value = json_members_take(m, name);
	char why[96];

	if (value == NULL)
		return;
	(void)snprintf(why, sizeof(why), "must be a whole number from %llu to %llu",
		       (unsigned long long)min, (unsigned long long)max);
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) < min || (uint64_t)json_integer_value(value) > max)
		(void)json_members_fail(m, name, why);
	else
		*ret = (uint64_t)json_integer_value(value);
}

typedef int units_fn(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *e);

/* A number times scale, or text that parse reads. */
static bool quantity(struct json_members *m, const char *name, double scale, units_fn *parse,
		     const char *why, uint64_t *ret)
{
	json_t *value = json_members_take(m, name);
	struct err e = { 0 };

	if (value == NULL)
		return false;
	if (json_is_number(value)) {
		double x = json_number_value(value) * scale;

		if (!(x >= 0 && x <= NUMBER_MAX)) /* also refuses NaN */
			return json_members_fail(m, name, why) == 0;
		*ret = (uint64_t)(x + 0.5);
		/* A value that was given must not be zero. */
		if (*ret == 0 && x > 0)
			*ret = 1;
		return true;
	}
	if (!json_is_string(value))
		return json_members_fail(m, name, why) == 0;
	if (parse(json_string_value(value), 0, (uint64_t)NUMBER_MAX, ret, &e) < 0)
		return json_members_fail(m, name, e.msg) == 0;
	return true;
}

void json_members_bytes(struct json_members *m, const char *name, uint64_t *ret, bool *given)
{
	bool there =
		quantity(m, name, 1, units_bytes, "must be bytes, or a size like \"512M\"", ret);

	if (given != NULL)
		*given = there;
}

void json_members_time(struct json_members *m, const char *name, uint64_t *ret_ms, bool *given)
{
	bool there = quantity(m, name, 1000, units_time_ms,
			      "must be seconds, or a time like \"30s\"", ret_ms);

	if (given != NULL)
		*given = there;
}

void json_members_millis(struct json_members *m, const char *name, uint64_t *ret)
{
	(void)quantity(m, name, 1000, units_millis, "must be a number like 1.5", ret);
}

static void fail_count(struct json_members *m, const char *name, size_t max, const char *what)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "has too many %s: at most %zu", what, max);
	(void)json_members_fail(m, name, text);
}

json_t *json_members_object(struct json_members *m, const char *name, size_t max)
{
	json_t *value = json_members_take(m, name);

	if (value != NULL && !json_is_object(value))
		(void)json_members_fail(m, name, "must be an object");
	else if (value != NULL && json_object_size(value) > max)
		fail_count(m, name, max, "members");
	return m->failed ? NULL : value;
}

json_t *json_members_array(struct json_members *m, const char *name, size_t max)
{
	json_t *value = json_members_take(m, name);

	if (value != NULL && !json_is_array(value))
		(void)json_members_fail(m, name, "must be an array");
	else if (value != NULL && json_array_size(value) > max)
		fail_count(m, name, max, "elements");
	return m->failed ? NULL : value;
}

void json_members_string_map(struct json_members *m, const char *name, size_t max, size_t max_bytes,
			     char **ret)
{
	json_t *object = json_members_object(m, name, max), *value;
	const char *key;

	if (object == NULL)
		return;
	json_object_foreach(object, key, value)
	{
		if (!json_is_string(value) || key[0] == '\0') {
			(void)json_members_fail(m, name, "must have names and strings only");
			return;
		}
	}
	*ret = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	if (*ret == NULL || strlen(*ret) > max_bytes)
		(void)json_members_fail(m, name, "is too large");
}
