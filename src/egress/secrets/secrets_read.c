/* secrets_read.c - reads and checks the secrets of a session's configuration. It comes from
 * cordond, but its contents come from tenants. */
#include <jansson.h>
#include <malloc.h>
#include <string.h>

#include "egress/secrets/secrets.h"
#include "egress/secrets/secrets_private.h"
#include "lib/base/rand.h"
#include "lib/policy/path.h"

static int secrets_read_bad(struct err *e, const char *name, const char *why)
{
	return err_set(e, ERR_INVALID, "secret '%s': %s", name, why);
}

static char *secrets_read_copy(const json_t *text)
{
	size_t n = json_string_length(text);
	char *p = malloc(n + 1);

	if (p != NULL)
		memcpy(p, json_string_value(text), n + 1);
	return p;
}

static void list_free(char **list)
{
	for (char **p = list; p != NULL && *p != NULL; p++)
		free(*p);
	free(list);
}

void secrets_free(struct secrets *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->n; i++) {
		struct secret *x = &s->all[i];

		if (x->value != NULL)
			explicit_bzero(x->value, x->len);
		free(x->value);
		free(x->placeholder);
		free(x->hosts);
		list_free(x->methods);
		list_free(x->paths);
		list_free(x->headers);
		list_free(x->fields);
	}
	free(s->all);
	for (size_t i = 0; i < s->nothers; i++)
		free(s->others[i].hosts);
	free(s->others);
	free(s->by_name);
	free(s->next);
	free(s->of_rule);
	free(s->picks);
	mask_free(s->mask);
	explicit_bzero(s, sizeof(*s));
	free(s);
}

/* A list of texts. Absent or empty: NULL. */
static int read_list(const char *name, const json_t *list, char ***ret, struct err *e)
{
	size_t n = json_array_size(list);

	if (list != NULL && !json_is_null(list) && !json_is_array(list))
		return secrets_read_bad(e, name, "a list is expected");
	if (n > SECRETS_LIST_MAX)
		return secrets_read_bad(e, name, "a list is too long");
	if (n == 0)
		return 0;
	*ret = calloc(n + 1, sizeof(**ret));
	if (*ret == NULL)
		return err_sys(e, "allocate");
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(list, i);

		if (!json_is_string(item) || json_string_length(item) == 0)
			return secrets_read_bad(e, name,
						"a list has a member that is not a string");
		(*ret)[i] = secrets_read_copy(item);
		if ((*ret)[i] == NULL)
			return err_sys(e, "allocate");
	}
	return 0;
}

static int read_hosts(const char *name, const json_t *list, struct host_pattern **ret,
		      size_t *ret_n, struct err *e)
{
	char **texts = NULL;
	size_t n = json_array_size(list);
	int got = read_list(name, list, &texts, e);

	if (got == 0 && texts != NULL) {
		*ret = calloc(n, sizeof(**ret));
		if (*ret == NULL)
			got = err_sys(e, "allocate");
	}
	for (size_t i = 0; got == 0 && texts != NULL && texts[i] != NULL; i++) {
		if (host_pattern_read(texts[i], &(*ret)[i]) < 0)
			got = secrets_read_bad(e, name,
					       "a host is not a name or a pattern of names");
		(*ret_n)++;
	}
	list_free(texts);
	return got;
}

/* Add a copy to a list with room for it. */
static int list_add(char **list, const char *text)
{
	while (*list != NULL)
		list++;
	*list = strdup(text);
	return *list == NULL ? -1 : 0;
}

/* One word of "in". s->headers and s->fields have room for as many words as the list has. */
static int read_place(struct secret *s, const char *text, struct err *e)
{
	static const char header[] = "header:", body[] = "body:";
	size_t h = sizeof(header) - 1, b = sizeof(body) - 1;

	if (strcmp(text, "header") == 0)
		s->in_header = true;
	else if (strcmp(text, "basic") == 0)
		s->in_basic = true;
	else if (strncmp(text, header, h) == 0 && http1_is_token(text + h, strlen(text + h)))
		return list_add(s->headers, text + h) < 0 ? err_sys(e, "allocate") : 0;
	else if (strncmp(text, body, b) == 0 && text[b] != '\0')
		return list_add(s->fields, text + b) < 0 ? err_sys(e, "allocate") : 0;
	else
		return secrets_read_bad(e, s->name,
					"\"in\" is none of header, header:NAME, basic, body:FIELD");
	return 0;
}

/* Without "in": headers and basic authentication. */
static int read_in(struct secret *s, const json_t *list, struct err *e)
{
	char **texts = NULL;
	size_t n = json_array_size(list);
	int got = read_list(s->name, list, &texts, e);

	s->in_header = s->in_basic = got == 0 && texts == NULL;
	s->headers = calloc(n + 1, sizeof(char *));
	s->fields = calloc(n + 1, sizeof(char *));
	if (s->headers == NULL || s->fields == NULL)
		got = err_sys(e, "allocate");
	for (size_t i = 0; got == 0 && texts != NULL && texts[i] != NULL; i++)
		got = read_place(s, texts[i], e);
	list_free(texts);
	return got;
}

/* A secret without a placeholder is put in by rules only. */
static int read_value(struct secret *s, const json_t *o, struct err *e)
{
	const char *name = s->name;
	const json_t *value = json_object_get(o, "value");
	const json_t *placeholder = json_object_get(o, "placeholder");

	if (!json_is_string(value) || json_string_length(value) == 0 ||
	    json_string_length(value) > MASK_VALUE_MAX)
		return secrets_read_bad(e, name, "has no value, or one that is too long");
	s->len = json_string_length(value);
	s->value = secrets_read_copy(value);
	if (s->value == NULL)
		return err_sys(e, "allocate");
	if (placeholder == NULL || json_is_null(placeholder))
		return 0;
	if (!json_is_string(placeholder) ||
	    json_string_length(placeholder) < SECRETS_PLACEHOLDER_MIN ||
	    json_string_length(placeholder) > 256)
		return secrets_read_bad(e, name, "has a placeholder that is too short or too long");
	s->placeholder_len = json_string_length(placeholder);
	s->placeholder = secrets_read_copy(placeholder);
	return s->placeholder == NULL ? err_sys(e, "allocate") : 0;
}

/* A comma would divide the name in lists of names (secrets_use). */
static int read_one(struct secret *s, const json_t *o, struct err *e)
{
	const char *name = json_string_value(json_object_get(o, "name"));
	const json_t *expires = json_object_get(o, "expires_ms");

	if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof(s->name) ||
	    strchr(name, ',') != NULL)
		return err_set(e, ERR_INVALID, "a secret has no name, or a bad one");
	memcpy(s->name, name, strlen(name) + 1);
	if (read_value(s, o, e) < 0 ||
	    read_hosts(name, json_object_get(o, "hosts"), &s->hosts, &s->nhosts, e) < 0 ||
	    read_list(name, json_object_get(o, "methods"), &s->methods, e) < 0 ||
	    read_list(name, json_object_get(o, "paths"), &s->paths, e) < 0 ||
	    read_in(s, json_object_get(o, "in"), e) < 0)
		return -1;
	for (char **p = s->paths; p != NULL && *p != NULL; p++)
		if (path_pattern_check(*p, e) < 0)
			return err_wrap(e, "secret '%s'", s->name);
	if (expires != NULL && !json_is_null(expires) &&
	    (!json_is_integer(expires) || json_integer_value(expires) < 0))
		return secrets_read_bad(e, name, "expires_ms is not a time");
	s->expires_ms = (uint64_t)json_integer_value(expires);
	return 0;
}

/* An item of "mask": a value, or a value with the name and the hosts of its secret. */
static int read_other(struct secret_other *o, const json_t *v, const char **ret, size_t *ret_len,
		      struct err *e)
{
	const char *name = json_string_value(json_object_get(v, "name"));
	const json_t *value = json_is_object(v) ? json_object_get(v, "value") : v;

	if (!json_is_string(value) || (json_is_object(v) && (name == NULL || name[0] == '\0')) ||
	    (name != NULL && strlen(name) >= sizeof(o->name)))
		return err_set(e, ERR_INVALID, "mask has a member that is not a value");
	*ret = json_string_value(value);
	*ret_len = json_string_length(value);
	if (name == NULL)
		return 0;
	memcpy(o->name, name, strlen(name) + 1);
	return read_hosts(name, json_object_get(v, "hosts"), &o->hosts, &o->nhosts, e);
}

/* All values, also expired ones: servers may still repeat them. */
static int make_mask(struct secrets *s, const json_t *more, struct err *e)
{
	size_t extra = json_array_size(more), total = s->n + extra;
	OWN_MEM const char **values = calloc(total + 1, sizeof(values[0]));
	OWN_MEM size_t *lens = calloc(total + 1, sizeof(lens[0]));

	s->others = calloc(extra + 1, sizeof(s->others[0]));
	if (values == NULL || lens == NULL || s->others == NULL)
		return err_sys(e, "allocate");
	if (total == 0)
		return 0;
	for (size_t i = 0; i < s->n; i++) {
		values[i] = s->all[i].value;
		lens[i] = s->all[i].len;
	}
	for (size_t i = 0; i < extra; i++)
		if (read_other(&s->others[s->nothers++], json_array_get(more, i), &values[s->n + i],
			       &lens[s->n + i], e) < 0)
			return -1;
	s->mask = mask_new(values, lens, total, NULL, 0, e);
	return s->mask == NULL ? -1 : 0;
}

/* Counters grow before an item is read, so secrets_free() also releases an item read in part. */
static int read_all(struct secrets *s, const json_t *root, struct err *e)
{
	const json_t *list = json_object_get(root, "secrets"),
		     *more = json_object_get(root, "mask");

	if (!json_is_object(root) || (list != NULL && !json_is_array(list)) ||
	    (more != NULL && !json_is_array(more)))
		return err_set(e, ERR_INVALID, "secrets: malformed list");
	if (json_array_size(list) > SECRETS_MAX || json_array_size(more) > (size_t)16 * SECRETS_MAX)
		return err_set(e, ERR_LIMIT, "a session has at most %d secrets", SECRETS_MAX);
	s->all = calloc(json_array_size(list) + 1, sizeof(s->all[0]));
	if (s->all == NULL)
		return err_sys(e, "allocate");
	for (size_t i = 0; i < json_array_size(list); i++)
		if (read_one(&s->all[s->n++], json_array_get(list, i), e) < 0)
			return -1;
	return secrets_placeholder_index(s, e) < 0 ? -1 : make_mask(s, more, e);
}

/* The parser copies texts several times. No copy may be left in memory. */
static void wipe_and_free(void *p)
{
	if (p == NULL)
		return;
	explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

/* Left alone, the library would open a file for its seed, which a confined process cannot, and
 * take the time. */
void secrets_prepare(void)
{
	size_t seed;

	json_set_alloc_funcs(malloc, wipe_and_free);
	rand_bytes(&seed, sizeof(seed));
	json_object_seed(seed | 1);
}

/* *ret is set on success only. A failed read has wiped all values read so far. */
int secrets_read(const json_t *config, struct secrets **ret, struct err *e)
{
	struct secrets *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return err_sys(e, "allocate");
	if (read_all(s, config, e) < 0) {
		secrets_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}
