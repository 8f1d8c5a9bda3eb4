/* store_audit.c - theory of operation
 *
 * The id of a record is its log, times 2^40, plus its number. So the records of a log are
 * neighbours, are read in order, and need no second index for their number.
 *
 * The records of a session are found by audit_range. It has one row for each session and each step
 * of the tiles, with the first and the last record that the session has in the step. A step has 256
 * records at most. An index would be written with each record, at a random place. The rows are
 * written in the transaction that notes how many records the tiles cover, and again when the tiles
 * are made anew. Records after these are all looked at. */
#include "daemon/store/store_audit.h"

#include <string.h>

#include "daemon/store/stmt.h"

enum { NOTE = COLUMN_GROUP };

#define ROW struct store_audit_log
static const struct column audit_log_columns[] = {
	COLUMN_READ_ONLY(id, "id"),	  COLUMN(tenant, "tenant", 0),
	COLUMN(epoch, "epoch", 0),	  COLUMN(created_ms, "created_ms", 0),
	COLUMN(first, "first", 0),	  COLUMN(hashed, "hashed", 0),
	COLUMN(bytes, "bytes", 0),	  COLUMN(alarm, "alarm", 0),
	COLUMN(named, "named", 0),	  COLUMN(named_seq, "named_seq", 0),
	COLUMN(vkey, "vkey", NOTE),	  COLUMN(note_size, "note_size", NOTE),
	COLUMN(note_ms, "note_ms", NOTE), COLUMN(note_root, "note_root", NOTE),
	COLUMN(note, "note", NOTE),
};
static const struct table audit_log_table = TABLE_OWNED("audit_log", audit_log_columns);
#undef ROW

#define ROW struct store_audit_note
static const struct column audit_note_columns[] = {
	COLUMN(log, "log", 0),	 COLUMN(size, "size", 0), COLUMN(kind, "kind", 0),
	COLUMN(vkey, "vkey", 0), COLUMN(note, "note", 0),
};
static const struct table audit_note_table = TABLE_OWNED("audit_note", audit_note_columns);
#undef ROW

#define ROW struct store_audit
static const struct column audit_columns[] = {
	COLUMN(id, "id", 0),	       COLUMN(time_ms, "time_ms", 0),
	COLUMN(session, "session", 0), COLUMN_BLOB(leaf, leaf_len, "leaf", 0),
	COLUMN(side, "side", 0),
};
static const struct table audit_table = TABLE("audit", audit_columns);
#undef ROW

ROWS_EACH(audit_log_each, store_audit_log)
ROWS_LIST(audit_list, store_audit)

static uint64_t audit_id(uint64_t log, uint64_t seq)
{
	return log * STORE_AUDIT_SEQ_MAX + seq;
}

void store_audit_log_release(struct store_audit_log *row)
{
	row_release(&audit_log_table, row);
}

int store_audit_log_add(struct store *s, const struct store_audit_log *row, uint64_t *ret_id,
			struct err *e)
{
	if (row_insert(s, audit_log_table, row, row->tenant, e) < 0)
		return -1;
	*ret_id = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return 0;
}

int store_audit_log_get(struct store *s, const char *tenant, uint64_t epoch,
			struct store_audit_log *ret, struct err *e)
{
	return row_get(s, audit_log_table,
		       "FROM audit_log WHERE tenant = ?1 AND (?2 = 0 OR epoch = ?2)"
		       " ORDER BY epoch DESC LIMIT 1",
		       IN(tenant, epoch), tenant, ret, e);
}

int store_audit_log_each(struct store *s, uint64_t after, unsigned limit, store_audit_log_fn *fn,
			 void *cookie, struct err *e)
{
	return audit_log_each(
		s, READ(audit_log_table, "FROM audit_log WHERE id > ? ORDER BY id LIMIT ?"),
		IN(after, value_limit(limit)), fn, cookie, e);
}

int store_audit_log_each_of(struct store *s, const char *tenant, store_audit_log_fn *fn,
			    void *cookie, struct err *e)
{
	return audit_log_each(
		s, READ(audit_log_table, "FROM audit_log WHERE tenant = ? ORDER BY epoch"),
		IN(tenant), fn, cookie, e);
}

int store_audit_largest(struct store *s, char ret[STORE_ID_MAX], struct err *e)
{
	return stmt_id(s,
		       "SELECT tenant FROM audit_log GROUP BY tenant ORDER BY sum(bytes) DESC"
		       " LIMIT 1",
		       IN_NONE, "", ret, e);
}

int store_audit_log_hashed(struct store *s, uint64_t log, uint64_t hashed, uint64_t bytes,
			   struct err *e)
{
	return stmt_change(s, "UPDATE audit_log SET hashed = ?, bytes = bytes + ? WHERE id = ?",
			   IN(hashed, bytes, log), "", e);
}

int store_audit_index(struct store *s, uint64_t log, uint64_t from, uint64_t to, struct err *e)
{
	return stmt_run(s,
			"INSERT OR REPLACE INTO audit_range (owner, first, last)"
			" SELECT session, min(id), max(id) FROM audit"
			" WHERE id >= ? AND id < ? AND session <> '' GROUP BY session",
			IN(audit_id(log, from), audit_id(log, to)), "", e);
}

int store_audit_log_note(struct store *s, const struct store_audit_log *row, struct err *e)
{
	return row_write_sized(
		s, UPDATE(audit_log_table, NOTE, "UPDATE @table SET @{% = ?} WHERE id = ?"),
		IN_NONE, row, sizeof(*row), IN(row->id), row->tenant, e);
}

int store_audit_log_named(struct store *s, uint64_t log, const char *vkey, uint64_t seq,
			  struct err *e)
{
	return stmt_change(s, "UPDATE audit_log SET named = ?, named_seq = ? WHERE id = ?",
			   IN(vkey, seq, log), "", e);
}

void store_audit_note_release(struct store_audit_note *row)
{
	row_release(&audit_note_table, row);
}

int store_audit_note_put(struct store *s, const struct store_audit_note *row, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 ||
	    stmt_run(s,
		     "DELETE FROM audit_note WHERE log = ?1 AND kind = ?2 AND"
		     " (size = ?3 OR ?2 = 2)",
		     IN(row->log, row->kind, row->size), "", e) < 0 ||
	    row_insert(s, audit_note_table, row, "", e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_audit_note_after(struct store *s, uint64_t log, uint64_t size, uint32_t kind,
			   struct store_audit_note *ret, struct err *e)
{
	return row_get(s, audit_note_table,
		       "FROM audit_note WHERE log = ?1 AND (size > ?2 OR (size = ?2 AND kind > ?3))"
		       " ORDER BY size, kind LIMIT 1",
		       IN(log, size, kind), "", ret, e);
}

int store_audit_note_cosigned(struct store *s, uint64_t log, struct store_audit_note *ret,
			      struct err *e)
{
	return row_get(s, audit_note_table,
		       "FROM audit_note WHERE log = ? AND kind = 2 ORDER BY size DESC LIMIT 1",
		       IN(log), "", ret, e);
}

int store_audit_note_count(struct store *s, uint64_t log, uint32_t kind, uint64_t *ret,
			   struct err *e)
{
	return stmt_number(s, "SELECT count(*) FROM audit_note WHERE log = ? AND kind = ?",
			   IN(log, kind), "", ret, e);
}

int store_audit_next(struct store *s, const struct store_audit_log *log, uint64_t *ret,
		     struct err *e)
{
	uint64_t after = 0;

	if (stmt_number(s, "SELECT coalesce(max(id) + 1, 0) FROM audit WHERE id >= ? AND id < ?",
			IN(audit_id(log->id, 0), audit_id(log->id + 1, 0)), "", &after, e) < 0)
		return -1;
	*ret = after == 0 ? log->first : after - audit_id(log->id, 0);
	return 0;
}

uint64_t store_rollbacks(const struct store *s)
{
	return s->rollbacks;
}

int store_audit_append(struct store *s, uint64_t log, uint64_t seq, struct store_audit *row,
		       struct err *e)
{
	if (seq >= STORE_AUDIT_SEQ_MAX - 1)
		return err_set(e, ERR_LIMIT, "store: audit: the log is full");
	row->id = audit_id(log, seq);
	return row_insert(s, audit_table, row, row->session, e);
}

#define AUDIT_LIST "SELECT id, 1, 0, '', @ FROM audit"
/* ?5: the log. A range that begins 256 records earlier has no record of the list. The order is that
 * of the loops: ranges of a session do not overlap, and the last part begins after them. */
#define AUDIT_COVERED "(SELECT (id << 40) + hashed FROM audit_log WHERE id = ?5)"
#define AUDIT_LIST_SESSION                                                    \
	"SELECT id, session = ?4, 0, '', @ FROM audit_range CROSS JOIN audit" \
	" ON id >= max(first, ?1) AND id <= last"                             \
	" WHERE owner = ?4 AND first > ?1 - 256 AND first < ?2"               \
	" UNION ALL SELECT id, session = ?4, 0, '', @ FROM audit"             \
	" WHERE id >= max(?1, " AUDIT_COVERED ") AND id < ?2 LIMIT ?3"

static const struct sql *audit_statement(const struct store_audit_filter *f)
{
	if (f->session != NULL)
		return READ_AS(audit_table, AUDIT_LIST_SESSION);
	if (f->descending)
		return READ_AS(audit_table,
			       AUDIT_LIST " WHERE id <= ?1 AND id >= ?2 ORDER BY id DESC LIMIT ?3");
	return READ_AS(audit_table, AUDIT_LIST " WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3");
}

int store_audit_list(struct store *s, const struct store_audit_filter *f, store_audit_fn *fn,
		     void *cookie, struct store_looked *ret, struct err *e)
{
	uint64_t from = f->from < STORE_AUDIT_SEQ_MAX ? f->from : STORE_AUDIT_SEQ_MAX - 1;
	uint64_t at = audit_id(f->log, from);
	uint64_t end = audit_id(f->descending ? f->log : f->log + 1, 0);
	struct value limit = value_limit(f->limit);
	struct row_list l = {
		.look = audit_statement(f),
		.in = f->session == NULL ? IN(at, end, limit)
					 : IN(at, end, limit, f->session, f->log),
		.limit = f->limit,
		.at = { .seq = at },
	};

	if (f->descending && f->session != NULL)
		return err_set(e, ERR_INVALID, "store: audit: a session is listed forwards only");
	if (audit_list(s, &l, fn, cookie, ret, e) < 0)
		return -1;
	if (ret != NULL)
		ret->seq &= STORE_AUDIT_SEQ_MAX - 1;
	return 0;
}

int store_audit_set_side(struct store *s, uint64_t id, const char *side, struct err *e)
{
	return stmt_change(s, "UPDATE audit SET side = ? WHERE id = ?", IN(side, id), "", e);
}

void store_audit_overwrite(struct store *s, bool on)
{
	(void)sqlite3_exec(s->db, on ? "PRAGMA secure_delete = ON" : "PRAGMA secure_delete = FAST",
			   NULL, NULL, NULL);
}

int store_audit_forget(struct store *s, struct err *e)
{
	int code = stmt_cut_journal(s);

	store_keep_room(s);
	return code == SQLITE_OK ? 0 : sql_error(s->db, code, "forget", "", e);
}

/* Forget where the records of a session were, as far as all of a range are deleted. */
static int audit_range_prune(struct store *s, const char *session, uint64_t log, uint64_t before,
			     struct err *e)
{
	return stmt_run(s, "DELETE FROM audit_range WHERE owner = ? AND first >= ? AND last < ?",
			IN(session, audit_id(log, 0), audit_id(log, before)), session, e);
}

int store_audit_prune(struct store *s, uint64_t log, uint64_t before, struct err *e)
{
	uint64_t bytes = 0;
	char session[STORE_ID_MAX], last[STORE_ID_MAX] = "";
	struct stmt q;
	bool own;
	int got;

	if (store_join(s, &own, e) < 0)
		return -1;
	stmt_open(&q, s,
		  SQL("DELETE FROM audit WHERE id >= ? AND id < ? RETURNING length(leaf) +"
		      " length(CAST(side AS BLOB)), session"),
		  IN(audit_id(log, 0), audit_id(log, before)));
	while ((got = stmt_step(&q, "", e)) > 0) {
		bytes += stmt_get_u64(&q);
		stmt_copy_text(&q, session, sizeof(session));
		if (session[0] == '\0' || strcmp(session, last) == 0)
			continue;
		memcpy(last, session, sizeof(last));
		got = audit_range_prune(s, session, log, before, e);
		if (got < 0)
			break;
	}
	stmt_close(&q);
	if (got < 0 ||
	    stmt_change(s,
			"UPDATE audit_log SET first = max(first, ?), bytes = max(0, bytes - ?)"
			" WHERE id = ?",
			IN(before, bytes, log), "", e) < 0 ||
	    stmt_run(s, "DELETE FROM audit_note WHERE log = ? AND size < ?", IN(log, before), "",
		     e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_audit_time(struct store *s, uint64_t log, uint64_t seq, uint64_t *ret_ms, struct err *e)
{
	return stmt_number(s, "SELECT time_ms FROM audit WHERE id = ?", IN(audit_id(log, seq)), "",
			   ret_ms, e);
}

int store_audit_bytes(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	if (tenant == NULL)
		return stmt_number(s, "SELECT coalesce(sum(bytes), 0) FROM audit_log", IN_NONE, "",
				   ret, e);
	return stmt_number(s, "SELECT coalesce(sum(bytes), 0) FROM audit_log WHERE tenant = ?",
			   IN(tenant), tenant, ret, e);
}

int store_audit_tile_put(struct store *s, uint64_t log, unsigned level, uint64_t index,
			 const void *hashes, size_t len, struct err *e)
{
	return stmt_change(s,
			   "INSERT INTO audit_tile (log, level, idx, hashes) VALUES (?, ?, ?, ?)"
			   " ON CONFLICT (log, level, idx) DO UPDATE SET hashes = excluded.hashes",
			   IN(log, (uint32_t)level, index, value_blob(hashes, len)), "", e);
}

int store_audit_tile_get(struct store *s, uint64_t log, unsigned level, uint64_t index,
			 uint8_t ret[STORE_AUDIT_TILE_MAX], struct err *e)
{
	struct stmt q;
	int got, len = 0;

	stmt_open(&q, s,
		  SQL("SELECT hashes FROM audit_tile WHERE log = ? AND level = ? AND idx = ?"),
		  IN(log, (uint32_t)level, index));
	got = stmt_step(&q, "", e);
	if (got > 0) {
		const void *bytes = sqlite3_column_blob(q.st, 0);

		len = sqlite3_column_bytes(q.st, 0);
		if (len > STORE_AUDIT_TILE_MAX || len % 32 != 0)
			got = err_set(e, ERR_INVALID, "store: audit_tile: %d bytes", len);
		else if (len > 0)
			memcpy(ret, bytes, (size_t)len);
	}
	stmt_close(&q);
	return got < 0 ? -1 : len;
}
