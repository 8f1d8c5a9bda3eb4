/* secret.c - creates, changes, looks up and revokes the secrets of tenants. How they get into
 * sessions is in secret_delivery.c (the cell) and secret_egress.c (cordon-egress).
 *
 * A value is sealed with "tenant, name, version" as associated data: a row copied over another one
 * does not open. */
#include "daemon/secrets/secret.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/node/core.h"
#include "daemon/secrets/seal.h"
#include "daemon/secrets/secret_admit.h"
#include "daemon/secrets/secret_delivery.h"
#include "daemon/secrets/secret_state.h"
#include "daemon/secrets/secret_values.h"
#include "daemon/session/session_hooks.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/err_missing.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

/* "example.com" or "*.example.com", as hosts of secrets are written. */
static bool secret_fits(const char *pattern, size_t n, const char *host)
{
	size_t len = strlen(host);

	if (n > 2 && pattern[0] == '*' && pattern[1] == '.')
		return len > n - 1 && strncasecmp(host + len - (n - 1), pattern + 1, n - 1) == 0;
	return n == len && strncasecmp(pattern, host, n) == 0;
}

/* A secret without hosts may be sent to any. */
static bool secret_is_bound_to(const char *hosts, const char *host)
{
	if (hosts == NULL || hosts[0] == '\0')
		return true;
	for (const char *line = hosts; *line != '\0';) {
		size_t n = strcspn(line, "\n");

		if (secret_fits(line, n, host))
			return true;
		line += n + (line[n] == '\n');
	}
	return false;
}

/* May the secret be sent to a registry? It is used as a brokered one. */
static int secret_check(struct core *c, const struct store_secret *row, const char *host,
			struct err *e)
{
	if (secret_usable(c, row, e) < 0)
		return -1;
	if ((row->ways & SECRET_BROKER) == 0 || !secret_is_bound_to(row->hosts, host))
		return err_set(e, ERR_DENIED, "secret '%s' may not be sent to %.100s", row->name,
			       host);
	return 0;
}

int secret_registry_open(struct core *c, const struct tenant *t, const char *which,
			 const char *host, char **ret, size_t *ret_len, struct err *e)
{
	struct store_secret row;
	char *value = NULL, *colon;
	size_t len = 0;
	int result;

	if (secret_get(c, t, which, &row, e) < 0)
		return -1;
	result = secret_check(c, &row, host, e);
	if (result == 0)
		result = secret_open(c, &row, &value, &len, e);
	colon = result == 0 ? memchr(value, ':', len) : NULL;
	if (result == 0 && (colon == NULL || colon == value))
		result = err_set(e, ERR_INVALID,
				 "secret '%s': credentials of a registry are user:password",
				 row.name);
	store_secret_release(&row);
	if (result < 0 || colon == NULL) {
		seal_wipe(value, len);
		return -1;
	}
	*colon = '\0';
	*ret = value;
	*ret_len = len;
	return 0;
}

#define PAST_MAX 64 /* old values that a session remembers */

/* Remember a replaced value, still sealed. The oldest one goes when there are more than PAST_MAX.
 */
static void secret_past_add(struct session *s, const struct store_layer_value *v, bool stored)
{
	struct secret_state *st = secret_state(s);
	size_t hosts_len = strlen(v->hosts);
	struct secret_past *p = malloc(sizeof(*p) + v->box_len + hosts_len + 1);

	assert(p != NULL);
	str_copy(p->about, v->about);
	str_copy(p->name, v->name);
	p->hosts = memcpy(p->box + v->box_len, v->hosts, hosts_len + 1);
	p->len = v->box_len;
	p->stored = stored;
	memcpy(p->box, v->box, v->box_len);
	p->next = st->past;
	st->past = p;
	st->bytes += v->box_len; /* until the mask is made */
	for (unsigned n = 1; p != NULL; p = p->next, n++)
		if (n == PAST_MAX && p->next != NULL) {
			free(p->next); /* the oldest, of which there is one more than there may be
					*/
			p->next = NULL;
		}
}

/* The old value of a secret, as it is kept. about: has room for it. */
static void secret_past_of(const struct store_secret *row, char about[SECRET_ABOUT_MAX],
			   struct store_layer_value *ret)
{
	secret_about(row, about);
	*ret = (struct store_layer_value){ .about = about,
					   .name = row->name,
					   .hosts = row->hosts,
					   .box = row->box,
					   .box_len = row->box_len };
	memcpy(ret->tenant, row->tenant, sizeof(ret->tenant));
}

/* Sessions that end need no more values. */
static bool secret_keeps(const struct session *s, const char *name)
{
	return secret_values_has(s, name) && session_row(s)->state < SESSION_ENDING;
}

struct past_writing {
	const struct store_layer_value *value;
	struct err *e;
	int result;
};

static void secret_past_store_one(struct session *s, void *arg)
{
	struct past_writing *w = arg;

	if (w->result == 0 && secret_keeps(s, w->value->name))
		w->result = store_layer_value_add_past(
			core_store(session_core(s)), session_row(s)->id, w->value, PAST_MAX, w->e);
}

/* In the same transaction as the change: a later cordond finds the old value. */
static int secret_past_store(struct core *c, const struct tenant *t, const struct store_secret *old,
			     struct err *e)
{
	char about[SECRET_ABOUT_MAX];
	struct store_layer_value v;
	struct past_writing w = { .value = &v, .e = e };

	secret_past_of(old, about, &v);
	session_each(c, t, secret_past_store_one, &w);
	return w.result;
}

static void secret_keep_one(struct session *s, void *arg)
{
	const struct store_layer_value *v = arg;

	if (secret_keeps(s, v->name))
		secret_past_add(s, v, true);
}

/* Programs of one that waits for room, and begins with the memory of another, have the old value.
 */
static void secret_keep_queued(struct session *s, void *arg)
{
	const struct store_layer_value *v = arg;

	if (session_goes_on(s) && secret_keeps(s, v->name))
		secret_past_add(s, v, false);
}

/* The old value stays masked in the sessions with it. Called before the new value is used. */
static void secret_change_keep_old(struct core *c, const struct tenant *t,
				   const struct store_secret *row)
{
	char about[SECRET_ABOUT_MAX];
	struct store_layer_value v;

	secret_past_of(row, about, &v);
	session_each(c, t, secret_keep_one, &v);
	session_each_queued(t, secret_keep_queued, &v);
}

void secret_past_write(struct session *s)
{
	const struct secret_state *st = secret_state_of(s);
	struct err e;

	/* alone: nothing is ended */
	for (struct secret_past *p = st == NULL ? NULL : st->past; p != NULL; p = p->next) {
		struct store_layer_value v = { .about = p->about,
					       .name = p->name,
					       .hosts = p->hosts,
					       .box = p->box,
					       .box_len = p->len };

		if (p->stored)
			continue;
		memcpy(v.tenant, session_row(s)->tenant, sizeof(v.tenant));
		p->stored = store_layer_value_add_past(core_store(session_core(s)),
						       session_row(s)->id, &v, PAST_MAX, &e) == 0;
		if (!p->stored)
			log_error("a replaced value could not be kept for the next server",
				  "session_id=%s secret=%s error=%s", session_row(s)->id, p->name,
				  e.msg);
	}
}

static int secret_past_on_row(const struct store_layer_value *row, void *cookie)
{
	secret_past_add(cookie, row, true);
	return 0;
}

void secret_past_read(struct session *s)
{
	struct err e;

	if (store_layer_value_of(core_store(session_core(s)), session_row(s)->id,
				 secret_past_on_row, s, &e) < 0)
		log_error("replaced values could not be read", "session_id=%s error=%s",
			  session_row(s)->id, e.msg);
}

void secret_past_delete(const struct session *s)
{
	struct err e;

	IGNORED(store_layer_value_delete(core_store(session_core(s)), session_row(s)->id, &e),
		"deleted at the next start");
}

static struct secret_past *secret_copy_past(const struct secret_past *from)
{
	size_t size = sizeof(*from) + from->len + strlen(from->hosts) + 1;
	struct secret_past *p = malloc(size);

	assert(p != NULL);
	memcpy(p, from, size);
	p->hosts = (const char *)p->box + p->len;
	p->next = NULL;
	p->stored = false;
	return p;
}

size_t secret_change_inherit(struct session *s)
{
	const struct session *source = session_source(s);
	const struct secret_state *from = source == NULL ? NULL : secret_state_of(source);
	struct secret_state *st;
	struct secret_past **end;
	size_t bytes = 0;

	if (from == NULL || from->past == NULL)
		return 0;
	st = secret_state(s);
	end = &st->past;
	for (const struct secret_past *p = from->past; p != NULL; p = p->next) {
		*end = secret_copy_past(p);
		end = &(*end)->next;
		bytes += p->len;
	}
	st->bytes += bytes; /* until the mask is made */
	return bytes;
}

/* The change itself follows by secret_change_apply(), in a later turn. */
static void secret_mark_one(struct session *s, void *arg)
{
	if (!secret_values_has(s, arg) || session_row(s)->state >= SESSION_ENDING)
		return;
	secret_state(s)->unmasked = true;
	secret_state(s)->changed = true;
	session_parts_changed(s);
}

void secret_change_apply(struct session *s)
{
	struct secret_state *st = secret_state_of(s);

	secret_mask_now(s);
	if (st == NULL || !st->changed)
		return;
	st->changed = false;
	secret_delivery_start(s);
}

/* The secret of that name has changed, was revoked, or is new: mark the sessions with it. */
static void secret_change_mark(struct core *c, const struct tenant *t, const char *name)
{
	char copy[STORE_NAME_MAX];

	str_copy(copy, name);
	session_each(c, t, secret_mark_one, copy);
}

#define BATCH 64
#define BATCHES_MAX 16 /* in one turn of the loop */

void secret_about(const struct store_secret *row, char ret[SECRET_ABOUT_MAX])
{
	(void)snprintf(ret, SECRET_ABOUT_MAX, "%s\n%s\n%llu", row->tenant, row->name,
		       (unsigned long long)row->version);
}

int secret_open(const struct core *c, const struct store_secret *row, char **ret, size_t *ret_len,
		struct err *e)
{
	char about[SECRET_ABOUT_MAX];

	secret_about(row, about);
	if (seal_open(core_options(c)->seal, about, row->box, row->box_len, ret, ret_len, e) < 0)
		return err_wrap(e, "secret %s", row->name);
	return 0;
}

bool secret_is_expired(const struct store_secret *row)
{
	return row->expires_ms > 0 && row->expires_ms <= core_now_ms();
}

int secret_usable(struct core *c, const struct store_secret *row, struct err *e)
{
	size_t len;
	char *value;

	if (secret_is_expired(row))
		return err_set(e, ERR_CONFLICT, "secret %s: has expired", row->name);
	if (secret_open(c, row, &value, &len, e) < 0)
		return -1;
	seal_wipe(value, len);
	return 0;
}

int secret_get(struct core *c, const struct tenant *t, const char *which, struct store_secret *ret,
	       struct err *e)
{
	if (store_secret_get_by_name(core_store(c), tenant_row(t)->id, which, ret, e) == 0)
		return 0;
	if (e->code != ERR_NOT_FOUND)
		return -1;
	if (store_secret_get(core_store(c), which, ret, e) == 0) {
		if (strcmp(ret->tenant, tenant_row(t)->id) == 0)
			return 0;
		store_secret_release(ret);
	} else if (e->code != ERR_NOT_FOUND) {
		return -1;
	}
	return err_missing(e, "secret", which);
}

/* Change the row by the client's members. */
static int secret_apply_fields(const struct secret_fields *w, struct store_secret *row,
			       struct err *e)
{
	const char *const wanted[] = { w->hosts, w->methods, w->paths, w->places };
	const char **const to[] = { &row->hosts, &row->methods, &row->paths, &row->places };

	for (size_t i = 0; i < COUNT(to); i++) {
		if (wanted[i] == NULL)
			continue;
		if (strlen(wanted[i]) > SECRET_LIST_BYTES)
			return err_set(e, ERR_LIMIT, "secret %s: a list is too long", row->name);
		*to[i] = wanted[i];
	}
	if (w->metadata != NULL)
		row->metadata = w->metadata;
	if (row->metadata != NULL && strlen(row->metadata) > SECRET_METADATA_BYTES)
		return err_set(e, ERR_LIMIT, "secret %s: metadata is too large", row->name);
	if (w->value != NULL && (w->value_len == 0 || w->value_len > SECRET_VALUE_MAX ||
				 memchr(w->value, '\0', w->value_len) != NULL))
		return err_set(e, ERR_INVALID, "value: must be text of 1 to %d bytes",
			       SECRET_VALUE_MAX);
	if (w->ways != 0)
		row->ways = w->ways;
	if (w->ttl_given)
		row->expires_ms = w->ttl_ms == 0 ? 0 : core_now_ms() + w->ttl_ms;
	return 0;
}

/* row->version must be the new one: it is part of the box's subject. */
static int secret_seal_value(const struct core *c, const char *value, size_t len,
			     struct store_secret *row, uint8_t **ret_box, struct err *e)
{
	char about[SECRET_ABOUT_MAX];

	secret_about(row, about);
	if (seal_close(core_options(c)->seal, about, value, len, ret_box, &row->box_len, e) < 0)
		return -1;
	row->box = *ret_box;
	return 0;
}

/* Write the row, its event, and the former value for its sessions (old: NULL, if there was none):
 * all or nothing. */
static int secret_save(struct core *c, const struct tenant *t, const struct store_actor *who,
		       const struct store_secret *row, const struct store_secret *old,
		       const char *event,
		       int (*how)(struct store *s, const struct store_secret *row, struct err *e),
		       struct err *e)
{
	if (store_begin(core_store(c), e) == 0 && how(core_store(c), row, e) == 0 &&
	    (old == NULL || secret_past_store(c, t, old, e) == 0) &&
	    event_log_append(c, who, row->tenant, "", "", event, e, "name\t%s\nversion\t%llu\n",
			     row->name, (unsigned long long)row->version) == 0 &&
	    store_commit(core_store(c), e) == 0)
		return 0;
	store_rollback(core_store(c));
	return -1;
}

int secret_create(struct core *c, struct tenant *t, const char *name, const struct secret_fields *w,
		  const struct store_actor *who, struct store_secret *ret, struct err *e)
{
	struct store_secret row = { .version = 1,
				    .ways = SECRET_WAYS,
				    .created_ms = core_now_ms() };
	OWN_MEM uint8_t *box = NULL;
	uint64_t count = 0;

	if (!secret_spec_is_name(name))
		return err_set(e, ERR_INVALID,
			       "name: must be 1 to %d letters, digits, '_', '.' and '-'",
			       STORE_NAME_MAX - 1);
	if (w->value == NULL)
		return err_set(e, ERR_INVALID, "value: missing");
	if (store_secret_count(core_store(c), tenant_row(t)->id, &count, e) < 0)
		return -1;
	if (count >= SECRET_TENANT_MAX)
		return err_set_reason(e, REASON_QUOTA_SECRETS,
				      "a tenant may have at most %d secrets", SECRET_TENANT_MAX);
	rand_id("sec_", row.id, sizeof(row.id));
	row.updated_ms = row.created_ms;
	str_copy(row.tenant, tenant_row(t)->id);
	str_copy(row.name, name);
	if (secret_apply_fields(w, &row, e) < 0 ||
	    secret_quota_change(c, t, name, w->value_len, e) < 0 ||
	    change_quota_take(t, w->value_len + secret_quota_resent(c, t, name), e) < 0 ||
	    secret_seal_value(c, w->value, w->value_len, &row, &box, e) < 0 ||
	    secret_save(c, t, who, &row, NULL, "secret.created", store_secret_insert, e) < 0)
		return e->code == ERR_CONFLICT
			       ? err_set(e, ERR_CONFLICT, "secret %s: the name is taken", name)
			       : -1;
	secret_change_mark(c, t, name); /* a rule may refer to it already */
	return secret_get(c, t, row.id, ret, e);
}

/* Without a new value the row changes only, and nothing becomes past. */
int secret_update(struct core *c, struct tenant *t, const char *which,
		  const struct secret_fields *w, const struct store_actor *who,
		  struct store_secret *ret, struct err *e)
{
	struct store_secret old, row;
	OWN_MEM uint8_t *box = NULL;
	int done;

	if (secret_get(c, t, which, &old, e) < 0)
		return -1;
	row = old;
	row.updated_ms = core_now_ms();
	done = secret_apply_fields(w, &row, e);
	if (done == 0 && w->value != NULL)
		done = secret_quota_change(c, t, old.name, w->value_len, e);
	if (done == 0)
		done = change_quota_take(t, w->value_len + secret_quota_resent(c, t, old.name), e);
	if (done == 0 && w->value != NULL) {
		row.version++;
		done = secret_seal_value(c, w->value, w->value_len, &row, &box, e);
	}
	if (done == 0)
		done = secret_save(c, t, who, &row, w->value == NULL ? NULL : &old,
				   "secret.updated", store_secret_update, e);
	if (done == 0 && w->value != NULL)
		secret_change_keep_old(c, t, &old);
	if (done == 0)
		secret_change_mark(c, t, old.name);
	store_secret_release(&old);
	return done < 0 ? -1 : secret_get(c, t, row.id, ret, e);
}

static int secret_delete_row(struct store *s, const struct store_secret *row, struct err *e)
{
	return store_secret_delete(s, row->id, e);
}

int secret_delete(struct core *c, const struct tenant *t, const char *which,
		  const struct store_actor *who, struct err *e)
{
	struct store_secret row;
	int done;

	if (secret_get(c, t, which, &row, e) < 0)
		return -1;
	done = secret_save(c, t, who, &row, &row, "secret.deleted", secret_delete_row, e);
	if (done == 0) {
		secret_change_keep_old(c, t, &row);
		secret_change_mark(c, t, row.name);
	}
	store_secret_release(&row);
	return done;
}

static int secret_first_name(const struct store_secret *row, void *cookie)
{
	str_copy_to(cookie, STORE_NAME_MAX, row->name);
	return 1;
}

bool secret_delete_one(struct core *c, const struct tenant *t)
{
	char name[STORE_NAME_MAX] = "";
	struct err e;

	if (store_secret_list(core_store(c), tenant_row(t)->id, "", 1, secret_first_name, name,
			      &e) < 0) {
		log_error("secrets could not be removed", "tenant=%s error=%s", tenant_row(t)->id,
			  e.msg);
		return false;
	}
	if (name[0] == '\0')
		return false;
	if (secret_delete(c, t, name, NULL, &e) == 0)
		return true;
	log_error("a secret could not be removed", "tenant=%s secret=%s error=%s",
		  tenant_row(t)->id, name, e.msg);
	return false;
}

/* ---- at the start, and once a second */

struct secret_some {
	struct {
		char id[STORE_ID_MAX], tenant[STORE_ID_MAX], name[STORE_NAME_MAX];
		uint64_t expires_ms;
		bool old;
	} at[BATCH];
	unsigned n;
	const struct seal *seal;
};

/* The rows are noted first, because they must not change while they are listed. */
static int secret_note(const struct store_secret *row, void *cookie)
{
	struct secret_some *l = cookie;

	memcpy(l->at[l->n].id, row->id, sizeof(row->id));
	memcpy(l->at[l->n].tenant, row->tenant, sizeof(row->tenant));
	memcpy(l->at[l->n].name, row->name, sizeof(row->name));
	l->at[l->n].expires_ms = row->expires_ms;
	l->at[l->n].old = !seal_is_current(l->seal, row->box, row->box_len);
	return ++l->n == BATCH;
}

/* Version and value stay as they are. */
static int secret_reseal(struct core *c, const char *id, struct err *e)
{
	OWN_MEM uint8_t *box = NULL;
	struct store_secret row;
	size_t len = 0;
	char *value = NULL;
	int done;

	if (store_secret_get(core_store(c), id, &row, e) < 0)
		return -1;
	done = secret_open(c, &row, &value, &len, e);
	if (done == 0)
		done = secret_seal_value(c, value, len, &row, &box, e);
	if (done == 0)
		done = store_secret_reseal(core_store(c), &row, e);
	seal_wipe(value, len);
	store_secret_release(&row);
	return done;
}

int secret_start(struct core *c, struct err *e)
{
	struct secret_some l = { .seal = core_options(c)->seal };
	char after[STORE_ID_MAX] = "";
	struct err why;

	secret_node(c)->seen_ms = core_now_ms();
	do {
		l.n = 0;
		if (store_secret_each(core_store(c), after, BATCH, secret_note, &l, e) < 0)
			return -1;
		for (unsigned i = 0; i < l.n; i++)
			if (l.at[i].old && secret_reseal(c, l.at[i].id, &why) < 0)
				log_error("secret cannot be unsealed",
					  "tenant=%s secret=%s error=%s", l.at[i].tenant,
					  l.at[i].name, why.msg);
		if (l.n > 0)
			memcpy(after, l.at[l.n - 1].id, sizeof(after));
	} while (l.n == BATCH);
	return secret_kept_start(c, e);
}

/* Withdraw secrets that expired since the last call. True if there may be more. */
static bool secret_expire_some(struct core *c, uint64_t now)
{
	struct secret_node *n = secret_node(c);
	struct secret_some l = { .seal = core_options(c)->seal };
	struct err e;

	if (store_secret_expiring(core_store(c), n->seen_ms, n->seen_id, now, BATCH, secret_note,
				  &l, &e) < 0 ||
	    l.n == 0)
		return false; /* tried again in a second */
	for (unsigned i = 0; i < l.n; i++) {
		const struct tenant *t = tenant_find(c, l.at[i].tenant);

		if (t == NULL)
			continue;
		log_info("secret expired", "tenant=%s secret=%s", l.at[i].tenant, l.at[i].name);
		secret_change_mark(c, t, l.at[i].name);
	}
	n->seen_ms = l.at[l.n - 1].expires_ms;
	memcpy(n->seen_id, l.at[l.n - 1].id, sizeof(n->seen_id));
	return l.n == BATCH;
}

void secret_expire(struct core *c)
{
	uint64_t now = core_now_ms();

	for (unsigned i = 0; i < BATCHES_MAX && secret_expire_some(c, now); i++)
		continue;
}
