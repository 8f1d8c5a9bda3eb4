/* stmt_rows.h - reads rows of one table, the same for every table. For the store's own files.
 *
 * A file that has defined
 *
 *	static void read_row(struct stmt *q, struct store_session *ret);
 *	static int own_row(struct store_session *row, struct err *e);
 *
 * writes STMT_ROWS_GET(store_session, "session") and the like, each of which defines one static
 * function. The words are those of error messages. Macros and not functions with void pointers, so
 * that the compiler checks the types of rows and callbacks. */
#pragma once

#include "stmt.h"

/* get_row(): the row of a statement whose values are in, with texts of its own. Closes it.
 * ERR_NOT_FOUND: there is none. *ret is changed only if it returns 0. */
#define STMT_ROWS_GET(type, one)                                                                \
	static int get_row(struct stmt *q, const char *id, struct type *ret, struct err *e)     \
	{                                                                                       \
		struct type row;                                                                \
		int got = stmt_step(q, one, id, e);                                             \
                                                                                                \
		if (got > 0) {                                                                  \
			read_row(q, &row);                                                      \
			if (own_row(&row, e) < 0)                                               \
				got = -1;                                                       \
			else                                                                    \
				*ret = row;                                                     \
		} else if (got == 0) {                                                          \
			got = err_set(e, ERR_NOT_FOUND, "store: " one " %.64s: not found", id); \
		}                                                                               \
		stmt_close(q);                                                                  \
		return got > 0 ? 0 : -1;                                                        \
	}

/* each_row(): calls fn for every row of a statement whose values are in, until fn returns another
 * number than 0. Closes it. */
#define STMT_ROWS_EACH(type, many)                                                      \
	static int each_row(struct stmt *q, type##_fn *fn, void *cookie, struct err *e) \
	{                                                                               \
		struct type row;                                                        \
		int got;                                                                \
                                                                                        \
		while ((got = stmt_step(q, many, "", e)) > 0) {                         \
			read_row(q, &row);                                              \
			if (fn(&row, cookie) != 0)                                      \
				break;                                                  \
		}                                                                       \
		stmt_close(q);                                                          \
		return got < 0 ? -1 : 0;                                                \
	}

/* show_row(): calls fn for the row with that number, which an index has shown. Returns 1 if fn
 * wants no more rows, -1 if it failed. */
#define STMT_ROWS_SHOW(type, many)                                                         \
	static int show_row(struct store *s, enum sql sql, uint64_t number, type##_fn *fn, \
			    void *cookie, struct err *e)                                   \
	{                                                                                  \
		struct type row;                                                           \
		struct stmt q;                                                             \
		int got, enough = 0;                                                       \
                                                                                           \
		stmt_open(&q, s, sql);                                                     \
		stmt_u64(&q, number);                                                      \
		got = stmt_step(&q, many, "", e);                                          \
		if (got > 0) {                                                             \
			read_row(&q, &row);                                                \
			enough = fn(&row, cookie) != 0;                                    \
		}                                                                          \
		stmt_close(&q);                                                            \
		return got < 0 ? -1 : enough;                                              \
	}

/* look_rows(): the rows that an index shows (a number, and whether the filter takes it), after a
 * number and not more than a limit (0: none), by a statement whose values are in. Closes it. */
#define STMT_ROWS_LOOK(type, many)                                                                 \
	STMT_ROWS_SHOW(type, many)                                                                 \
	static int look_rows(struct stmt *q, enum sql row, const struct type##_filter *filter,     \
			     type##_fn *fn, void *cookie, struct store_looked *ret, struct err *e) \
	{                                                                                          \
		struct store_looked done = { .seq = filter->after_seq };                           \
		struct store *s = q->s;                                                            \
		int got = 0, stop = 0;                                                             \
                                                                                                   \
		while (stop == 0 && (got = stmt_step(q, many, filter->session, e)) > 0) {          \
			uint64_t seq = stmt_get_u64(q);                                            \
                                                                                                   \
			if (stmt_get_bool(q))                                                      \
				stop = show_row(s, row, seq, fn, cookie, e);                       \
			if (stop == 0) {                                                           \
				done.seq = seq;                                                    \
				done.rows++;                                                       \
			}                                                                          \
		}                                                                                  \
		stmt_close(q);                                                                     \
		done.end = stop == 0 && got == 0 &&                                                \
			   (filter->limit == 0 || done.rows < filter->limit);                      \
		if (ret != NULL)                                                                   \
			*ret = done;                                                               \
		return stop < 0 || (stop == 0 && got < 0) ? -1 : 0;                                \
	}
