/* api_tenants.c - creates, lists, changes and removes tenants; for the operator only. */
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "json.h"
#include "json_members.h"
#include "operator_list.h"
#include "reply.h"
#include "spec_allow.h"
#include "request.h"
#include "json_view.h"

#define TENANT_JSON_MAX 4096
#define COUNT_MAX 1000000

static void show(struct json *j, const struct store_tenant *t)
{
	json_open(j, NULL, '{');
	json_text(j, "id", t->id);
	json_text(j, "name", t->name);
	json_bool(j, "operator", t->is_operator);
	json_bool(j, "disabled", t->disabled);
	json_view_time(j, "created_at", t->created_ms);
	/* 0 in each: as configured for all */
	json_uint(j, "max_sessions", t->max_sessions);
	json_uint(j, "create_rate_millis", t->create_rate_milli);
	json_uint(j, "burst", t->create_burst);
	json_uint(j, "queue_length", t->queue_length);
	json_uint(j, "queue_timeout_ms", t->queue_ms);
	json_uint(j, "max_memory_bytes", t->max_memory);
	json_uint(j, "max_storage_bytes", t->max_storage);
	json_uint(j, "max_pids", t->max_pids);
	json_uint(j, "max_stored_bytes", t->max_stored);
	spec_allow_show(j, "allow", &t->allow);
	json_close(j, '}');
}

static void reply_tenant(struct request *r, int status, const struct store_tenant *t)
{
	struct json j;

	json_init_heap(&j, TENANT_JSON_MAX);
	show(&j, t);
	reply_json(r, status, &j);
}

struct tenant *api_tenants_find(struct request *r)
{
	struct tenant *t;

	if (!auth_is_operator(r)) {
		reply_code(r, 403, "forbidden", "only the operator may do this");
		return NULL;
	}
	t = tenant_find(r->core, r->id);
	if (t == NULL || tenant_row(t)->disabled) {
		reply_code(r, 404, "not_found", "there is no such tenant");
		return NULL;
	}
	return t;
}

/* Is it the operator's key, and without limits of its own? Else answers. */
static bool may_change(struct request *r)
{
	struct err e = { 0 };

	if (auth_check_operator(r, &e) == 0)
		return true;
	reply_error(r, &e);
	return false;
}

struct tenant *api_tenants_find_to_change(struct request *r)
{
	return may_change(r) ? api_tenants_find(r) : NULL;
}

static int on_row(const struct store_tenant *row, void *cookie)
{
	if (!row->disabled)
		show(cookie, row);
	return 0;
}

static int write_all(struct core *c, struct json *j, struct err *e)
{
	return store_tenant_each(core_store(c), on_row, j, e);
}

void api_tenants_list(struct request *r)
{
	operator_list(r, "tenants", write_all);
}

/* Changes the members of *row that the body has. */
static int read_tenant(const uint8_t *body, size_t len, struct store_tenant *row, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	const char *name = NULL;
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", STORE_NAME_MAX - 1, &name);
	json_members_count(&m, "max_sessions", 0, COUNT_MAX, &row->max_sessions);
	json_members_millis(&m, "create_rate", &row->create_rate_milli);
	json_members_count(&m, "burst", 0, COUNT_MAX, &row->create_burst);
	json_members_count(&m, "queue_length", 0, COUNT_MAX, &row->queue_length);
	json_members_time(&m, "queue_timeout", &row->queue_ms, NULL);
	json_members_bytes(&m, "max_memory", &row->max_memory, NULL);
	json_members_bytes(&m, "max_storage", &row->max_storage, NULL);
	json_members_count(&m, "max_pids", 0, COUNT_MAX, &row->max_pids);
	json_members_bytes(&m, "max_stored", &row->max_stored, NULL);
	spec_allow_read(&m, "allow", false, &row->allow);
	if (name != NULL)
		(void)snprintf(row->name, sizeof(row->name), "%s", name);
	if (row->name[0] == '\0')
		(void)json_members_fail(&m, "name", "is missing");
	for (const char *c = row->name; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			(void)json_members_fail(&m, "name", "must not have control characters");
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct store_tenant row = { 0 };
	struct err e = { 0 };

	if (read_tenant(body, len, &row, &e) < 0 ||
	    tenant_create(r->core, &row, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_tenant(r, 201, &row);
}

void api_tenants_create(struct request *r)
{
	if (may_change(r))
		request_body(r, on_create_body);
}

void api_tenants_get(struct request *r)
{
	struct tenant *t = api_tenants_find(r);

	if (t != NULL)
		reply_tenant(r, 200, tenant_row(t));
}

static void on_update_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct tenant *t = api_tenants_find(r);
	struct store_tenant row;
	struct err e = { 0 };

	if (t == NULL)
		return;
	row = *tenant_row(t);
	if (read_tenant(body, len, &row, &e) < 0 ||
	    tenant_update(r->core, t, &row, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_tenant(r, 200, tenant_row(t));
}

void api_tenants_update(struct request *r)
{
	if (api_tenants_find_to_change(r) != NULL)
		request_body(r, on_update_body);
}

void api_tenants_delete(struct request *r)
{
	struct tenant *t;
	struct err e = { 0 };

	if (!may_change(r))
		return;
	t = tenant_find(r->core, r->id);
	if (t == NULL)
		reply_code(r, 404, "not_found", "there is no such tenant");
	else if (!tenant_row(t)->disabled && tenant_remove(r->core, t, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
