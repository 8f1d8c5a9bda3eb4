/* store_sample.c - see store_sample.h. */
#include "daemon/store/store_sample.h"

#include "daemon/store/stmt.h"
#include "daemon/store/store_records.h"

#define ROW struct store_sample
static const struct column sample_columns[] = {
	COLUMN(seq, "seq", 0),
	COLUMN(time_ms, "time_ms", 0),
	COLUMN(span_ms, "span_ms", 0),
	COLUMN(looks, "looks", 0),
	COLUMN(cpu_us, "cpu_us", 0),
	COLUMN(memory_bytes, "memory_bytes", 0),
	COLUMN(memory_max_bytes, "memory_max_bytes", 0),
	COLUMN(disk_bytes, "disk_bytes", 0),
	COLUMN(pids, "pids", 0),
	COLUMN(net_bytes_in, "net_bytes_in", 0),
	COLUMN(net_bytes_out, "net_bytes_out", 0),
};
static const struct table sample_table = TABLE("sample", sample_columns);
#undef ROW

ROWS_LIST(sample_list, store_sample)

/* ---- points that become one */

struct sample_all {
	struct store_sample at[STORE_SAMPLES_MAX + 1];
	unsigned n;
};

static uint64_t sample_larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A clock set back gives a span of its own readings only. */
static uint64_t sample_span(const struct store_sample *a, const struct store_sample *next)
{
	uint64_t begin = a->time_ms > a->span_ms ? a->time_ms - a->span_ms : 0;

	return next->time_ms > begin ? next->time_ms - begin : a->span_ms + next->span_ms;
}

void store_sample_join(struct store_sample *a, const struct store_sample *next)
{
	uint64_t looks = a->looks + next->looks;

	a->span_ms = sample_span(a, next);
	a->time_ms = next->time_ms;
	if (looks > 0)
		a->memory_bytes = (uint64_t)(((double)a->memory_bytes * (double)a->looks +
					      (double)next->memory_bytes * (double)next->looks) /
					     (double)looks);
	a->looks = looks;
	a->cpu_us = sample_larger(a->cpu_us, next->cpu_us);
	a->memory_max_bytes = sample_larger(a->memory_max_bytes, next->memory_max_bytes);
	a->disk_bytes = sample_larger(a->disk_bytes, next->disk_bytes);
	a->pids = sample_larger(a->pids, next->pids);
	a->net_bytes_in = sample_larger(a->net_bytes_in, next->net_bytes_in);
	a->net_bytes_out = sample_larger(a->net_bytes_out, next->net_bytes_out);
}

/* The first of the oldest two neighbours that fit into one step. If none do, points have twice the
 * span from now on. The newest point stays: its number must not be given again. */
static unsigned sample_choose(const struct sample_all *all, uint64_t *step_ms)
{
	for (unsigned doubled = 0; doubled < 40; doubled++, *step_ms *= 2)
		for (unsigned i = 0; i + 2 < all->n; i++)
			if (sample_span(&all->at[i], &all->at[i + 1]) <= *step_ms)
				return i;
	return 0;
}

static int sample_collect(const struct store_sample *row, void *cookie)
{
	struct sample_all *all = cookie;

	all->at[all->n++] = *row;
	return all->n == COUNT(all->at);
}

static int sample_fold(struct store *s, const char *tenant, const char *session, uint64_t *step_ms,
		       struct err *e)
{
	struct sample_all all = { .n = 0 };
	struct store_sample *a;
	struct stmt q;

	if (store_sample_list(s, session, 0, 0, sample_collect, &all, NULL, e) < 0)
		return -1;
	if (all.n <= STORE_SAMPLES_MAX)
		return 0;
	a = &all.at[sample_choose(&all, step_ms)];
	if (stmt_change(s, "DELETE FROM sample WHERE session = ? AND seq = ?",
			IN(session, a[1].seq), session, e) < 0)
		return -1;
	store_sample_join(a, a + 1);
	stmt_open(
		&q, s,
		INSERT(sample_table, "INSERT OR REPLACE INTO sample (session, @) VALUES (?, @{?})"),
		IN(session));
	row_put(&q, a);
	return stmt_write(&q, session, e) < 0 ||
			       store_records_add(s, tenant, 0, -STORE_SAMPLE_SIZE, e) < 0
		       ? -1
		       : 0;
}

int store_sample_add(struct store *s, const char *tenant, const char *session,
		     const struct store_sample *row, bool is_first, uint64_t *step_ms,
		     struct err *e)
{
	struct store_sample next = *row;
	uint64_t n = 0, step = *step_ms;
	bool own;

	next.seq = 0;
	if (store_join(s, &own, e) < 0 ||
	    (!is_first &&
	     stmt_numbers(s, "SELECT count(*), coalesce(max(seq), 0) FROM sample WHERE session = ?",
			  IN(session), session, &n, &next.seq, e) < 0))
		return -1;
	next.seq++;
	if (row_add(s, sample_table, "INSERT INTO sample (session, @) VALUES (?, @{?})",
		    IN(session), &next, session, e) < 0 ||
	    store_records_add(s, tenant, 0, STORE_SAMPLE_SIZE, e) < 0 ||
	    (n >= STORE_SAMPLES_MAX && sample_fold(s, tenant, session, &step, e) < 0) ||
	    store_leave(s, own, e) < 0)
		return -1;
	*step_ms = step;
	return 0;
}

/* A session without its full number of points has had no reason to double its step. */
int store_sample_step(struct store *s, const char *session, uint64_t *ret_step_ms, struct err *e)
{
	uint64_t n, longest;

	*ret_step_ms = STORE_SAMPLE_MS;
	if (stmt_numbers(s,
			 "SELECT count(*), coalesce(max(span_ms), 0) FROM sample"
			 " WHERE session = ?",
			 IN(session), session, &n, &longest, e) < 0)
		return -1;
	while (n >= STORE_SAMPLES_MAX && *ret_step_ms < longest)
		*ret_step_ms *= 2;
	return 0;
}

int store_sample_list(struct store *s, const char *session, uint64_t after_seq, unsigned limit,
		      store_sample_fn *fn, void *cookie, struct store_looked *ret, struct err *e)
{
	struct row_list l = {
		.look = READ_AS(sample_table,
				"SELECT seq, 1, 0, '', @ FROM sample WHERE session = ?1"
				" AND seq > ?2 ORDER BY seq LIMIT ?3"),
		.in = IN(session, after_seq, value_limit(limit)),
		.limit = limit,
		.at = { .seq = after_seq },
	};

	return sample_list(s, &l, fn, cookie, ret, e);
}

int store_sample_last(struct store *s, const char *session, uint64_t *ret_seq, struct err *e)
{
	return stmt_number(s, "SELECT coalesce(max(seq), 0) FROM sample WHERE session = ?",
			   IN(session), session, ret_seq, e);
}

int store_sample_delete(struct store *s, const char *session, unsigned limit, struct err *e)
{
	char tenant[STORE_ID_MAX];
	bool own;
	int n;

	if (store_join(s, &own, e) < 0)
		return -1;
	n = stmt_run_counted(s,
			     "DELETE FROM sample WHERE session = ?1 AND seq IN (SELECT seq"
			     " FROM sample WHERE session = ?1 ORDER BY seq LIMIT ?2)",
			     IN(session, value_limit(limit)), session, e);
	if (n < 0 ||
	    (n > 0 && (stmt_id(s, "SELECT tenant FROM session WHERE id = ?", IN(session), session,
			       tenant, e) < 0 ||
		       store_records_add(s, tenant, 0, -(int64_t)n * STORE_SAMPLE_SIZE, e) < 0)))
		return -1;
	return store_leave(s, own, e) < 0 ? -1 : n;
}
