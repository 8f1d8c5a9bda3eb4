/* api_secrets.c - creates, changes, shows and deletes secrets. Values are never shown.
 *
 * The work is in secret_calls.h, which E2B's interface uses, too. This file gives it the native
 * form of a secret, and lists secrets by name in one turn. `problem` says why a secret is not
 * usable now. */
#include "daemon/secrets/secret.h"
#include "front/rest/api_handlers.h"
#include "front/rest/list_page.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/secret_calls.h"
#include "lib/json/json.h"

/* The store keeps lists as lines. Write them as an array. */
static void secrets_lines(struct json *j, const char *name, const char *text)
{
	json_open(j, name, '[');
	while (*text != '\0') {
		size_t n = 0;

		while (text[n] != '\n' && text[n] != '\0')
			n++;
		json_bytes(j, NULL, text, n);
		text += n + (text[n] == '\n');
	}
	json_close(j, ']');
}

/* The secret without its value. The sealed value in the row is never opened here. */
static void secrets_show(struct json *j, struct core *c, const struct store_secret *s)
{
	struct err e = { 0 };
	bool usable = secret_usable(c, s, &e) == 0;

	json_open(j, NULL, '{');
	json_text(j, "id", s->id);
	json_text(j, "name", s->name);
	json_uint(j, "version", s->version);
	json_raw(j, "metadata", s->metadata[0] == '\0' ? "{}" : s->metadata);
	secrets_lines(j, "hosts", s->hosts);
	secrets_lines(j, "methods", s->methods);
	secrets_lines(j, "paths", s->paths);
	secrets_lines(j, "in", s->places[0] == '\0' ? "header\nbasic" : s->places);
	json_open(j, "ways", '[');
	for (unsigned way = 1; way < SECRET_WAYS; way <<= 1)
		if ((s->ways & way) != 0)
			json_text(j, NULL, secret_spec_way(way));
	json_close(j, ']');
	json_bool(j, "usable", usable);
	json_text(j, "problem", usable ? NULL : e.msg);
	json_view_time(j, "created_at", s->created_ms);
	json_view_time(j, "updated_at", s->updated_ms);
	json_view_time(j, "expires_at", s->expires_ms);
	json_close(j, '}');
}

/* The native form, for all calls of secret_calls.h. */
static const struct secret_calls how = { .show = secrets_show, .place = "/v1/secrets/" };

/* core: secret_usable() needs it for each row. */
struct secrets_list {
	struct list_part part;
	struct core *core;
};

/* 1: the page has ended. */
static int on_row(const struct store_secret *row, void *cookie)
{
	struct secrets_list *l = cookie;

	if (!list_part_admits(&l->part, 0, row->name))
		return 1;
	secrets_show(&l->part.j, l->core, row);
	return 0;
}

void api_secrets_list(struct request *r)
{
	struct secrets_list l = { .core = r->core };
	struct err e = { 0 };

	if (list_part_begin(&l.part, r, "secrets", false, &e) < 0) {
		reply_error(r, &e);
	} else if (store_secret_list(core_store(r->core), tenant_row(r->tenant)->id, l.part.last,
				     list_part_rows(&l.part), on_row, &l, &e) < 0) {
		json_release(&l.part.j);
		reply_error(r, &e);
	} else {
		list_part_reply(&l.part, r);
	}
}

static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	secret_calls_create(request_of(x), &how, body, len);
}

/* A value may be long. */
void api_secrets_create(struct request *r)
{
	request_long_body(r, on_create_body);
}

void api_secrets_get(struct request *r)
{
	secret_calls_get(r, &how);
}

static void on_update_body(struct exchange *x, const uint8_t *body, size_t len)
{
	secret_calls_update(request_of(x), &how, body, len);
}

void api_secrets_update(struct request *r)
{
	request_long_body(r, on_update_body);
}

void api_secrets_delete(struct request *r)
{
	secret_calls_delete(r);
}
