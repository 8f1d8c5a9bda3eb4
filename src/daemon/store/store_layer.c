/* store_layer.c - see store_layer.h. */
#include "daemon/store/store_layer.h"

#include <assert.h>

#include "daemon/store/stmt.h"
#include "daemon/store/store_template.h"

#define USES_MAX 160 /* of one owner, looked at one by one: a stack, and more */

/* Versions of templates that use a layer as an image of guests (STORE_LAYER_GUEST_OF_TEMPLATE).
 * With an end: those of which sessions can be made. */
#define LAYER_VERSIONS                                                         \
	"EXISTS (SELECT 1 FROM layer_use JOIN template ON template.id = owner" \
	" WHERE layer = layer.id AND owner_kind = 5"

#define ROW struct store_layer
static const struct column layer_columns[] = {
	COLUMN(id, "id", 0),
	COLUMN(tenant, "tenant", 0),
	COLUMN(kind, "kind", 0),
	COLUMN(bytes, "bytes", 0),
	COLUMN(entries, "entries", 0),
	COLUMN(created_ms, "created_ms", 0),
	COLUMN(state, "state", 0),
	COLUMN(digest, "digest", 0),
	COLUMN(origin, "origin", 0),
	COLUMN_READ_ONLY(uses, "(SELECT count(*) FROM layer_use WHERE layer = layer.id)"),
	COLUMN_READ_ONLY(is_of_old_versions, LAYER_VERSIONS
			 ") AND NOT " LAYER_VERSIONS " AND (current OR template.id IN"
			 " (SELECT version FROM template_tag)))"),
};
static const struct table layer_table = TABLE("layer", layer_columns);
#undef ROW

#define ROW struct store_layer_value
static const struct column value_columns[] = {
	COLUMN_READ_ONLY(seq, "seq"),
	/* given by the caller */
	COLUMN(tenant, "tenant", 0),
	COLUMN(about, "about", 0),
	COLUMN(name, "name", 0),
	COLUMN(hosts, "hosts", 0),
	COLUMN_BLOB(box, box_len, "box", 0),
};
static const struct table value_table = TABLE("layer_value", value_columns);
#undef ROW

ROWS_EACH(layer_each, store_layer)
ROWS_EACH(layer_each_value, store_layer_value)

/* A layer's size for its tenant. */
#define LAYER_BYTES "max(bytes, entries * 16384)"
#define LAYER_UNUSED "NOT EXISTS (SELECT 1 FROM layer_use WHERE layer = layer.id)"

int store_layer_insert(struct store *s, const struct store_layer *row, struct err *e)
{
	struct store_layer ready = *row;

	ready.state = STORE_LAYER_READY;
	return row_insert(s, layer_table, &ready, row->id, e);
}

int store_layer_get(struct store *s, const char *id, struct store_layer *ret, struct err *e)
{
	return row_get(s, layer_table, "FROM layer WHERE id = ?", IN(id), id, ret, e);
}

int store_layer_find(struct store *s, const char *tenant, const char *digest,
		     struct store_layer *ret, struct err *e)
{
	return row_get(
		s, layer_table,
		"FROM layer WHERE tenant = ? AND digest = ? AND digest <> '' AND state = 0 LIMIT 1",
		IN(tenant, digest), digest, ret, e);
}

int store_layer_list(struct store *s, uint64_t after_ms, const char *after_id, unsigned limit,
		     store_layer_fn *fn, void *cookie, struct err *e)
{
	return layer_each(s,
			  READ(layer_table, "FROM layer WHERE (created_ms, id) > (?, ?)"
					    " ORDER BY created_ms, id LIMIT ?"),
			  IN(after_ms, after_id, value_limit(limit)), fn, cookie, e);
}

int store_layer_next_dying(struct store *s, const char *from_tenant, size_t max, store_layer_fn *fn,
			   void *cookie, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s,
		  SQL("SELECT id, tenant, bytes FROM layer WHERE tenant >= ?"
		      " AND state = 1 ORDER BY tenant LIMIT ?"),
		  IN(from_tenant, max));
	while ((got = stmt_step(&q, "", e)) > 0) {
		struct store_layer row = { .state = STORE_LAYER_DYING };

		stmt_copy_text(&q, row.id, sizeof(row.id));
		stmt_copy_text(&q, row.tenant, sizeof(row.tenant));
		row.bytes = stmt_get_u64(&q);
		if (fn(&row, cookie) != 0)
			break;
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_layer_delete(struct store *s, const char *id, struct err *e)
{
	/* No session uses a dying layer any more. */
	if (stmt_run(s,
		     "DELETE FROM layer_value WHERE layer = ?1 AND EXISTS (SELECT 1"
		     " FROM layer WHERE id = ?1 AND state = 1)",
		     IN(id), id, e) < 0)
		return -1;
	return stmt_change(s, "DELETE FROM layer WHERE id = ? AND state = 1", IN(id), id, e);
}

int store_layer_shared(struct store *s, const char *tenant, uint64_t *ret_bytes, struct err *e)
{
	return stmt_number(s,
			   "SELECT coalesce(sum(" LAYER_BYTES
			   "), 0) FROM layer WHERE tenant = '' AND id IN (SELECT layer"
			   " FROM layer_use WHERE owner_kind = ? AND owner IN (SELECT id"
			   " FROM template WHERE tenant = ?))",
			   IN(STORE_LAYER_OF_TEMPLATE, tenant), tenant, ret_bytes, e);
}

int store_layer_sum(struct store *s, const char *tenant, uint64_t *ret_bytes, uint64_t *ret_layers,
		    struct err *e)
{
	return stmt_numbers(
		s, "SELECT coalesce(sum(" LAYER_BYTES "), 0), count(*) FROM layer WHERE tenant = ?",
		IN(tenant), tenant, ret_bytes, ret_layers, e);
}

int store_layer_unused_bytes(struct store *s, const char *id, uint64_t *ret, struct err *e)
{
	return stmt_number(s, "SELECT " LAYER_BYTES " FROM layer WHERE id = ? AND " LAYER_UNUSED,
			   IN(id), id, ret, e);
}

/* ---- uses */

static int layer_add_use(struct store *s, enum store_layer_owner kind, const char *owner,
			 size_t position, const char *layer, struct err *e)
{
	/* The statement selects nothing, and so changes nothing, if the layer is not ready. */
	if (stmt_change(s,
			"INSERT INTO layer_use (owner_kind, owner, position, layer)"
			" SELECT ?, ?, ?, id FROM layer WHERE id = ? AND state = 0",
			IN(kind, owner, position, layer), layer, e) == 0)
		return 0;
	if (e->code == ERR_NOT_FOUND)
		e->code = ERR_CONFLICT;
	return -1;
}

int store_layer_sweep(struct store *s, struct err *e)
{
	return stmt_run_counted(s, "UPDATE layer SET state = 1 WHERE state = 0 AND " LAYER_UNUSED,
				IN_NONE, "", e);
}

int store_layer_drop_stale(struct store *s, struct err *e)
{
	return stmt_run(s,
			"DELETE FROM layer_use WHERE owner_kind = ?"
			" OR (owner_kind IN (?, ?) AND NOT EXISTS (SELECT 1 FROM session"
			" WHERE session.id = owner AND ended_ms = 0)) OR (owner_kind = ?"
			" AND NOT EXISTS (SELECT 1 FROM template WHERE template.id = owner))",
			IN(STORE_LAYER_HELD, STORE_LAYER_OF_SESSION, STORE_LAYER_GUEST_OF_SESSION,
			   STORE_LAYER_GUEST_OF_SNAPSHOT),
			"", e);
}

/* The tenant for which a version's or session's use counts. NULL: another use, whose layer stays
 * its owner's. */
#define LAYER_PAYER                                                          \
	"CASE owner_kind WHEN 0 THEN (SELECT CASE payer WHEN '' THEN tenant" \
	" ELSE payer END FROM template WHERE template.id = owner)"           \
	" WHEN 1 THEN (SELECT tenant FROM session WHERE session.id = owner) END"
#define LAYER_USE_AGE                                                                    \
	"CASE owner_kind WHEN 0 THEN (SELECT created_ms FROM template WHERE id = owner)" \
	" ELSE (SELECT created_ms FROM session WHERE id = owner) END"
static_assert(STORE_LAYER_OF_TEMPLATE == 0 && STORE_LAYER_OF_SESSION == 1, "as above");

/* Layers whose uses all count for other tenants become those of the oldest of these uses, versions
 * first. but: which uses are left out. */
#define LAYER_HAND_OVER(but)                                                        \
	"UPDATE layer SET digest = '', tenant = (SELECT " LAYER_PAYER               \
	" FROM layer_use WHERE layer_use.layer = layer.id" but                      \
	" ORDER BY owner_kind, " LAYER_USE_AGE " LIMIT 1)"                          \
	" WHERE tenant <> ''"                                                       \
	" AND EXISTS (SELECT 1 FROM layer_use WHERE layer_use.layer = layer.id" but \
	") AND NOT EXISTS (SELECT 1 FROM layer_use"                                 \
	" WHERE layer_use.layer = layer.id" but " AND coalesce(" LAYER_PAYER        \
	", '') IN ('', layer.tenant))"
#define LAYER_OF_VERSION \
	" AND id IN (SELECT layer FROM layer_use WHERE owner_kind = 0 AND owner = ?1)"

/* A layer that lost a use becomes dying if the use was the last, and another tenant's if all
 * its uses count for others. Other layers are not looked at. */
static int layer_sweep_one(struct store *s, const char *layer, struct err *e)
{
	if (stmt_run(s, LAYER_HAND_OVER("") " AND id = ?1", IN(layer), layer, e) < 0)
		return -1;
	return stmt_run(s,
			"UPDATE layer SET state = 1 WHERE state = 0 AND id = ? AND " LAYER_UNUSED,
			IN(layer), layer, e);
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
	if (had < 0 || stmt_run(s, "DELETE FROM layer_use WHERE owner_kind = ? AND owner = ?",
				IN(kind, owner), owner, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (layer_add_use(s, kind, owner, i, layers[i], e) < 0)
			return -1; /* after its rollback */
	if (had > USES_MAX &&
	    (stmt_run(s, LAYER_HAND_OVER(""), IN_NONE, "", e) < 0 || store_layer_sweep(s, e) < 0))
		return -1;
	for (int i = 0; had <= USES_MAX && i < had; i++)
		if (layer_sweep_one(s, before[i], e) < 0)
			return -1;
	return store_leave(s, own, e);
}

int store_layer_hand_over(struct store *s, const char *version, struct err *e)
{
	return stmt_run(s, LAYER_HAND_OVER(" AND owner <> ?1") LAYER_OF_VERSION, IN(version),
			version, e);
}

int store_layer_pay(struct store *s, const char *version, const char *payer, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 || store_template_set_payer(s, version, payer, e) < 0 ||
	    stmt_run(s, LAYER_HAND_OVER("") LAYER_OF_VERSION, IN(version), version, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_layer_hand_over_all(struct store *s, const char *tenant, struct err *e)
{
	return stmt_run(s, LAYER_HAND_OVER("") " AND tenant = ?1", IN(tenant), tenant, e);
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

	stmt_open(&q, s,
		  SQL("SELECT layer FROM layer_use WHERE owner_kind = ? AND owner = ?"
		      " ORDER BY position"),
		  IN(kind, owner));
	for (; (got = stmt_step(&q, owner, e)) > 0; n++)
		if (n < max)
			stmt_copy_text(&q, ret[n], STORE_ID_MAX);
	stmt_close(&q);
	return got < 0 ? -1 : (int)n;
}

/* ---- values */

int store_layer_value_add(struct store *s, const char *layer, const struct store_layer_value *row,
			  uint64_t bytes, struct err *e)
{
	return row_add(s, value_table,
		       "INSERT INTO layer_value (layer, bytes, @) VALUES (?, ?, @{?})",
		       IN(layer, bytes), row, layer, e);
}

int store_layer_value_add_past(struct store *s, const char *session,
			       const struct store_layer_value *row, unsigned keep, struct err *e)
{
	if (store_layer_value_add(s, session, row, 0, e) < 0)
		return -1;
	return stmt_run(s,
			"DELETE FROM layer_value WHERE layer = ?1 AND seq NOT IN (SELECT seq"
			" FROM layer_value WHERE layer = ?1 ORDER BY seq DESC LIMIT ?2)",
			IN(session, value_limit(keep)), session, e);
}

int store_layer_value_delete(struct store *s, const char *session, struct err *e)
{
	return stmt_run(s, "DELETE FROM layer_value WHERE layer = ?", IN(session), session, e);
}

int store_layer_value_copy(struct store *s, const char *from, const char *to, struct err *e)
{
	return stmt_run_sql(
		s,
		INSERT(value_table,
		       "INSERT INTO layer_value (layer, bytes, @) SELECT ?2, bytes, @"
		       " FROM layer_value AS v WHERE layer = ?1 AND NOT EXISTS (SELECT 1"
		       " FROM layer_value WHERE layer = ?2 AND about = v.about AND box = v.box)"),
		IN(from, to), from, e);
}

int store_layer_value_of(struct store *s, const char *layer, store_layer_value_fn *fn, void *cookie,
			 struct err *e)
{
	return layer_each_value(s,
				READ(value_table, "FROM layer_value WHERE layer = ? ORDER BY seq"),
				IN(layer), fn, cookie, e);
}

int store_layer_value_each(struct store *s, uint64_t after_seq, unsigned limit,
			   store_layer_value_fn *fn, void *cookie, struct err *e)
{
	return layer_each_value(
		s, READ(value_table, "FROM layer_value WHERE seq > ? ORDER BY seq LIMIT ?"),
		IN(after_seq, value_limit(limit)), fn, cookie, e);
}

int store_layer_value_reseal(struct store *s, uint64_t seq, const void *box, size_t len,
			     struct err *e)
{
	return stmt_run(s, "UPDATE layer_value SET box = ? WHERE seq = ?",
			IN(value_blob(box, len), seq), "", e);
}

int store_layer_value_sum(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	*ret = 0;
	return stmt_number(s, "SELECT coalesce(sum(bytes), 0) FROM layer_value WHERE tenant = ?",
			   IN(tenant), tenant, ret, e);
}

int store_layer_value_sweep(struct store *s, struct err *e)
{
	return stmt_run(s,
			"DELETE FROM layer_value WHERE layer NOT IN (SELECT id FROM layer)"
			" AND layer NOT IN (SELECT id FROM session WHERE ended_ms = 0)",
			IN_NONE, "", e);
}
