/* store_volume.c - see store_volume.h. */
#include "daemon/store/store_volume.h"

#include "daemon/store/stmt.h"

#define ROW struct store_volume
static const struct column volume_columns[] = {
	COLUMN(id, "id", 0),
	COLUMN(tenant, "tenant", 0),
	COLUMN(name, "name", 0),
	COLUMN(kind, "kind", 0),
	COLUMN(state, "state", 0),
	COLUMN(bytes, "bytes", 0),
	COLUMN(created_ms, "created_ms", 0),
	COLUMN(expires_ms, "expires_ms", 0),
	COLUMN(generation, "generation", 0),
};
static const struct table volume_table = TABLE("volume", volume_columns);
#undef ROW

ROWS_EACH(volume_each, store_volume)

/* Live sessions that mount a volume. */
#define VOLUME_USES                                                                         \
	" FROM volume_use JOIN session ON session.id = volume_use.session AND ended_ms = 0" \
	" WHERE volume_use.volume = "
/* Without ending sessions (STORE_SESSION_ENDING): these only end. */
#define VOLUME_HOLDERS                                                                      \
	" FROM volume_use JOIN session ON session.id = volume_use.session AND ended_ms = 0" \
	" AND session.state < 5 WHERE volume_use.volume = "

int store_volume_insert(struct store *s, const struct store_volume *row, struct err *e)
{
	return row_insert(s, volume_table, row, row->name, e);
}

int store_volume_set_ready(struct store *s, const char *id, struct err *e)
{
	return stmt_change(s, "UPDATE volume SET state = 1 WHERE id = ? AND state = 0", IN(id), id,
			   e);
}

int store_volume_set_kind(struct store *s, const char *id, uint32_t kind, struct err *e)
{
	return stmt_change(s, "UPDATE volume SET kind = ? WHERE id = ? AND state = 0", IN(kind, id),
			   id, e);
}

int store_volume_set_dying(struct store *s, const char *id, struct err *e)
{
	return stmt_change(s,
			   "UPDATE volume SET state = 2 WHERE id = ?1 AND state < 2"
			   " AND NOT EXISTS (SELECT 1" VOLUME_HOLDERS "?1)",
			   IN(id), id, e);
}

int store_volume_delete(struct store *s, const char *id, struct err *e)
{
	return stmt_change(s, "DELETE FROM volume WHERE id = ? AND state = 2", IN(id), id, e);
}

int store_volume_get(struct store *s, const char *id, struct store_volume *ret, struct err *e)
{
	return row_get(s, volume_table, "FROM volume WHERE id = ?", IN(id), id, ret, e);
}

int store_volume_get_by_name(struct store *s, const char *tenant, const char *name,
			     struct store_volume *ret, struct err *e)
{
	return row_get(s, volume_table, "FROM volume WHERE tenant = ? AND name = ? AND state = 1",
		       IN(tenant, name), name, ret, e);
}

int store_volume_list(struct store *s, const char *tenant, const char *after, unsigned limit,
		      store_volume_fn *fn, void *cookie, struct err *e)
{
	return volume_each(s,
			   READ(volume_table, "FROM volume WHERE tenant = ? AND name > ?"
					      " AND state = 1 ORDER BY name LIMIT ?"),
			   IN(tenant, after, value_limit(limit)), fn, cookie, e);
}

int store_volume_each_unready(struct store *s, const char *after_id, unsigned limit,
			      store_volume_fn *fn, void *cookie, struct err *e)
{
	return volume_each(s,
			   READ(volume_table, "FROM volume INDEXED BY volume_unready"
					      " WHERE state <> 1 AND id > ?"
					      " AND NOT EXISTS (SELECT 1" VOLUME_USES
					      "volume.id) ORDER BY id LIMIT ?"),
			   IN(after_id, value_limit(limit)), fn, cookie, e);
}

int store_volume_expired(struct store *s, uint64_t until_ms, unsigned limit, store_volume_fn *fn,
			 void *cookie, struct err *e)
{
	return volume_each(
		s,
		READ(volume_table,
		     "FROM volume INDEXED BY volume_expires WHERE expires_ms > 0"
		     " AND state = 1 AND expires_ms <= ?1 AND NOT EXISTS (SELECT 1" VOLUME_USES
		     "volume.id) ORDER BY expires_ms LIMIT ?2"),
		IN(until_ms, value_limit(limit)), fn, cookie, e);
}

int store_volume_sum(struct store *s, const char *tenant, uint64_t *ret_count, uint64_t *ret_bytes,
		     struct err *e)
{
	return stmt_numbers(s,
			    "SELECT count(*), coalesce(sum(bytes), 0) FROM volume WHERE tenant = ?",
			    IN(tenant), tenant, ret_count, ret_bytes, e);
}

int store_volume_add_use(struct store *s, const char *volume, const char *session, struct err *e)
{
	return stmt_change(
		s,
		"INSERT INTO volume_use (volume, session) SELECT id, ?2 FROM volume"
		" WHERE id = ?1 AND state = 1 ON CONFLICT DO UPDATE SET volume = excluded.volume",
		IN(volume, session), volume, e);
}

int store_volume_uses(struct store *s, const char *id, uint64_t *ret, struct err *e)
{
	return stmt_number(s, "SELECT count(*)" VOLUME_HOLDERS "?", IN(id), id, ret, e);
}
