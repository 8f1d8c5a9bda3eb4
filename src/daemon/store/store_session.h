/* store_session.h - sessions. See store.h for what holds for all rows.
 *
 * States, reasons, profiles and the rest are numbers that the core gives a meaning. The store knows
 * two things only: a session whose ended_ms is 0 is live, and a live one whose state is
 * STORE_SESSION_ENDING or above can only end. */
#pragma once

#include "daemon/store/store.h"
#include "lib/wire/cell_spec.h"

#define STORE_SESSION_ENDING 5 /* a part of SQL texts, too */

struct store_usage {
	uint64_t cpu_us, memory_peak_bytes, disk_bytes, bytes_out;
	uint64_t net_bytes_in, net_bytes_out, net_requests;
};

#define STORE_GUEST_MAX 640
#define STORE_PORTS_MAX 384
#define STORE_TRACE_MAX 56

struct store_session {
	/* Its description: written once. */
	char id[STORE_ID_MAX]; /* session_id.h */
	char tenant[STORE_ID_MAX];
	char template[STORE_NAME_MAX];	/* its name, */
	char template_id[STORE_ID_MAX]; /* and its version: store_template.h */
	uint32_t profile, level;
	uint64_t created_ms;
	struct cell_limits limits;
	uint64_t output_limit; /* bytes of output kept of an execution */
	const void *env;       /* NAME=value, each with its NUL */
	size_t env_len;
	const char *mounts;		   /* opaque, as the three texts of its settings */
	char creator_key[STORE_ID_MAX];	   /* that it was made with. "": none, or not known */
	char traceparent[STORE_TRACE_MAX]; /* of the client (lib/http/traceparent.h). "": none */
	uint32_t storage;		   /* what its disk is */
	bool read_only;			   /* its root directory */
	uint64_t keep_ms;	 /* persistent: how long it is kept without use. 0: it is not */
	const char *alarms;	 /* its rules of alarms, opaque */
	const char *redact;	 /* lines of redact.h */
	const char *watch_reads; /* lines of session_watch.h */
	uint32_t trace;

	/* Where it is: store_session_update_state(). */
	uint32_t state, reason;
	uint64_t started_ms, ended_ms;
	uint64_t deadline_ms;
	uint64_t paused_since_ms, paused_total_ms;
	char boot_id[40];
	int32_t pid;
	const char *detail;  /* a text about why it ended */
	uint32_t cold;	     /* the core's: whether it has a cell */
	uint32_t room;	     /* the core's: whether it was paused for lack of room on disk */
	const char *refused; /* refused system calls of its cells until now, opaque */
	/* A memory image that its guest maps, and bytes of it. "": that of its template, or none.
	 */
	char image[STORE_ID_MAX];
	uint64_t image_bytes;
	/* The parts of its guest at its start, lines "word\ttext". "": no guest. */
	char guest_origin[STORE_GUEST_MAX];

	/* Its settings: store_session_update_settings(). */
	uint64_t timeout_ms, idle_ms;
	uint32_t on_timeout, on_idle;
	const char *metadata, *rules, *network;
	const char *client;  /* data of the interface that made it */
	const char *policy;  /* its own layer of the network policy, a document of policy.h */
	const char *secrets; /* which it has, opaque */

	struct store_usage usage; /* store_session_update_usage() */

	/* Its diff, kept at its end: store_session_update_diff(). */
	uint32_t keep_diff; /* 0: not asked for */
	uint64_t diff_bytes;
	const char *diff_why; /* why it is not kept. "" */

	/* Its open ports, of the core's form: store_session_update_ports(). */
	char ports[STORE_PORTS_MAX];

	void *owned; /* the texts of a row from store_session_get() */
};

struct store_session_filter {
	const char *tenant;
	uint32_t states;      /* set of 1 << state. 0: all. Live ones pass: see below */
	const char *template; /* NULL: all */
	bool ascending;	      /* oldest first. Else newest first */
	uint64_t after_ms;    /* of the last row looked at. after_id "" or NULL: from the start */
	const char *after_id;
	unsigned limit; /* rows looked at, at most. 0: no limit */
};

typedef int store_session_fn(const struct store_session *row, void *cookie);

/* Write all fields. */
int store_session_insert(struct store *s, const struct store_session *row, struct err *e) MUST_USE;

/* Each writes its group of fields of the row with this id. */
int store_session_update_state(struct store *s, const struct store_session *row,
			       struct err *e) MUST_USE;
/* The state and the usage at once. */
int store_session_update_end(struct store *s, const struct store_session *row,
			     struct err *e) MUST_USE;
int store_session_update_settings(struct store *s, const struct store_session *row,
				  struct err *e) MUST_USE;
int store_session_update_usage(struct store *s, const char *id, const struct store_usage *usage,
			       struct err *e) MUST_USE;

int store_session_update_diff(struct store *s, const struct store_session *row,
			      struct err *e) MUST_USE;
int store_session_update_ports(struct store *s, const struct store_session *row,
			       struct err *e) MUST_USE;
/* Bytes of kept diffs, for each tenant with some. */
int store_session_diffs_by_tenant(struct store *s, store_sum_fn *fn, void *cookie,
				  struct err *e) MUST_USE;

/* The caller releases the row. */
int store_session_get(struct store *s, const char *id, struct store_session *ret,
		      struct err *e) MUST_USE;
void store_session_release(struct store_session *row);

/* Those of one tenant, in the order of (created_ms, id). The filter is answered by an index. A live
 * row is shown in any state: the caller may know a newer one, and decides. ret may be NULL. */
int store_session_list(struct store *s, const struct store_session_filter *filter,
		       store_session_fn *fn, void *cookie, struct store_looked *ret,
		       struct err *e) MUST_USE;

/* Live sessions, oldest first: those that a new daemon restores. */
int store_session_each_live(struct store *s, store_session_fn *fn, void *cookie,
			    struct err *e) MUST_USE;

/* The first to end of the sessions that ended after (after_ms, after_id) and before a time. Return
 * 1, or 0 if there is none. */
int store_session_next_ended(struct store *s, uint64_t after_ms, const char *after_id,
			     uint64_t before_ms, uint64_t *ret_ms, char ret_id[STORE_ID_MAX],
			     struct err *e) MUST_USE;

/* Delete a session in any state, and its executions with it. The caller first deletes a session's
 * many executions, in pieces (store_execution_delete_some()). */
int store_session_delete(struct store *s, const char *id, struct err *e) MUST_USE;

/* ---- definitions of tools of MCP servers, as they were first seen in a session */

#define STORE_MCP_PIN_TOOL 136
#define STORE_MCP_PIN_HASH 65 /* hex digits, and a NUL */

struct store_mcp_pin {
	char tool[STORE_MCP_PIN_TOOL];
	char hash[STORE_MCP_PIN_HASH];
};

typedef int store_mcp_pin_fn(const struct store_mcp_pin *row, void *cookie);

/* Does nothing if the session has one of this tool. */
int store_mcp_pin_add(struct store *s, const char *session, const struct store_mcp_pin *row,
		      struct err *e) MUST_USE;
/* In order of tools, at most so many. */
int store_mcp_pin_each(struct store *s, const char *session, unsigned limit, store_mcp_pin_fn *fn,
		       void *cookie, struct err *e) MUST_USE;
int store_mcp_pin_delete(struct store *s, const char *session, struct err *e) MUST_USE;
/* Delete those of sessions without a record. */
int store_mcp_pin_sweep(struct store *s, struct err *e) MUST_USE;
