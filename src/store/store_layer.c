/* store_layer.c - see store_layer.h. */
#include "store_layer.h"

#include "stmt.h"

#define USES_MAX 160 /* of one owner that are looked at one by one: a stack, and more */

/* Values and columns come in the order of LAYER_COLUMNS in sql.c. */

int store_layer_insert(struct store *s, const struct store_layer *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_LAYER_INSERT);
	stmt_text(&q, row->id);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->kind);
	stmt_u64(&q, row->bytes);
	stmt_u64(&q, row->entries);
	stmt_u64(&q, row->created_ms);
	stmt_u64(&q, STORE_LAYER_READY);
	stmt_text(&q, row->digest);
	stmt_text(&q, row->origin == NULL ? "" : row->origin);
	return stmt_run(&q, true, "layer", row->id, e);
}

static void read_row(struct stmt *q, struct store_layer *ret)
{
	stmt_copy_text(q, ret->id, sizeof(ret->id));
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->kind, sizeof(ret->kind));
	ret->bytes = stmt_get_u64(q);
	ret->entries = stmt_get_u64(q);
	ret->created_ms = stmt_get_u64(q);
	ret->state = stmt_get_u32(q);
	stmt_copy_text(q, ret->digest, sizeof(ret->digest));
	ret->origin = stmt_get_text(q);
	ret->uses = stmt_get_u64(q);
	ret->is_of_old_versions = stmt_get_u64(q) != 0;
}

static int get(struct stmt *q, const char *id, struct store_layer *ret, struct err *e)
{
	int got = stmt_step(q, "layer", id, e);

	if (got > 0)
		read_row(q, ret);
	else if (got == 0)
		got = err_set(e, ERR_NOT_FOUND, "store: layer %.80s: not found", id);
	stmt_close(q);
	ret->origin = NULL; /* gone with the statement */
	return got > 0 ? 0 : -1;
}

int store_layer_get(struct store *s, const char *id, struct store_layer *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_LAYER_GET);
	stmt_text(&q, id);
	return get(&q, id, ret, e);
}

int store_layer_find(struct store *s, const char *tenant, const char *digest,
		     struct store_layer *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_LAYER_FIND);
	stmt_text(&q, tenant);
	stmt_text(&q, digest);
	return get(&q, digest, ret, e);
}

int store_layer_each(struct store *s, bool dying, store_layer_fn *fn, void *cookie, struct err *e)
{
	struct store_layer row;
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_LAYER_EACH);
	stmt_u64(&q, dying ? STORE_LAYER_DYING : STORE_LAYER_READY);
	while ((got = stmt_step(&q, "layers", "", e)) > 0) {
		read_row(&q, &row);
		if (fn(&row, cookie) != 0)
			break;
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

/* ---- uses */

static int drop_uses(struct store *s, enum store_layer_owner kind, const char *owner, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_LAYER_UNUSE);
	stmt_u64(&q, kind);
	stmt_text(&q, owner);
	return stmt_run(&q, false, "uses of", owner, e);
}

static int add_use(struct store *s, enum store_layer_owner kind, const char *owner, size_t position,
		   const char *layer, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_LAYER_USE);
	stmt_u64(&q, kind);
	stmt_text(&q, owner);
	stmt_u64(&q, position);
	stmt_text(&q, layer);
	if (stmt_run(&q, true, "layer", layer, e) == 0)
		return 0;
	if (e->code == ERR_NOT_FOUND)
		e->code = ERR_CONFLICT;
	return -1;
}

int store_layer_sweep(struct store *s, struct err *e)
{
	struct stmt q;
	int n = 0, got;
	bool own;

	if (store_join(s, &own, e) < 0)
		return -1;
	stmt_open(&q, s, SQL_LAYER_SWEEP);
	while ((got = stmt_step(&q, "layers", "", e)) > 0)
		n++;
	stmt_close(&q);
	return got < 0 || store_leave(s, own, e) < 0 ? -1 : n;
}

int store_layer_drop_stale(struct store *s, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_LAYER_DROP_STALE);
	stmt_u64(&q, STORE_LAYER_HELD);
	stmt_u64(&q, STORE_LAYER_OF_SESSION);
	stmt_u64(&q, STORE_LAYER_GUEST_OF_SESSION);
	stmt_u64(&q, STORE_LAYER_GUEST_OF_SNAPSHOT);
	return stmt_run(&q, false, "layers", "uses", e);
}

/* Those that lost a use become dying if it was the last: not all layers are looked at. */
static int sweep_some(struct store *s, char (*layers)[STORE_ID_MAX], size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		struct stmt q;

		stmt_open(&q, s, SQL_LAYER_SWEEP_ONE);
		stmt_text(&q, layers[i]);
		if (stmt_run(&q, false, "layer", layers[i], e) < 0)
			return -1;
	}
	return 0;
}

int store_layer_use(struct store *s, enum store_layer_owner kind, const char *owner,
		    const char (*layers)[STORE_ID_MAX], size_t n, struct err *e)
{
	char before[USES_MAX][STORE_ID_MAX];
	int had;
	bool own;

	if (store_join(s, &own, e) < 0)
		return -1;
	had = store_layer_used(s, kind, owner, before, USES_MAX, e);
	if (had < 0 || drop_uses(s, kind, owner, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (add_use(s, kind, owner, i, layers[i], e) < 0)
			return -1; /* which has rolled back */
	if (had > USES_MAX ? store_layer_sweep(s, e) < 0
			   : sweep_some(s, before, (size_t)had, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_layer_hand_over(struct store *s, const char *version, const char *tenant, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_LAYER_HAND_OVER);
	stmt_u64(&q, STORE_LAYER_OF_TEMPLATE);
	stmt_text(&q, version);
	stmt_text(&q, tenant);
	return stmt_run(&q, false, "layers of", version, e);
}

int store_layer_unuse(struct store *s, enum store_layer_owner kind, const char *owner,
		      struct err *e)
{
	return store_layer_use(s, kind, owner, NULL, 0, e);
}

int store_layer_insert_held(struct store *s, const struct store_layer *row, struct err *e)
{
	if (store_begin(s, e) == 0 && store_layer_insert(s, row, e) == 0 &&
	    store_layer_use(s, STORE_LAYER_HELD, row->id, &row->id, 1, e) == 0 &&
	    store_commit(s, e) == 0)
		return 0;
	store_rollback(s);
	return -1;
}

int store_layer_used(struct store *s, enum store_layer_owner kind, const char *owner,
		     char (*ret)[STORE_ID_MAX], size_t max, struct err *e)
{
	struct stmt q;
	size_t n = 0;
	int got;

	stmt_open(&q, s, SQL_LAYER_USED);
	stmt_u64(&q, kind);
	stmt_text(&q, owner);
	while ((got = stmt_step(&q, "uses of", owner, e)) > 0) {
		if (n < max)
			stmt_copy_text(&q, ret[n], STORE_ID_MAX);
		n++;
	}
	stmt_close(&q);
	return got < 0 ? -1 : (int)n;
}

int store_layer_delete(struct store *s, const char *id, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_LAYER_DELETE);
	stmt_text(&q, id);
	return stmt_run(&q, true, "layer", id, e);
}

int store_layer_shared(struct store *s, const char *tenant, uint64_t *ret_bytes, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_LAYER_SHARED);
	stmt_u64(&q, STORE_LAYER_OF_TEMPLATE);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "shared layers of", tenant, e);
	if (got > 0)
		*ret_bytes = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_layer_sum(struct store *s, const char *tenant, uint64_t *ret_bytes, uint64_t *ret_layers,
		    struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_LAYER_SUM);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "layers of", tenant, e);
	if (got > 0) {
		*ret_bytes = stmt_get_u64(&q);
		*ret_layers = stmt_get_u64(&q);
	}
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_layer_unused_bytes(struct store *s, const char *id, uint64_t *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_LAYER_UNUSED);
	stmt_text(&q, id);
	got = stmt_step(&q, "layer", id, e);
	if (got > 0)
		*ret = stmt_get_u64(&q);
	else if (got == 0)
		(void)err_set(e, ERR_NOT_FOUND, "layer %s: used, or gone", id);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}
