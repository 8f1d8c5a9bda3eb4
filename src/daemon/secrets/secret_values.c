/* secret_values.c - see secret_values.h. */
#include "daemon/secrets/secret_values.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/secrets/seal.h"
#include "daemon/secrets/secret_spec.h"
#include "daemon/secrets/secret_state.h"
#include "daemon/session/session.h"
#include "lib/base/log.h"
#include "lib/base/text_hash.h"
#include "lib/mask/mask.h"

/* ---- sealed values of a session */

bool secret_values_has_line(const char *lines, const char *name, size_t n)
{
	while (lines != NULL && *lines != '\0') {
		size_t len = strcspn(lines, "\n");

		if (len == n && memcmp(lines, name, n) == 0)
			return true;
		lines += len + (lines[len] == '\n');
	}
	return false;
}

struct secret_values_visit {
	struct session *session;
	void (*fn)(const struct store_layer_value *v, bool past, void *arg);
	void *arg;
};

/* A secret that was deleted has no row. Its value is among the past ones then. */
static void secret_values_visit_row(const struct secret_values_visit *x, const char *name)
{
	const struct session *s = x->session;
	char about[SECRET_ABOUT_MAX];
	struct store_layer_value v = { .about = about };
	struct store_secret row;
	struct err e;

	if (store_secret_get_by_name(core_store(session_core(s)), session_row(s)->tenant, name,
				     &row, &e) < 0)
		return;
	secret_about(&row, about);
	memcpy(v.tenant, row.tenant, sizeof(v.tenant));
	v.name = row.name;
	v.hosts = row.hosts;
	v.box = row.box;
	v.box_len = row.box_len;
	x->fn(&v, false, x->arg);
	store_secret_release(&row);
}

/* Was the secret asked for when the session was created? */
static bool secret_values_is_own(const struct session *s, const char *name)
{
	const char *at = session_row(s)->secrets;
	struct secret_spec l;

	while (secret_spec_next(&at, &l))
		if (strcmp(l.name, name) == 0)
			return true;
	return false;
}

/* The names in lines that neither the session itself nor `seen` has. */
static void secret_values_visit_names(const struct secret_values_visit *x, const char *lines,
				      const char *seen)
{
	while (lines != NULL && *lines != '\0') {
		char name[STORE_NAME_MAX];
		size_t n = strcspn(lines, "\n");

		(void)snprintf(name, sizeof(name), "%.*s", (int)n, lines);
		if (!secret_values_is_own(x->session, name) &&
		    !secret_values_has_line(seen, name, n))
			secret_values_visit_row(x, name);
		lines += n + 1;
	}
}

static void secret_values_visit_past(const struct secret_values_visit *x,
				     const struct secret_past *p)
{
	struct store_layer_value v = { .about = p->about,
				       .name = p->name,
				       .hosts = p->hosts,
				       .box = p->box,
				       .box_len = p->len };

	memcpy(v.tenant, session_row(x->session)->tenant, sizeof(v.tenant));
	x->fn(&v, true, x->arg);
}

/* All values of the session but those of its layers. A name in two lists comes once. */
static void secret_values_each_sealed(struct session *s,
				      void (*fn)(const struct store_layer_value *v, bool past,
						 void *arg),
				      void *arg)
{
	const struct secret_state *st = secret_state_of(s);
	const char *at = session_row(s)->secrets;
	const struct secret_values_visit x = { s, fn, arg };
	struct secret_spec l;

	while (secret_spec_next(&at, &l))
		secret_values_visit_row(&x, l.name);
	if (st == NULL)
		return;
	secret_values_visit_names(&x, st->sent_names, NULL);
	secret_values_visit_names(&x, st->had, st->sent_names);
	/* alone: fn copies values, and ends none */
	for (const struct secret_past *p = st->past; p != NULL; p = p->next)
		secret_values_visit_past(&x, p);
}

/* False: there are none of these. */
static bool secret_values_any(const struct session *s)
{
	const char *own = session_row(s)->secrets;

	return (own != NULL && *own != '\0') || secret_state_of(s) != NULL;
}

/* ---- values that layers keep
 *
 * A value that a lower layer of the session has already is not
 * written again. */

#define BATCH 64

/* ---- those that a session has */

struct each {
	const struct session *session;
	void (*fn)(const struct store_layer_value *v, void *arg);
	void *arg;
};

static int on_row(const struct store_layer_value *row, void *cookie)
{
	struct each *x = cookie;

	x->fn(row, x->arg);
	return 0;
}

static void on_layer(const char *layer, void *arg)
{
	struct each *x = arg;
	struct err e;

	if (store_layer_value_of(core_store(session_core(x->session)), layer, on_row, x, &e) < 0)
		log_error("values of a layer could not be read", "layer=%s error=%s", layer, e.msg);
}

/* Call fn for each value of the layers that the session has. */
static void secret_values_secret_kept_each(const struct session *s,
					   void (*fn)(const struct store_layer_value *v, void *arg),
					   void *arg)
{
	struct each x = { s, fn, arg };

	session_each_layer(s, on_layer, &x);
}

struct checking {
	const struct seal *seal;
	size_t bytes;
	struct err why; /* code ERR_NONE: all of them opened */
};

static void secret_values_check_one(const struct store_layer_value *v, void *arg)
{
	struct checking *k = arg;
	char *value = NULL;
	size_t len = 0;

	k->bytes += v->box_len + SECRET_KEPT_EACH;
	if (k->why.code == ERR_NONE &&
	    seal_open(k->seal, v->about, v->box, v->box_len, &value, &len, &k->why) < 0)
		return;
	seal_wipe(value, len);
}

int secret_kept_check(const struct session *s, size_t *bytes, struct err *e)
{
	struct checking k = { .seal = core_options(session_core(s))->seal };

	secret_values_secret_kept_each(s, secret_values_check_one, &k);
	*bytes += k.bytes;
	if (k.why.code == ERR_NONE)
		return 0;
	return err_set(e, ERR_CONFLICT,
		       "files of this session may have values of secrets that the server cannot "
		       "mask: %s",
		       k.why.msg);
}

/* ---- those of a new layer */

struct secret_values_keeping {
	struct store *store;
	const char *layer;
	bool own;	 /* for the session itself, whose bytes are bounded otherwise */
	uint64_t used;	 /* of SECRET_KEPT_MAX */
	uint64_t *known; /* owned: hashes of boxes that lower layers have, sorted */
	size_t nknown;
	struct err why; /* code ERR_NONE: it worked so far */
};

/* A box is told from others by its bytes: each was sealed with a number of its own. */
static uint64_t secret_values_hash_of(const struct store_layer_value *v)
{
	return text_hash_part(v->box, v->box_len);
}

static void secret_values_add_known(const struct store_layer_value *v, void *arg)
{
	struct secret_values_keeping *k = arg;
	uint64_t *more = realloc(k->known, (k->nknown + 1) * sizeof(*more));

	assert(more != NULL);
	k->known = more;
	k->known[k->nknown++] = secret_values_hash_of(v);
}

static int secret_values_compare(const void *one, const void *other)
{
	const uint64_t *a = one, *b = other;

	return *a < *b ? -1 : *a > *b;
}

static void secret_values_keep_one(const struct store_layer_value *row, bool past, void *arg)
{
	struct secret_values_keeping *k = arg;
	uint64_t bytes = row->box_len + strlen(row->hosts) + SECRET_KEPT_EACH;
	uint64_t hash = secret_values_hash_of(row);

	if (k->why.code != ERR_NONE ||
	    (k->nknown > 0 &&
	     bsearch(&hash, k->known, k->nknown, sizeof(hash), secret_values_compare) != NULL))
		return;
	k->used += bytes;
	if (!k->own && k->used > SECRET_KEPT_MAX)
		IGNORED(err_set_reason(
				&k->why, REASON_QUOTA_SECRET_BYTES,
				"the values of secrets that are kept for snapshots and forks "
				"may have at most %u bytes together",
				SECRET_KEPT_MAX),
			"returned at the end");
	else
		IGNORED(store_layer_value_add(k->store, k->layer, row, bytes, &k->why),
			"returned at the end");
}

/* Values of lower layers are known first, so none is written twice. */
static int secret_values_write_all(struct session *s, struct secret_values_keeping *k,
				   struct err *e)
{
	secret_values_secret_kept_each(s, secret_values_add_known, k);
	if (k->nknown > 0)
		qsort(k->known, k->nknown, sizeof(*k->known), secret_values_compare);
	secret_values_each_sealed(s, secret_values_keep_one, k);
	free(k->known);
	if (k->why.code == ERR_NONE)
		return 0;
	*e = k->why;
	return -1;
}

/* The quota is read before the transaction, and counts up in k.used. */
int secret_kept_write(struct session *s, const char *layer, const char *kind, struct err *e)
{
	struct secret_values_keeping k = { .store = core_store(session_core(s)),
					   .layer = layer,
					   .own = strcmp(kind, "pause") == 0 };

	if (!secret_values_any(s))
		return 0;
	if (store_layer_value_sum(k.store, session_row(s)->tenant, &k.used, e) < 0 ||
	    store_begin(k.store, e) < 0)
		return -1;
	if (secret_values_write_all(s, &k, e) == 0 && store_commit(k.store, e) == 0)
		return 0;
	store_rollback(k.store);
	return -1;
}

/* ---- at the start */

struct secret_values_batch {
	const struct seal *seal;
	struct store *store;
	uint64_t seq[BATCH];
	uint8_t *box[BATCH]; /* the new one. NULL: it is current */
	size_t len[BATCH];
	unsigned n;
};

/* A value that no key opens stays as it is, and is logged. */
static int secret_values_add_to_batch(const struct store_layer_value *v, void *cookie)
{
	struct secret_values_batch *b = cookie;
	char *value = NULL;
	size_t len = 0;
	struct err e;

	b->box[b->n] = NULL;
	b->seq[b->n] = v->seq;
	if (!seal_is_current(b->seal, v->box, v->box_len) &&
	    (seal_open(b->seal, v->about, v->box, v->box_len, &value, &len, &e) < 0 ||
	     seal_close(b->seal, v->about, value, len, &b->box[b->n], &b->len[b->n], &e) < 0))
		log_error("a value of a layer cannot be unsealed", "tenant=%s secret=%s error=%s",
			  v->tenant, v->name, e.msg);
	seal_wipe(value, len);
	return ++b->n == BATCH;
}

static int secret_values_write_batch(struct secret_values_batch *b, struct err *e)
{
	int result = 0;

	for (unsigned i = 0; i < b->n; i++) {
		if (result == 0 && b->box[i] != NULL)
			result = store_layer_value_reseal(b->store, b->seq[i], b->box[i], b->len[i],
							  e);
		free(b->box[i]);
	}
	return result;
}

int secret_kept_start(struct core *c, struct err *e)
{
	struct secret_values_batch b = { .seal = core_options(c)->seal, .store = core_store(c) };
	uint64_t after = 0;

	if (store_layer_value_sweep(b.store, e) < 0)
		return -1;
	do {
		b.n = 0;
		if (store_layer_value_each(b.store, after, BATCH, secret_values_add_to_batch, &b,
					   e) < 0 ||
		    secret_values_write_batch(&b, e) < 0)
			return -1;
		after = b.n > 0 ? b.seq[b.n - 1] : after;
	} while (b.n == BATCH);
	return 0;
}

/* ---- opened values */

struct opening {
	const struct seal *seal;
	void (*on_value)(const struct secret_values_one *v, void *arg);
	void *arg;
};

/* A value that no key opens is left out. */
static void secret_values_open_one(const struct store_layer_value *v, bool past, void *arg)
{
	const struct opening *x = arg;
	char *value = NULL;
	size_t len = 0;
	struct err e;

	if (seal_open(x->seal, v->about, v->box, v->box_len, &value, &len, &e) < 0)
		return;
	x->on_value(&(struct secret_values_one){ value, len, v->name, v->hosts, past }, x->arg);
	seal_wipe(value, len);
}

static void secret_values_open_kept(const struct store_layer_value *v, void *arg)
{
	secret_values_open_one(v, true, arg);
}

void secret_values_each(struct session *s,
			void (*on_value)(const struct secret_values_one *v, void *arg), void *arg)
{
	struct opening x = { core_options(session_core(s))->seal, on_value, arg };

	secret_values_each_sealed(s, secret_values_open_one, &x);
	secret_values_secret_kept_each(s, secret_values_open_kept, &x);
}

struct secret_values_adding {
	struct session *session;
	struct buf *to;
	bool same;
};

/* Sessions that will have the same secrets mask them. Not replaced ones, and not those that only an
 * execution had. Values that masks do not look for are too short to be told from other text. */
static void secret_values_add_value(const struct secret_values_one *v, void *arg)
{
	struct secret_values_adding *a = arg;
	uint32_t n = (uint32_t)v->len;

	if (v->len < MASK_VALUE_MIN ||
	    (a->same && !v->past && secret_values_is_own(a->session, v->name)))
		return;
	buf_put(a->to, &n, sizeof(n));
	buf_put(a->to, v->value, v->len);
}

int secret_values_add(struct session *s, bool same, struct buf *to, struct err *e)
{
	struct secret_values_adding a = { s, to, same };

	secret_values_each(s, secret_values_add_value, &a);
	return buf_check(to, e);
}

bool secret_values_has(const struct session *s, const char *name)
{
	const struct secret_state *st = secret_state_of(s);
	size_t n = strlen(name);

	return secret_values_is_own(s, name) ||
	       (st != NULL && (secret_values_has_line(st->sent_names, name, n) ||
			       secret_values_has_line(st->had, name, n)));
}

/* ---- the mask
 *
 * The values are in the clear while the mask is made.
 *
 * Brokered values are among them, although the cell does not hold them: a server may repeat one in
 * a form that cordon-egress does not recognise. A program that guesses learns nothing from the
 * mask: only whole values are masked. */

struct values {
	char **at;
	size_t *lens;
	size_t n;
};

static void secret_values_add_one(const struct secret_values_one *one, void *arg)
{
	struct values *v = arg;

	v->at = realloc(v->at, (v->n + 1) * sizeof(*v->at));
	v->lens = realloc(v->lens, (v->n + 1) * sizeof(*v->lens));
	assert(v->at != NULL && v->lens != NULL);
	v->at[v->n] = malloc(one->len + 1);
	assert(v->at[v->n] != NULL);
	memcpy(v->at[v->n], one->value, one->len);
	v->lens[v->n++] = one->len;
}

/* A session without values keeps the mask that it has. All copies are wiped. */
void secret_mask(struct session *s)
{
	struct secret_state *st = secret_state_of(s);
	struct values v = { 0 };
	struct mask *m;
	struct err e;

	secret_values_each(s, secret_values_add_one, &v);
	if (v.n > 0) {
		m = session_mask_make(s, (const char *const *)v.at, v.lens, v.n, &e);
		if (m != NULL)
			session_mask_set(s, m);
		else
			log_error("mask for output could not be made", "session_id=%s error=%s",
				  session_row(s)->id, e.msg);
	}
	if (st != NULL) {
		st->bytes = 0;
		st->unmasked = false;
	}
	for (size_t i = 0; i < v.n; i++) {
		secret_state(s)->bytes += v.lens[i];
		seal_wipe(v.at[i], v.lens[i]);
	}
	free(v.at);
	free(v.lens);
}

void secret_mask_now(struct session *s)
{
	const struct secret_state *st = secret_state_of(s);

	if (st != NULL && st->unmasked)
		secret_mask(s);
}
