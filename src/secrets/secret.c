/* secret.c - creates, changes, looks up and revokes the secrets of tenants. How they get into
 * sessions is in secret_delivery.c (the cell) and secret_egress.c (cordon-egress).
 *
 * A value is sealed with "tenant, name, version" as associated data: a row that was copied over
 * another one does not open. */
#include "secret.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "change_quota.h"
#include "core.h"
#include "event_log.h"
#include "log.h"
#include "rand.h"
#include "seal.h"
#include "secret_change.h"
#include "secret_quota.h"
#include "secret_state.h"
#include "tenant.h"

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
	return err_set(e, ERR_NOT_FOUND, "no secret %.64s", which);
}

/* Changes the row by what the client sent. */
static int apply_fields(const struct secret_fields *w, struct store_secret *row, struct err *e)
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

static int seal_value(const struct core *c, const char *value, size_t len, struct store_secret *row,
		      uint8_t **ret_box, struct err *e)
{
	char about[SECRET_ABOUT_MAX];

	secret_about(row, about);
	if (seal_close(core_options(c)->seal, about, value, len, ret_box, &row->box_len, e) < 0)
		return -1;
	row->box = *ret_box;
	return 0;
}

/* Writes the row and its event, both or none. */
static int save(struct core *c, const struct store_actor *who, const struct store_secret *row,
		const char *event,
		int (*how)(struct store *s, const struct store_secret *row, struct err *e),
		struct err *e)
{
	if (store_begin(core_store(c), e) == 0 && how(core_store(c), row, e) == 0 &&
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
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant_row(t)->id);
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	if (apply_fields(w, &row, e) < 0 || secret_quota_change(c, t, name, w->value_len, e) < 0 ||
	    change_quota_take(t, w->value_len + secret_quota_resent(c, t, name), e) < 0 ||
	    seal_value(c, w->value, w->value_len, &row, &box, e) < 0 ||
	    save(c, who, &row, "secret.created", store_secret_insert, e) < 0)
		return e->code == ERR_CONFLICT
			       ? err_set(e, ERR_CONFLICT, "secret %s: the name is taken", name)
			       : -1;
	secret_change_mark(c, t, name); /* a rule may refer to it already */
	return secret_get(c, t, row.id, ret, e);
}

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
	done = apply_fields(w, &row, e);
	if (done == 0 && w->value != NULL)
		done = secret_quota_change(c, t, old.name, w->value_len, e);
	if (done == 0)
		done = change_quota_take(t, w->value_len + secret_quota_resent(c, t, old.name), e);
	if (done == 0 && w->value != NULL) {
		row.version++;
		done = seal_value(c, w->value, w->value_len, &row, &box, e);
	}
	if (done == 0)
		done = save(c, who, &row, "secret.updated", store_secret_update, e);
	if (done == 0 && w->value != NULL)
		secret_change_keep_old(c, t, &old);
	if (done == 0)
		secret_change_mark(c, t, old.name);
	store_secret_release(&old);
	return done < 0 ? -1 : secret_get(c, t, row.id, ret, e);
}

static int delete_row(struct store *s, const struct store_secret *row, struct err *e)
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
	done = save(c, who, &row, "secret.deleted", delete_row, e);
	if (done == 0) {
		secret_change_keep_old(c, t, &row);
		secret_change_mark(c, t, row.name);
	}
	store_secret_release(&row);
	return done;
}

static int first_name(const struct store_secret *row, void *cookie)
{
	(void)snprintf(cookie, STORE_NAME_MAX, "%s", row->name);
	return 1;
}

bool secret_delete_one(struct core *c, const struct tenant *t)
{
	char name[STORE_NAME_MAX] = "";
	struct err e;

	if (store_secret_list(core_store(c), tenant_row(t)->id, "", 1, first_name, name, &e) < 0) {
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

struct some {
	struct {
		char id[STORE_ID_MAX], tenant[STORE_ID_MAX], name[STORE_NAME_MAX];
		uint64_t expires_ms;
		bool old;
	} at[BATCH];
	unsigned n;
	const struct seal *seal;
};

static int note(const struct store_secret *row, void *cookie)
{
	struct some *l = cookie;

	memcpy(l->at[l->n].id, row->id, sizeof(row->id));
	memcpy(l->at[l->n].tenant, row->tenant, sizeof(row->tenant));
	memcpy(l->at[l->n].name, row->name, sizeof(row->name));
	l->at[l->n].expires_ms = row->expires_ms;
	l->at[l->n].old = !seal_is_current(l->seal, row->box, row->box_len);
	return ++l->n == BATCH;
}

static int reseal(struct core *c, const char *id, struct err *e)
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
		done = seal_value(c, value, len, &row, &box, e);
	if (done == 0)
		done = store_secret_reseal(core_store(c), &row, e);
	seal_wipe(value, len);
	store_secret_release(&row);
	return done;
}

int secret_start(struct core *c, struct err *e)
{
	struct some l = { .seal = core_options(c)->seal };
	char after[STORE_ID_MAX] = "";
	struct err why;

	secret_node(c)->seen_ms = core_now_ms();
	do {
		l.n = 0;
		if (store_secret_each(core_store(c), after, BATCH, note, &l, e) < 0)
			return -1;
		for (unsigned i = 0; i < l.n; i++)
			if (l.at[i].old && reseal(c, l.at[i].id, &why) < 0)
				log_error("secret cannot be unsealed",
					  "tenant=%s secret=%s error=%s", l.at[i].tenant,
					  l.at[i].name, why.msg);
		if (l.n > 0)
			memcpy(after, l.at[l.n - 1].id, sizeof(after));
	} while (l.n == BATCH);
	return 0;
}

/* Withdraws secrets that expired since the last call. True if there may be more. */
static bool expire_some(struct core *c, uint64_t now)
{
	struct secret_node *n = secret_node(c);
	struct some l = { .seal = core_options(c)->seal };
	struct err e;

	if (store_secret_expiring(core_store(c), n->seen_ms, n->seen_id, now, BATCH, note, &l, &e) <
		    0 ||
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

	for (unsigned i = 0; i < BATCHES_MAX && expire_some(c, now); i++)
		continue;
}
