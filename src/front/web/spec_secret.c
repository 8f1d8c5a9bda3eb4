#include "front/web/spec_secret.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/http/http1.h"
#include "lib/policy/host.h"
#include "lib/policy/path.h"

#define LIST_MAX 64
#define FIELD_MAX 128

typedef bool fits_fn(const char *text);

static bool is_host(const char *text)
{
	struct host_pattern p;

	return host_pattern_read(text, &p) == 0 && !p.any; /* "*" would not bind it to any host */
}

static bool is_method(const char *text)
{
	size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-");

	return n > 0 && n < 32 && text[n] == '\0';
}

static bool is_path(const char *text)
{
	struct err e;

	return strpbrk(text, "\r\n") == NULL && path_pattern_check(text, &e) == 0;
}

static bool is_place(const char *text)
{
	size_t n = strlen(text);

	if (strcmp(text, "header") == 0 || strcmp(text, "basic") == 0)
		return true;
	if (strncmp(text, "header:", 7) == 0)
		return n <= 7 + FIELD_MAX && http1_is_token(text + 7, n - 7);
	if (strncmp(text, "body:", 5) != 0 || n == 5 || n > 5 + FIELD_MAX)
		return false;
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < 0x20)
			return false;
	return true;
}

/* A list of texts as lines. NULL if absent. */
static const char *read_list(struct json_members *m, const char *name, fits_fn *fits,
			     const char *why, struct buf *to)
{
	json_t *list = json_members_array(m, name, LIST_MAX);
	struct err e;

	if (list == NULL)
		return NULL;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text == NULL || !fits(text)) {
			(void)json_members_fail(m, name, why);
			return NULL;
		}
		buf_put_text(to, text);
		buf_put_text(to, "\n");
	}
	if (buf_check(to, &e) < 0)
		json_members_too_large(m, name, to->cap);
	return buf_text(to);
}

static void read_ways(struct json_members *m, unsigned *ret)
{
	json_t *list = json_members_array(m, "ways", 4);

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));
		unsigned way = word == NULL ? 0 : secret_spec_find_way(word);

		if (way == 0) {
			(void)json_members_fail(m, "ways",
						"must contain only broker, env, file, socket");
			return;
		}
		*ret |= way;
	}
	if (list != NULL && *ret == 0)
		(void)json_members_fail(m, "ways", "must name at least one");
}

/* Not json_members_text(): secret.c checks the length and has a message of its own. */
static void read_value(struct json_members *m, struct secret_fields *w)
{
	json_t *value = json_members_take(m, "value");

	if (value == NULL)
		return;
	if (!json_is_string(value)) {
		(void)json_members_fail(m, "value", "must be a string");
		return;
	}
	w->value = json_string_value(value);
	w->value_len = json_string_length(value);
}

int spec_secret_read(const void *body, size_t len, bool lenient, struct spec_secret *ret,
		     struct err *e)
{
	struct secret_fields *w = &ret->fields;
	struct json_members m;

	memset(ret, 0, sizeof(*ret));
	buf_init(&ret->hosts, SECRET_LIST_BYTES);
	buf_init(&ret->methods, SECRET_LIST_BYTES);
	buf_init(&ret->paths, SECRET_LIST_BYTES);
	buf_init(&ret->places, SECRET_LIST_BYTES);
	ret->root = json_members_parse(body, len, e);
	if (ret->root == NULL)
		return -1;
	json_members_begin(&m, ret->root, "", e);
	json_members_text(&m, "name", 255, &ret->name);
	read_value(&m, w);
	json_members_string_map(&m, "metadata", LIST_MAX, SECRET_METADATA_BYTES, &ret->metadata);
	w->metadata = ret->metadata;
	if (lenient)
		return json_members_end_lenient(&m);
	w->hosts =
		read_list(&m, "hosts", is_host, "must be names of hosts, or *.NAME", &ret->hosts);
	w->methods =
		read_list(&m, "methods", is_method, "must be methods such as GET", &ret->methods);
	w->paths = read_list(&m, "paths", is_path, "must be patterns of paths such as /v1/**",
			     &ret->paths);
	w->places =
		read_list(&m, "in", is_place,
			  "must contain only header, header:NAME, basic, body:FIELD", &ret->places);
	read_ways(&m, &w->ways);
	json_members_time(&m, "ttl", NULL, &w->ttl_ms, &w->ttl_given);
	return json_members_end(&m);
}

void spec_secret_release(struct spec_secret *s)
{
	json_decref(s->root);
	free(s->metadata);
	buf_release(&s->hosts);
	buf_release(&s->methods);
	buf_release(&s->paths);
	buf_release(&s->places);
}

/* ---- of a session */

static void spec_secret_copy(struct json_members *m, const char *name, char *ret, size_t cap)
{
	const char *text = NULL;

	json_members_text(m, name, cap - 1, &text);
	if (text != NULL && strpbrk(text, "\t\r\n") != NULL)
		(void)json_members_fail(m, name, "must not contain a tab or a newline");
	else if (text != NULL)
		str_copy_to(ret, cap, text);
}

static void read_mode(struct json_members *m, uint32_t *ret)
{
	const char *text = NULL;
	char *end;

	json_members_text(m, "mode", 4, &text);
	if (text == NULL)
		return;
	*ret = (uint32_t)strtoul(text, &end, 8);
	if (*text < '0' || *text > '7' || *end != '\0' || *ret == 0 || *ret > 0777)
		(void)json_members_fail(m, "mode", "must be octal, such as 0400");
}

static int read_one(struct json_members *outer, const char *name, json_t *object, struct buf *to)
{
	static const char *const words[] = { "broker", "env", "file", "socket" };
	static const char *const where[] = { "env", "env", "path", "program" };
	struct secret_spec l = { 0 };
	unsigned as = 0;
	struct json_members m;

	if (!json_is_object(object))
		return json_members_fail(outer, name, "must be an array of objects");
	json_members_begin(&m, object, name, outer->e);
	spec_secret_copy(&m, "name", l.name, sizeof(l.name));
	json_members_choice(&m, "as", words, COUNT(words), &as);
	l.way = secret_spec_find_way(words[as]);
	spec_secret_copy(&m, where[as], l.where, sizeof(l.where));
	if ((l.way & (SECRET_FILE | SECRET_SOCKET)) != 0)
		spec_secret_copy(&m, "owner", l.owner, sizeof(l.owner));
	if (l.way == SECRET_FILE)
		read_mode(&m, &l.mode);
	if (json_members_end(&m) < 0 || secret_spec_check(&l, outer->e) < 0) {
		outer->failed = true;
		return -1;
	}
	secret_spec_write(&l, to);
	return 0;
}

void spec_secret_list(struct json_members *m, const char *name, struct buf *to)
{
	json_t *list = json_members_array(m, name, SECRET_LINES_MAX);
	struct err e;

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++)
		if (read_one(m, name, json_array_get(list, i), to) < 0)
			return;
	if (buf_check(to, &e) < 0)
		json_members_too_large(m, name, to->cap);
}
