/* api_tenants.c - creates, lists, changes and removes tenants. For the operator only. Also the keys
 * and limits of the own tenant.
 *
 * A removed tenant stays as a disabled row until its sessions' rows are gone. To clients it does
 * not exist. A change needs an operator's key without limits of its own. */
#include "front/rest/api_tenants.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/disk/layers.h"
#include "daemon/session/redact.h"
#include "daemon/store/store_records.h"
#include "daemon/tenant/allow.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "front/rest/api_handlers.h"
#include "front/rest/list_page.h"
#include "front/web/auth.h"
#include "front/web/json_members.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/spec_session.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/json/json.h"

/* ---- keys
 *
 * Creates, lists and revokes API keys. The text of a key is shown once, when it is
 * created. */

/* The largest number in a limit, and the JSON of one key. */
#define COUNT_MAX 1000000
#define KEY_JSON_MAX 4096

/* Words for scopes. report_parts.c has the same ones. */
static const struct {
	const char *name;
	unsigned bit;
} scopes[] = { { "read", TENANT_READ },
	       { "sessions", TENANT_SESSIONS },
	       { "admin", TENANT_ADMIN },
	       { "audit", TENANT_AUDIT } };

/* key: the text, for the answer to a creation only. NULL otherwise. */
static void keys_show(struct json *j, const char *name, const struct store_key *k, const char *key)
{
	json_open(j, name, '{');
	json_text(j, "id", k->id);
	json_text(j, "name", k->name);
	if (key != NULL)
		json_text(j, "key", key);
	json_text(j, "prefix", k->prefix);
	json_open(j, "scopes", '[');
	for (size_t i = 0; i < COUNT(scopes); i++)
		if ((k->scopes & scopes[i].bit) != 0)
			json_text(j, NULL, scopes[i].name);
	json_close(j, ']');
	spec_allow_show(j, "allow", &k->allow);
	json_view_time(j, "created_at", k->created_ms);
	json_view_time(j, "expires_at", k->expires_ms);
	json_view_time(j, "last_used_at", k->last_used_ms);
	json_view_time(j, "revoked_at", k->revoked_ms);
	json_close(j, '}');
}

/* ---- list
 *
 * Keys are shown without their texts, newest first. */

/* Revoked keys are not listed. */
static int keys_on_row(const struct store_key *row, void *cookie)
{
	struct page_walk *p = cookie;

	if (row->revoked_ms != 0)
		return 0;
	if (!page_walk_admits(p))
		return 1;
	keys_show(&p->job.j, NULL, row, NULL);
	return 0;
}

/* Called for each piece of the page, by list_page.c. */
static int read_rows(struct page_walk *p, struct store_looked *ret, struct err *e)
{
	const struct request *r = p->job.r;
	const struct store_key_filter filter = { .tenant = tenant_row(r->tenant)->id,
						 .after_ms = p->page.after_ms,
						 .after_id = p->page.after_id,
						 .limit = LIST_JOB_PIECE };

	return store_key_list(core_store(r->core), &filter, keys_on_row, p, ret, e);
}

void api_keys_list(struct request *r)
{
	struct page_walk *p = page_walk_new(r, sizeof(*p), read_rows);

	if (p != NULL)
		page_walk_start(p, "keys");
}

/* ---- create
 *
 * A key is made for the own tenant, or by the operator for another one. check_creator() keeps a key
 * from making a stronger one than itself. */

/* At least one scope, each by its word. */
static void read_scopes(struct json_members *m, unsigned *ret)
{
	json_t *list = json_members_array(m, "scopes", COUNT(scopes));

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));
		size_t s = 0;

		while (word != NULL && s < COUNT(scopes) && strcmp(scopes[s].name, word) != 0)
			s++;
		if (word == NULL || s == COUNT(scopes)) {
			(void)json_members_fail(m, "scopes",
						"must contain only read, sessions, admin, audit");
			return;
		}
		*ret |= scopes[s].bit;
	}
	if (!m->failed && *ret == 0)
		(void)json_members_fail(m, "scopes",
					"must name at least one of read, sessions, "
					"admin, audit");
}

/* ret->name points into root. */
static int read_key_spec(json_t *root, struct tenant_key_spec *ret, struct err *e)
{
	uint64_t expires_in = 0;
	struct json_members m;

	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", STORE_NAME_MAX - 1, &ret->name);
	json_members_time(&m, "expires_in", NULL, &expires_in, NULL);
	read_scopes(&m, &ret->scopes);
	spec_allow_read(&m, "allow", true, &ret->allow);
	if (expires_in > 0)
		ret->expires_ms = clock_wall_ms() + expires_in;
	return json_members_end(&m);
}

/* A key can give a new key only its own scopes, and no longer validity than its own. A key made by
 * an expiring key expires with it unless a shorter time is given. */
static int check_creator(struct request *r, struct tenant_key_spec *spec, struct err *e)
{
	uint64_t own_ms = r->grant.expires_ms;

	if (auth_check_unlimited(r, e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(scopes); i++)
		if ((spec->scopes & scopes[i].bit) != 0 && (r->scopes & scopes[i].bit) == 0)
			return err_set(e, ERR_DENIED,
				       "scopes: this key does not have the scope %s, so it cannot "
				       "grant it",
				       scopes[i].name);
	if (own_ms == 0)
		return 0;
	if (spec->expires_ms > own_ms)
		return err_set(e, ERR_DENIED,
			       "expires_in: the new key would be valid longer than this key");
	if (spec->expires_ms == 0)
		spec->expires_ms = own_ms;
	return 0;
}

/* The answer has the key's text, so no cache may keep it. */
static void keys_create(struct request *r, struct tenant *t, const uint8_t *body, size_t len)
{
	struct tenant_key_spec spec = { .name = "" };
	char key[TENANT_KEY_LEN + 1];
	struct store_key row;
	struct err e = { 0 };
	json_t *root = json_members_parse(body, len, &e);
	struct json j;
	int made = root == NULL ? -1 : read_key_spec(root, &spec, &e);

	if (made == 0)
		made = check_creator(r, &spec, &e);
	if (made == 0)
		made = tenant_key_create(r->core, t, &spec, request_actor(r), &row, key, &e);
	json_decref(root);
	if (made < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, KEY_JSON_MAX);
	keys_show(&j, NULL, &row, key);
	exchange_header(r->x, "Cache-Control", "no-store");
	reply_location(r, "/v1/keys/", row.id);
	reply_json(r, 201, &j);
}

/* For the tenant of the request's key. */
static void on_own_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);

	keys_create(r, r->tenant, body, len);
}

void api_keys_create(struct request *r)
{
	request_body(r, on_own_body);
}

/* Looked up again: the tenant may have been removed while the body came. */
static void on_other_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct tenant *t = tenant_find(r->core, r->id);

	if (t == NULL || tenant_row(t)->disabled)
		reply_missing(r, "tenant", r->id);
	else
		keys_create(r, t, body, len);
}

void api_keys_create_for(struct request *r)
{
	if (api_tenants_find_to_change(r) != NULL)
		request_body(r, on_other_body);
}

/* Revoking a key again is no error. */
void api_keys_delete(struct request *r)
{
	struct err e = { 0 };

	if (tenant_key_revoke(r->core, r->tenant, r->id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

/* ---- limits
 *
 * A tenant's limits and use: GET /v1/limits. Any key of the tenant may read them. The answer shows
 * nothing of other tenants or of the node's load. */

/* Room for two lists of allowed names. */
#define LIMITS_JSON_MAX 8192

/* The values in force: the tenant's own, or those configured for all. */
static void show_tenant(struct json *j, const struct quota_limits *l)
{
	json_open(j, "tenant", '{');
	json_uint(j, "max_sessions", l->sessions);
	json_uint(j, "create_rate_millis", l->rate_milli);
	json_uint(j, "burst", l->burst);
	json_uint(j, "queue_length", l->queue);
	json_uint(j, "max_memory_bytes", l->memory);
	json_uint(j, "max_storage_bytes", l->storage);
	json_uint(j, "max_pids", l->pids);
	json_uint(j, "max_stored_bytes", l->stored);
	json_close(j, '}');
}

/* The most that one session may ask for, by the node's settings. */
static void show_session(struct json *j, const struct config *g)
{
	json_open(j, "session", '{');
	json_uint(j, "memory_bytes", g->memory_max);
	json_uint(j, "cpu_millis", g->cpus_max_milli);
	json_uint(j, "pids", g->pids_max);
	json_uint(j, "disk_bytes", g->disk_max);
	json_uint(j, "timeout_ms", g->session_timeout_max_ms);
	json_close(j, '}');
}

/* rows and bytes are kept records, stored is the tenant's layers. */
static void show_used(struct json *j, const struct quota_limits *l, uint64_t rows, uint64_t bytes,
		      uint64_t stored)
{
	json_open(j, "used", '{');
	json_uint(j, "sessions", l->used_sessions);
	json_uint(j, "memory_bytes", l->used_memory);
	json_uint(j, "storage_bytes", l->used_storage);
	json_uint(j, "pids", l->used_pids);
	json_uint(j, "records", rows);
	json_uint(j, "record_bytes", bytes);
	json_uint(j, "stored_bytes", stored);
	json_close(j, '}');
}

/* Three sources: the store, the layers, and the quota in memory. */
void api_limits_get(struct request *r)
{
	uint64_t rows, bytes, stored, layers;
	struct quota_limits limits;
	struct store_allow key;
	struct err e = { 0 };
	struct json j;

	if (store_records_get(core_store(r->core), tenant_row(r->tenant)->id, &rows, &bytes, &e) <
		    0 ||
	    layers_used(core_layers(r->core), tenant_row(r->tenant)->id, &stored, &layers, &e) <
		    0 ||
	    allow_of_key(r->core, r->grant.key_id, &key, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	quota_limits(r->core, r->tenant, &limits);
	json_init_heap(&j, LIMITS_JSON_MAX);
	json_open(&j, NULL, '{');
	show_tenant(&j, &limits);
	show_session(&j, core_config(r->core));
	spec_allow_show(&j, "allow_tenant", &tenant_row(r->tenant)->allow);
	spec_allow_show(&j, "allow_key", &key);
	show_used(&j, &limits, rows, bytes, stored);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* ---- limits of a key
 *
 * Lists are kept as one text with commas, because the names have none. */

#define LIST_MAX 64

/* The characters that names of templates, levels and networks may have. */
static bool is_name(const char *text)
{
	return text != NULL && *text != '\0' &&
	       text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "_.:/@-")] == '\0';
}

/* An empty list would allow nothing. That is most likely a mistake, so it is refused. */
static void read_list(struct json_members *m, const char *name, char ret[STORE_ALLOW_LIST_MAX])
{
	json_t *list = json_members_array(m, name, LIST_MAX);
	size_t used = 0;

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));
		int n;

		if (!is_name(word)) {
			(void)json_members_fail(m, name, "must be a list of names");
			return;
		}
		n = snprintf(ret + used, STORE_ALLOW_LIST_MAX - used, "%s%s", i == 0 ? "" : ",",
			     word);
		used += (size_t)n;
		if (used >= STORE_ALLOW_LIST_MAX) {
			json_members_too_large(m, name, STORE_ALLOW_LIST_MAX - 1);
			return;
		}
	}
	if (list != NULL && json_array_size(list) == 0)
		(void)json_members_fail(m, name,
					"must not be empty: leave it out to allow everything");
}

void spec_allow_read(struct json_members *outer, const char *name, bool of_key,
		     struct store_allow *ret)
{
	json_t *object = json_members_object(outer, name, JSON_MEMBERS_MAX);
	struct json_members m;

	if (object == NULL)
		return;
	memset(ret, 0, sizeof(*ret));
	json_members_begin(&m, object, name, outer->e);
	read_list(&m, "templates", ret->templates);
	read_list(&m, "levels", ret->levels);
	read_list(&m, "networks", ret->networks);
	json_members_bytes(&m, "memory", "memory_bytes", &ret->memory_bytes, NULL);
	json_members_millis(&m, "cpus", "cpu_millis", &ret->cpu_millis);
	json_members_count(&m, "pids", 0, UINT32_MAX, &ret->pids);
	json_members_bytes(&m, "disk", "disk_bytes", &ret->disk_bytes, NULL);
	json_members_time(&m, "timeout", "timeout_ms", &ret->timeout_ms, NULL);
	if (of_key) { /* a tenant has max_sessions and create_rate */
		json_members_count(&m, "sessions", 0, COUNT_MAX, &ret->sessions);
		json_members_count(&m, "creates_per_minute", 0, COUNT_MAX,
				   &ret->creates_per_minute);
	}
	if (json_members_end(&m) < 0)
		outer->failed = true;
}

/* An empty list is no limit and is left out. */
static void show_list(struct json *j, const char *name, const char *list)
{
	if (*list == '\0')
		return;
	json_open(j, name, '[');
	while (*list != '\0') {
		size_t n = strcspn(list, ",");

		json_bytes(j, NULL, list, n);
		list += n + (list[n] == ',');
	}
	json_close(j, ']');
}

/* 0 is no limit and is left out. */
static void show_number(struct json *j, const char *name, uint64_t value)
{
	if (value > 0)
		json_uint(j, name, value);
}

void spec_allow_show(struct json *j, const char *name, const struct store_allow *a)
{
	json_open(j, name, '{');
	show_list(j, "templates", a->templates);
	show_list(j, "levels", a->levels);
	show_list(j, "networks", a->networks);
	show_number(j, "memory_bytes", a->memory_bytes);
	show_number(j, "cpu_millis", a->cpu_millis);
	show_number(j, "pids", a->pids);
	show_number(j, "disk_bytes", a->disk_bytes);
	show_number(j, "timeout_ms", a->timeout_ms);
	show_number(j, "sessions", a->sessions);
	show_number(j, "creates_per_minute", a->creates_per_minute);
	json_close(j, '}');
}

/* ---- tenants
 *
 * Every route here is the operator's. api_tenants_find() is also called by api_network.c. */

/* Room for a tenant with its lists. */
#define TENANT_JSON_MAX 16384

/* The first: as the node's setting. */
static const char *const captured_words[] = { "default", "refuse", "name", "allow" };
static_assert(COUNT(captured_words) == CONFIG_CAPTURED_CHOICES + 1, "as config.h has them");

/* The row as it is stored, with the tenant's own limits. */
static void tenants_show(struct json *j, const struct store_tenant *t)
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
	json_text(j, "captured_secrets",
		  captured_words[t->captured_secrets < COUNT(captured_words) ? t->captured_secrets
									     : 1]);
	spec_allow_show(j, "allow", &t->allow);
	json_view_redact(j, t->redact);
	json_close(j, '}');
}

static void reply_tenant(struct request *r, int status, const struct store_tenant *t)
{
	struct json j;

	json_init_heap(&j, TENANT_JSON_MAX);
	tenants_show(&j, t);
	reply_json(r, status, &j);
}

/* A disabled tenant is missing. */
struct tenant *api_tenants_find(struct request *r)
{
	struct tenant *t;

	if (!auth_is_operator(r)) {
		reply_code(r, 403, "forbidden", "only the operator may do this");
		return NULL;
	}
	t = tenant_find(r->core, r->id);
	if (t == NULL || tenant_row(t)->disabled) {
		reply_missing(r, "tenant", r->id);
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

/* 1: the page has ended. */
static int on_row(const struct store_tenant *row, void *cookie)
{
	struct list_part *p = cookie;

	if (row->disabled)
		return 0;
	if (!list_part_admits(p, 0, row->name))
		return 1;
	tenants_show(&p->j, row);
	return 0;
}

/* By name: names are unique. */
void api_tenants_list(struct request *r)
{
	struct list_part part;
	struct err e = { 0 };

	if (auth_check_operator_reads(r, &e) < 0 ||
	    list_part_begin(&part, r, "tenants", false, &e) < 0) {
		reply_error(r, &e);
	} else if (store_tenant_list(core_store(r->core), part.last, on_row, &part, &e) < 0) {
		json_release(&part.j);
		reply_error(r, &e);
	} else {
		list_part_reply(&part, r);
	}
}

static_assert(REDACT_TEXT_MAX <= STORE_REDACT_MAX, "a row has room");

/* An absent member changes nothing, an empty list removes all entries. */
static void read_redact(struct json_members *m, const json_t *root, struct store_tenant *row)
{
	struct buf lines = BUF_INIT(REDACT_TEXT_MAX);

	if (json_object_get(root, "redact") == NULL)
		return;
	spec_session_redact(m, &lines);
	memset(row->redact, 0, sizeof(row->redact));
	if (!m->failed)
		str_copy(row->redact, buf_text(&lines));
	buf_release(&lines);
}

/* Change the members of *row that the body has. */
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
	json_members_millis(&m, "create_rate", "create_rate_millis", &row->create_rate_milli);
	json_members_count(&m, "burst", 0, COUNT_MAX, &row->create_burst);
	json_members_count(&m, "queue_length", 0, COUNT_MAX, &row->queue_length);
	json_members_time(&m, "queue_timeout", "queue_timeout_ms", &row->queue_ms, NULL);
	json_members_bytes(&m, "max_memory", "max_memory_bytes", &row->max_memory, NULL);
	json_members_bytes(&m, "max_storage", "max_storage_bytes", &row->max_storage, NULL);
	json_members_count(&m, "max_pids", 0, COUNT_MAX, &row->max_pids);
	json_members_bytes(&m, "max_stored", "max_stored_bytes", &row->max_stored, NULL);
	json_members_choice(&m, "captured_secrets", captured_words, COUNT(captured_words),
			    &row->captured_secrets);
	spec_allow_read(&m, "allow", false, &row->allow);
	read_redact(&m, root, row);
	if (name != NULL)
		str_copy(row->name, name);
	if (row->name[0] == '\0')
		(void)json_members_fail(&m, "name", "is missing");
	for (const char *c = row->name; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			(void)json_members_fail(&m, "name", "must not have control characters");
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

/* The new tenant has no key. The operator makes its first one. */
static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct store_tenant row = { 0 };
	struct err e = { 0 };

	if (read_tenant(body, len, &row, &e) < 0 ||
	    tenant_create(r->core, &row, request_actor(r), &e) < 0) {
		reply_error(r, &e);
	} else {
		reply_location(r, "/v1/tenants/", row.id);
		reply_tenant(r, 201, &row);
	}
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

/* The row is copied, changed and checked, and then replaces the old one. So a mistake changes
 * nothing. */
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

/* A second removal is answered as the first one. */
void api_tenants_delete(struct request *r)
{
	struct tenant *t;
	struct err e = { 0 };

	if (!may_change(r))
		return;
	t = tenant_find(r->core, r->id);
	if (t == NULL)
		reply_missing(r, "tenant", r->id);
	else if (!tenant_row(t)->disabled && tenant_remove(r->core, t, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
