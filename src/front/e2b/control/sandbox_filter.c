/* sandbox_filter.c - theory of operation
 *
 * A row's metadata was written by one writer in one form: {"name":"value",...}, without spaces. So
 * the filter is written the same way once, and then compared byte by byte with the text of the
 * rows: no row is parsed. */
#include "front/e2b/control/sandbox_filter.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/e2b/base/rfc3339.h"
#include "lib/base/base64.h"
#include "lib/http/url.h"

/* ---- metadata
 *
 * sandbox_filter_read() turns the parameter into pairs of JSON strings. has_pair() looks for one
 * pair in a row. */

static int refuse_pairs(struct err *e)
{
	return err_set(e, ERR_INVALID,
		       "parameter metadata: must be name=value, joined by '&', twice encoded");
}

/* Decode a name or a value and write it as JSON. NULL: it is malformed. */
static char *as_json(const char *raw, size_t n)
{
	char text[SANDBOX_FILTER_TEXT_MAX], *written;
	json_t *string;

	if (url_decode_form((struct http1_span){ raw, n }, text, sizeof(text)) < 0)
		return NULL;
	string = json_string(text); /* NULL if it is not UTF-8 */
	written = string == NULL ? NULL : json_dumps(string, JSON_ENCODE_ANY | JSON_COMPACT);
	json_decref(string);
	return written;
}

/* Take both over. Of two pairs with the same name the last one counts. */
static void sandbox_filter_add(struct sandbox_filter *f, char *name, char *value)
{
	unsigned i = 0;

	while (i < f->n && strcmp(f->pairs[i].name, name) != 0)
		i++;
	if (i < f->n) {
		free(f->pairs[i].name);
		free(f->pairs[i].value);
	} else {
		f->n++;
	}
	f->pairs[i].name = name;
	f->pairs[i].value = value;
}

/* at is not ended by a NUL. */
static int read_pair(const char *at, size_t n, struct sandbox_filter *f, struct err *e)
{
	const char *equals = memchr(at, '=', n), *value;
	char *name_text, *value_text;
	size_t value_n;

	if (f->n == SANDBOX_FILTER_PAIRS_MAX)
		return err_set(e, ERR_INVALID, "parameter metadata: at most %d pairs",
			       SANDBOX_FILTER_PAIRS_MAX);
	if (equals == NULL)
		return refuse_pairs(e);
	value = equals + 1;
	value_n = n - (size_t)(value - at);
	if (memchr(value, '=', value_n) != NULL)
		return refuse_pairs(e);
	name_text = as_json(at, (size_t)(equals - at));
	value_text = as_json(value, value_n);
	if (name_text == NULL || value_text == NULL) {
		free(name_text);
		free(value_text);
		return refuse_pairs(e);
	}
	sandbox_filter_add(f, name_text, value_text);
	return 0;
}

int sandbox_filter_read(const char *parameter, struct sandbox_filter *ret, struct err *e)
{
	char text[SANDBOX_FILTER_TEXT_MAX];

	ret->n = 0;
	if (*parameter == '\0')
		return 0;
	if (url_decode_form((struct http1_span){ parameter, strlen(parameter) }, text,
			    sizeof(text)) < 0)
		return refuse_pairs(e);
	for (const char *at = text;;) {
		size_t n = strcspn(at, "&");

		if (read_pair(at, n, ret, e) < 0)
			return -1;
		if (at[n] == '\0')
			return 0;
		at += n + 1;
	}
}

/* n becomes 0, so a second call is safe. */
void sandbox_filter_release(struct sandbox_filter *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		free(f->pairs[i].name);
		free(f->pairs[i].value);
	}
	f->n = 0;
}

/* Behind the JSON string that begins here. NULL: none does. */
static const char *skip_string(const char *at)
{
	if (*at != '"')
		return NULL;
	for (at++; *at != '"'; at++) {
		if (*at == '\\')
			at++;
		if (*at == '\0')
			return NULL;
	}
	return at + 1;
}

/* Compares bytes: texts in metadata with their quotes and escapes. */
static bool is_same(const char *at, const char *end, const char *want)
{
	size_t n = strlen(want);

	return (size_t)(end - at) == n && memcmp(at, want, n) == 0;
}

/* One pass over the text. Any other form of text has no pairs. */
static bool has_pair(const char *metadata, const char *name, const char *value)
{
	const char *at = metadata;

	if (*at != '{')
		return false;
	do {
		const char *from = at + 1, *colon = skip_string(from), *end;

		if (colon == NULL || *colon != ':')
			return false;
		end = skip_string(colon + 1);
		if (end == NULL)
			return false;
		if (is_same(from, colon, name))
			return is_same(colon + 1, end, value);
		at = end;
	} while (*at == ',');
	return false;
}

bool sandbox_filter_matches(const struct sandbox_filter *f, const char *metadata)
{
	for (unsigned i = 0; i < f->n; i++)
		if (!has_pair(metadata, f->pairs[i].name, f->pairs[i].value))
			return false;
	return true;
}

/* ---- states */

int sandbox_filter_states(const char *parameter, unsigned *ret, struct err *e)
{
	static const char *const words[] = { "running", "paused" };
	unsigned set = 0;

	if (*parameter == '\0') {
		*ret = SANDBOX_FILTER_RUNNING | SANDBOX_FILTER_PAUSED;
		return 0;
	}
	for (const char *at = parameter;;) {
		size_t n = strcspn(at, ","), i = 0;

		while (i < COUNT(words) && !is_same(at, at + n, words[i]))
			i++;
		if (i == COUNT(words))
			return err_set(e, ERR_INVALID,
				       "parameter state: must be running, paused or both");
		set |= 1U << i;
		if (at[n] == '\0')
			break;
		at += n + 1;
	}
	*ret = set;
	return 0;
}

/* ---- pages
 *
 * The token has E2B's form. */

#define ASCENDING "__asc"

void sandbox_filter_cursor_write(const struct sandbox_filter_cursor *c,
				 char ret[SANDBOX_FILTER_CURSOR_MAX])
{
	char time[RFC3339_MAX], text[RFC3339_MAX + STORE_ID_MAX + 8];
	int n;

	rfc3339_write(c->ms, time);
	n = snprintf(text, sizeof(text), "%s__%s%s", time, c->id, c->ascending ? ASCENDING : "");
	_Static_assert(BASE64_LENGTH(sizeof(text)) < SANDBOX_FILTER_CURSOR_MAX, "it fits");
	base64_encode(text, (size_t)n, ret);
	for (; *ret != '\0'; ret++) /* for URLs: two characters are others there */
		*ret = (char)(*ret == '+' ? '-' : *ret == '/' ? '_' : *ret);
}

static int refuse_cursor(struct err *e)
{
	return err_set(e, ERR_INVALID, "parameter nextToken: not a token from this server");
}

/* No NUL may be inside: the parts are read as texts. */
static bool sandbox_filter_decode(const char *text, char ret[SANDBOX_FILTER_CURSOR_MAX])
{
	size_t n = strlen(text);
	ssize_t len =
		n >= SANDBOX_FILTER_CURSOR_MAX ? -1 : base64_decode_any(text, n, (uint8_t *)ret);

	if (len < 0 || memchr(ret, '\0', (size_t)len) != NULL)
		return false;
	ret[len] = '\0';
	return true;
}

int sandbox_filter_cursor_read(const char *text, struct sandbox_filter_cursor *ret, struct err *e)
{
	char plain[SANDBOX_FILTER_CURSOR_MAX], *id, *order;
	uint64_t us;

	if (!sandbox_filter_decode(text, plain))
		return refuse_cursor(e);
	id = strstr(plain, "__");
	if (id == NULL)
		return refuse_cursor(e);
	*id = '\0';
	id += 2;
	order = strstr(id, "__");
	ret->ascending = order != NULL && strcmp(order, ASCENDING) == 0;
	if (order != NULL && !ret->ascending)
		return refuse_cursor(e);
	if (order != NULL)
		*order = '\0';
	if (rfc3339_read(plain, &us) < 0 || !session_id_read(id, strlen(id), ret->id))
		return refuse_cursor(e);
	ret->ms = us / 1000;
	return 0;
}
