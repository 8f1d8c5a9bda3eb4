/* secrets_body.c - placeholders in bodies: in one named member of JSON, at any depth, or in one
 * field of a form. The rest of the body stays as it is, byte for byte. */
#include <string.h>

#include "egress/secrets/secrets.h"
#include "egress/secrets/secrets_private.h"
#include "lib/base/buf.h"
#include "lib/http/url.h"
#include "lib/json/json_scan.h"

#define MADE_MAX (4U << 20)

enum secrets_body_kind { NEITHER, JSON, FORM };

/* Parameters of the type, such as a charset, do not matter. */
static enum secrets_body_kind kind_of(struct http1_span content_type)
{
	struct http1_span t = http1_media_type(content_type);

	if (http1_span_is_nocase(t, "application/x-www-form-urlencoded"))
		return FORM;
	if (http1_span_is_nocase(t, "application/json") ||
	    (t.n > 5 && http1_span_is_nocase((struct http1_span){ t.p + t.n - 5, 5 }, "+json")))
		return JSON;
	return NEITHER;
}

bool secrets_wants_body(const struct secrets *s, const struct secrets_use *u,
			struct http1_span content_type)
{
	if (s == NULL || kind_of(content_type) == NEITHER)
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].fields[0] != NULL && s->all[i].placeholder != NULL &&
		    secrets_allowed(&s->all[i], u))
			return true;
	return false;
}

struct work {
	const struct secrets *s;
	struct secrets_use *u;
	uint64_t may; /* set of those that may be put into this request */
	uint64_t put; /* set of those that were */
	const uint8_t *body;
	size_t copied; /* bytes of the body copied so far */
	size_t begin;  /* offset of the string being read */
	struct buf made;
};

static bool is_field(const struct secret *x, const char *name)
{
	for (char **p = x->fields; p != NULL && *p != NULL; p++)
		if (strcmp(*p, name) == 0)
			return true;
	return false;
}

/* Escape it for the inside of a JSON string. */
static void put_json(struct buf *b, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '"' || c == '\\')
			buf_printf(b, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			buf_printf(b, "\\u%04x", c);
		else
			buf_put(b, p + i, 1);
	}
}

static void put_form(struct buf *b, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char coded[4];

		if (p[i] == '\0')
			buf_put_text(b, "%00");
		else if (url_encode(p + i, 1, coded, sizeof(coded)) > 0)
			buf_put_text(b, coded);
	}
}

/* Replace the placeholders that may be replaced in this field. The rest of this part of the body
 * is copied with what follows. */
static void secrets_body_replace(struct work *w, const char *field, size_t from, size_t to,
				 enum secrets_body_kind kind)
{
	struct http1_span text = { (const char *)w->body, to };
	const struct secret *x;
	size_t i = from;

	while (w->may != 0 && (x = secrets_placeholder_find(w->s, text, &i)) != NULL) {
		if ((w->may >> (x - w->s->all) & 1) == 0 || !is_field(x, field)) {
			i++;
			continue;
		}
		buf_put(&w->made, w->body + w->copied, i - w->copied);
		(kind == JSON ? put_json : put_form)(&w->made, x->value, x->len);
		w->copied = i += x->placeholder_len;
		w->put |= UINT64_C(1) << (x - w->s->all);
	}
}

/* The set of secrets with a placeholder that this request may have. Computed once for the whole
 * body. */
static uint64_t find_allowed(const struct secrets *s, const struct secrets_use *u)
{
	uint64_t set = 0;

	for (size_t k = 0; k < s->n; k++)
		if (s->all[k].placeholder != NULL && secrets_allowed(&s->all[k], u))
			set |= 1ULL << k;
	return set;
}

/* The scanner only gives places: placeholders are searched for in the raw text. */
static bool on_string(struct json_scan *s)
{
	struct work *w = s->arg;

	w->begin = (size_t)s->at + 1;
	return false;
}

static void on_string_end(struct json_scan *s)
{
	struct work *w = s->arg;

	secrets_body_replace(w, json_scan_key(s), w->begin, (size_t)s->at, JSON);
}

/* False: not JSON, and nothing is put in. */
static bool walk_json(struct work *w, size_t len)
{
	static const struct json_scan_calls calls = { .on_string = on_string,
						      .on_string_end = on_string_end };
	struct json_scan scan;

	json_scan_init(&scan, &calls, w);
	json_scan_feed(&scan, w->body, len);
	return scan.done;
}

/* Names are decoded, values are searched as they are. */
static bool walk_form(struct work *w, size_t len)
{
	struct http1_span rest = { (const char *)w->body, len }, name, value;
	char field[256];

	while (url_query_next(&rest, &name, &value)) {
		size_t from;

		if (value.p == NULL || url_decode_form(name, field, sizeof(field)) < 0)
			continue;
		from = (size_t)(value.p - (const char *)w->body);
		secrets_body_replace(w, field, from, from + value.n, FORM);
	}
	return true;
}

/* Set u->misused if a placeholder is left. */
static void find_misuse(struct work *w, const uint8_t *body, size_t len)
{
	size_t at = 0;

	if (secrets_placeholder_find(w->s, (struct http1_span){ (const char *)body, len }, &at) !=
	    NULL)
		w->u->misused = true;
}

int secrets_body(const struct secrets *s, struct secrets_use *u, struct http1_span content_type,
		 const uint8_t *body, size_t len, uint8_t **ret)
{
	struct work w = { .s = s, .u = u, .body = body, .made = BUF_INIT(MADE_MAX) };
	enum secrets_body_kind kind = kind_of(content_type);
	struct err e;
	bool valid;

	if (s == NULL || kind == NEITHER || len == 0 || len > SECRETS_BODY_MAX)
		return 0;
	w.made.secret = true;
	w.may = find_allowed(s, u);
	valid = kind == JSON ? walk_json(&w, len) : walk_form(&w, len);
	buf_put(&w.made, body + w.copied, len - w.copied);
	if (!valid || w.put == 0) {
		find_misuse(&w, body, len);
		buf_release(&w.made);
		return 0;
	}
	if (buf_check(&w.made, &e) < 0) {
		buf_release(&w.made);
		return -1;
	}
	for (size_t k = 0; k < s->n; k++)
		if ((w.put >> k & 1) != 0)
			secrets_add_name(&s->all[k], u);
	find_misuse(&w, w.made.data, w.made.len);
	*ret = w.made.data; /* buf_release() would free it: it was allocated by malloc() */
	return (int)w.made.len;
}
