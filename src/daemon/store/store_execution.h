/* store_execution.h - executions. See store.h for what holds for all rows. One whose ended_ms is 0
 * is running or about to. */
#pragma once

#include "daemon/store/store_actor.h"

#define STORE_COMMAND_HASH 32

#define STORE_REDACTED_MAX 256

struct store_execution {
	/* Its description: written once. */
	char id[STORE_ID_MAX]; /* "exe_..." */
	char session[STORE_ID_MAX];
	char tenant[STORE_ID_MAX];
	uint32_t kind;
	uint8_t command_hash[STORE_COMMAND_HASH];
	const char *command; /* as shown. May be left out */
	const char *cwd;
	char user[STORE_NAME_MAX];
	bool tty;
	bool record_input; /* what clients send to it is in its log */
	uint64_t created_ms, timeout_ms;
	struct store_actor actor; /* the request that started it */
	uint64_t output_limit;	  /* bytes of output kept. 0: not known (schema 1) */
	const char *secrets;	  /* lines of secret_spec.h: what only this execution has */
	/* Of code, where they are known: its language, and the context that the client named. */
	char language[STORE_NAME_MAX], context[STORE_NAME_MAX];

	/* How it goes: store_execution_update(). */
	uint32_t handle; /* PID 1's name for it */
	uint32_t state;
	uint64_t started_ms, ended_ms;
	int32_t exit_code, signal;
	char limit[16];	     /* which one ended it: "memory", .... "": none */
	char limits_hit[64]; /* all hit while it ran, with commas */
	bool timed_out;
	uint32_t error_code; /* an err_code, if it could not be run */
	const char *error;
	uint64_t out_bytes, err_bytes; /* written by the program */
	uint64_t log_bytes;	       /* kept */
	bool truncated;
	uint64_t cpu_us;
	bool output_open;      /* ended, but a process that it started has its output open */
	uint64_t mark;	       /* of all that it started, in its cell. 0: it never ran */
	const char *client;    /* data of the interface that started it. "" when it ended */
	uint64_t result_bytes; /* written by the program to its descriptor 3 */
	char redacted[STORE_REDACTED_MAX]; /* covered places: lines "name TAB number" */

	void *owned; /* the texts of a row from store_execution_get() */
};

typedef int store_execution_fn(const struct store_execution *row, void *cookie);

struct store_execution_filter {
	const char *session;
	uint32_t states; /* set of 1 << state. 0: all. Live ones pass: see below */
	bool ascending;
	uint64_t after_ms; /* of the last row looked at. after_id "" or NULL: from the start */
	const char *after_id;
	unsigned limit; /* rows looked at, at most. 0: no limit */
};

/* Write all fields. ERR_NOT_FOUND: no such session. */
int store_execution_insert(struct store *s, const struct store_execution *row,
			   struct err *e) MUST_USE;
int store_execution_update(struct store *s, const struct store_execution *row,
			   struct err *e) MUST_USE;

/* The caller releases the row. */
int store_execution_get(struct store *s, const char *id, struct store_execution *ret,
			struct err *e) MUST_USE;
void store_execution_release(struct store_execution *row);

/* Those of one session, in the order of (created_ms, id). The filter is answered by an index. A
 * live row is shown in any state: the caller may know a newer one, and decides. ret may be NULL. */
int store_execution_list(struct store *s, const struct store_execution_filter *filter,
			 store_execution_fn *fn, void *cookie, struct store_looked *ret,
			 struct err *e) MUST_USE;

/* Live executions of one session (NULL: of all), oldest first. */
int store_execution_each_live(struct store *s, const char *session, store_execution_fn *fn,
			      void *cookie, struct err *e) MUST_USE;

/* Ended executions of one session with open output, oldest first. */
int store_execution_each_open(struct store *s, const char *session, store_execution_fn *fn,
			      void *cookie, struct err *e) MUST_USE;

/* The execution of a session with this mark. ERR_NOT_FOUND: there is none, or its outcome, with
 * which the mark is written, is not written yet. */
int store_execution_by_mark(struct store *s, const char *session, uint64_t mark,
			    char ret_id[STORE_ID_MAX], struct err *e) MUST_USE;

/* The secrets of one session's executions, live or ended. */
typedef void store_execution_text_fn(const char *text, void *cookie);
int store_execution_each_secrets(struct store *s, const char *session, store_execution_text_fn *fn,
				 void *cookie, struct err *e) MUST_USE;

/* Is there a row of kind STORE_EXECUTION_INTERPRETER, of a process that runs or has ended? */
#define STORE_EXECUTION_INTERPRETER 3
int store_execution_had_interpreter(struct store *s, const char *session, bool *ret,
				    struct err *e) MUST_USE;

/* Complete logs of one session: those whose execution has ended, has closed its output, and has
 * log_bytes. In the order in which the executions ended. At most limit. */
struct store_execution_log {
	char id[STORE_ID_MAX];
	uint64_t bytes;
};
int store_execution_logs(struct store *s, const char *session, unsigned limit,
			 struct store_execution_log *ret, unsigned *ret_n, struct err *e) MUST_USE;
/* The sum of their bytes. */
int store_execution_logs_size(struct store *s, const char *session, uint64_t *ret,
			      struct err *e) MUST_USE;
/* That sum for each tenant with records. Read every execution: only for the start. */
int store_execution_logs_by_tenant(struct store *s, store_sum_fn *fn, void *cookie,
				   struct err *e) MUST_USE;
/* The log of that execution is not kept any more: log_bytes 0, truncated. */
int store_execution_log_removed(struct store *s, const char *id, struct err *e) MUST_USE;

/* How many records one session has, and their size (see store_records.h). */
int store_execution_count(struct store *s, const char *session, uint64_t *ret, uint64_t *ret_bytes,
			  struct err *e) MUST_USE;

/* Delete the oldest executions of one session, at most limit, and call fn, which may be NULL, for
 * each before. Return how many. 0: there are none left. */
typedef void store_execution_id_fn(const char *id, const char *tenant, void *cookie);
int store_execution_delete_some(struct store *s, const char *session, unsigned limit,
				store_execution_id_fn *fn, void *cookie, struct err *e) MUST_USE;
