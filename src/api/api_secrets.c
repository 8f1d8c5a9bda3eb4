/* api_secrets.c - creates, changes, shows and deletes secrets. Values are never shown. */
#include "api_handlers.h"
#include "json.h"
#include "reply.h"
#include "secret.h"
#include "secret_calls.h"
#include "json_view.h"

#define PAGE 1000 /* as many as a tenant may have */

static void lines(struct json *j, const char *name, const char *text)
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

static void show(struct json *j, struct core *c, const struct store_secret *s)
{
	struct err e = { 0 };
	bool usable = secret_usable(c, s, &e) == 0;

	json_open(j, NULL, '{');
	json_text(j, "id", s->id);
	json_text(j, "name", s->name);
	json_uint(j, "version", s->version);
	json_raw(j, "metadata", s->metadata[0] == '\0' ? "{}" : s->metadata);
	lines(j, "hosts", s->hosts);
	lines(j, "methods", s->methods);
	lines(j, "paths", s->paths);
	lines(j, "in", s->places[0] == '\0' ? "header\nbasic" : s->places);
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

static const struct secret_calls how = { .show = show };

struct list {
	struct json j;
	struct core *core;
};

static int on_row(const struct store_secret *row, void *cookie)
{
	struct list *l = cookie;

	show(&l->j, l->core, row);
	return 0;
}

void api_secrets_list(struct request *r)
{
	struct list l = { .core = r->core };
	struct err e = { 0 };

	json_init_heap(&l.j, REPLY_JSON_MAX);
	json_open(&l.j, NULL, '{');
	json_open(&l.j, "secrets", '[');
	if (store_secret_list(core_store(r->core), tenant_row(r->tenant)->id, "", PAGE, on_row, &l,
			      &e) < 0) {
		json_release(&l.j);
		reply_error(r, &e);
		return;
	}
	json_close(&l.j, ']');
	json_close(&l.j, '}');
	reply_json(r, 200, &l.j);
}

static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	secret_calls_create(request_of(x), &how, body, len);
}

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
