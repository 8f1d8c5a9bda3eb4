/* json_members.c - theory of operation
 *
 * jansson refuses input other than JSON in UTF-8, members given twice, and (without JSON_ALLOW_NUL)
 * strings with NULs, so that a C string is the whole value. It recurses, and a small text can hold
 * many values, so depth and values are counted before. A reader of an object looks up each known
 * member by name. Members left over at the end are an error. */
#include "front/web/json_members.h"

#include <assert.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/rand.h"
#include "lib/base/similar.h"
#include "lib/base/units.h"
#include "lib/json/json_fault.h"
#include "lib/json/json_size.h"

/* ---- environments */

/* Is it a name, valid in a shell, too? */
static bool is_name(const char *s)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

	return *s != '\0' && strchr(first, *s) != NULL && s[n] == '\0' && n <= 256;
}

/* The texts are copied, so they outlive the object. */
int spec_env_read(struct json_members *m, const char *name, size_t max, struct buf *to)
{
	json_t *env = json_members_object(m, name, max), *value;
	const char *key;
	struct err e;
	int n = 0;

	if (env == NULL)
		return m->failed ? -1 : 0;
	json_object_foreach(env, key, value)
	{
		if (!is_name(key))
			return json_members_fail(m, name, "a name is not [A-Za-z_][A-Za-z0-9_]*");
		if (!json_is_string(value))
			return json_members_fail(m, name, "a value is not a string");
		buf_printf(to, "%s=", key);
		buf_put(to, json_string_value(value), json_string_length(value) + 1);
		n++;
	}
	if (buf_check(to, &e) < 0) {
		json_members_too_large(m, name, to->cap);
		return -1;
	}
	return n;
}

#define NUMBER_MAX 9007199254740992.0 /* 2^53: up to here a double is exact */

/* Requests may contain secrets. */
static void json_members_wipe(void *p)
{
	if (p != NULL)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

/* The seed keeps clients from choosing names that collide. */
void json_members_setup(void)
{
	size_t seed;

	json_set_alloc_funcs(malloc, json_members_wipe);
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

/* The first failure is kept, later ones are not. */
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

/* Has a reader asked for this name? */
static bool is_known(const struct json_members *m, const char *name)
{
	for (unsigned i = 0; i < m->nknown; i++)
		if (strcmp(m->known[i], name) == 0)
			return true;
	return false;
}

/* Members that clients put beside the object to which they belong. */
static const struct {
	const char *in;
	const char *names[12];
} places[] = {
	{ "limits",
	  { "memory", "cpus", "pids", "disk", "inodes", "nofile", "disk_read_bps", "disk_write_bps",
	    "memory_bytes", "cpu_millis", "disk_bytes" } },
	{ "allow",
	  { "templates", "levels", "networks", "memory", "cpus", "pids", "disk", "sessions",
	    "creates_per_minute" } },
	{ "rules", { "writable", "exportable" } },
	{ "network", { "extends", "default", "refused_names", "proxy", "packages" } },
	{ "mcp", { "servers" } },
	{ "tty", { "rows", "cols" } },
};

/* Words of other interfaces, and ours. */
static const char *const synonyms[][2] = {
	{ "cmd", "command" }, { "image", "template" },	    { "target", "path" },
	{ "workdir", "cwd" }, { "environment", "env" },	    { "lifetime", "timeout" },
	{ "cpu", "cpus" },    { "allow_hosts", "network" },
};

/* The member probably meant. *ret_in: the object in which it belongs, or NULL. */
static const char *find_meant(const struct json_members *m, const char *name, const char **ret_in)
{
	struct similar s = { .word = name };

	*ret_in = NULL;
	for (size_t i = 0; i < COUNT(synonyms); i++)
		if (strcmp(synonyms[i][0], name) == 0 && is_known(m, synonyms[i][1]))
			return synonyms[i][1];
	for (unsigned i = 0; i < m->nknown; i++)
		similar_offer(&s, m->known[i]);
	for (size_t i = 0; i < COUNT(places); i++)
		for (size_t k = 0; is_known(m, places[i].in) && k < COUNT(places[i].names) &&
				   places[i].names[k] != NULL;
		     k++) {
			const char *before = s.best;

			similar_offer(&s, places[i].names[k]);
			if (s.best != before)
				*ret_in = places[i].in;
		}
	return s.best;
}

/* Members of a command given as parameters of its URL. */
static bool is_parameter(const struct json_members *m, const char *name)
{
	return is_known(m, "argv") && (strcmp(name, "wait") == 0 || strcmp(name, "encoding") == 0);
}

/* The message has the remedy where one can be guessed. */
static int fail_unknown(struct json_members *m, const char *name)
{
	const char *in, *meant = find_meant(m, name, &in);
	char why[160] = "unknown member";

	if (is_parameter(m, name))
		(void)snprintf(why, sizeof(why),
			       "unknown member; it is a parameter of the URL (?%s=)", name);
	else if (meant != NULL)
		(void)snprintf(why, sizeof(why), "unknown member; did you mean %s%s%s%s%s?",
			       m->where, m->where[0] == '\0' ? "" : ".", in == NULL ? "" : in,
			       in == NULL ? "" : ".", meant);
	return json_members_fail(m, name, why);
}

int json_members_end(struct json_members *m)
{
	const char *name;
	json_t *value;

	json_object_foreach(m->object, name,
			    value) if (!is_known(m, name)) return fail_unknown(m, name);
	return m->failed ? -1 : 0;
}

int json_members_end_lenient(struct json_members *m)
{
	return m->failed ? -1 : 0;
}

/* Every reader comes by here, so the object learns its known names. */
json_t *json_members_take(struct json_members *m, const char *name)
{
	json_t *value = json_object_get(m->object, name);

	assert(m->nknown < JSON_MEMBERS_MAX);
	m->known[m->nknown++] = name;
	return json_is_null(value) ? NULL : value;
}

static void fail_size(struct json_members *m, const char *name, const char *what, size_t max)
{
	char why[96];

	(void)snprintf(why, sizeof(why), "%s: at most %zu bytes", what, max);
	(void)json_members_fail(m, name, why);
}

void json_members_too_large(struct json_members *m, const char *name, size_t max)
{
	fail_size(m, name, "is too large", max);
}

void json_members_text(struct json_members *m, const char *name, size_t max, const char **ret)
{
	json_t *value = json_members_take(m, name);

	if (value == NULL)
		return;
	if (!json_is_string(value))
		(void)json_members_fail(m, name, "must be a string");
	else if (json_string_length(value) > max)
		fail_size(m, name, "is too long", max);
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

/* The message lists the words. */
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

/* A quantity is a number times scale, or text that parse reads. */
struct quantity {
	const char *name, *exact;
	double scale;
	units_fn *parse;
	const char *why;
};

/* In the form of answers. */
static bool read_exact(struct json_members *m, const char *name, const json_t *value, uint64_t *ret)
{
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value) || n < 0 || n > (json_int_t)NUMBER_MAX)
		return json_members_fail(m, name, "must be a whole number, 0 or more") == 0;
	*ret = (uint64_t)n;
	return true;
}

/* True: *ret is set. False: absent, or failed. */
static bool read_quantity(struct json_members *m, const struct quantity *q, uint64_t *ret)
{
	json_t *value = json_members_take(m, q->name);
	const json_t *exact = q->exact == NULL ? NULL : json_members_take(m, q->exact);
	struct err e = { 0 };

	if (exact != NULL && value != NULL)
		return json_members_fail(m, q->exact, "is given beside its other form") == 0;
	if (exact != NULL)
		return read_exact(m, q->exact, exact, ret);
	if (value == NULL)
		return false;
	if (json_is_number(value)) {
		double x = json_number_value(value) * q->scale;

		if (!(x >= 0 && x <= NUMBER_MAX)) /* also refuses NaN */
			return json_members_fail(m, q->name, q->why) == 0;
		*ret = (uint64_t)(x + 0.5);
		/* A given value must not be zero. */
		if (*ret == 0 && x > 0)
			*ret = 1;
		return true;
	}
	if (!json_is_string(value))
		return json_members_fail(m, q->name, q->why) == 0;
	if (q->parse(json_string_value(value), 0, (uint64_t)NUMBER_MAX, ret, &e) < 0)
		return json_members_fail(m, q->name, e.msg) == 0;
	return true;
}

void json_members_bytes(struct json_members *m, const char *name, const char *exact, uint64_t *ret,
			bool *given)
{
	const struct quantity q = { name, exact, 1, units_bytes,
				    "must be bytes, or a size like \"512M\"" };
	bool there = read_quantity(m, &q, ret);

	if (given != NULL)
		*given = there;
}

void json_members_time(struct json_members *m, const char *name, const char *exact,
		       uint64_t *ret_ms, bool *given)
{
	const struct quantity q = { name, exact, 1000, units_time_ms,
				    "must be seconds, or a time like \"30s\"" };
	bool there = read_quantity(m, &q, ret_ms);

	if (given != NULL)
		*given = there;
}

void json_members_millis(struct json_members *m, const char *name, const char *exact, uint64_t *ret)
{
	const struct quantity q = { name, exact, 1000, units_millis, "must be a number like 1.5" };

	(void)read_quantity(m, &q, ret);
}

static void fail_count(struct json_members *m, const char *name, size_t max, const char *what)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "has too many %s: at most %zu", what, max);
	(void)json_members_fail(m, name, text);
}

/* Size is checked here, content by the caller. */
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
		json_members_too_large(m, name, max_bytes);
}
