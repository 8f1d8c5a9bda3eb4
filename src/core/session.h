/* session.h - a session from create to its end: the state machine of doc/sessions.md.
 *
 *   creating -> running <-> pausing / paused / resuming -> stopping -> stopped(reason)
 *
 * A live session (any state but stopped) is in memory and in the store; a stopped one is a row of
 * the store only, until its retention ends. */
#pragma once

#include "cell_level.h"
#include "core.h"
#include "mask.h"
#include "store_actor.h"
#include "store_session.h"
#include "store_template.h"

enum session_state {
	SESSION_CREATING,
	SESSION_RUNNING,
	SESSION_PAUSING,
	SESSION_PAUSED,
	SESSION_RESUMING,
	SESSION_STOPPING,
	SESSION_STOPPED,
	SESSION_STATES
};

enum session_reason {
	SESSION_NO_REASON,
	SESSION_OOM,
	SESSION_KILLED, /* its PID 1 was killed from outside */
	SESSION_CRASHED,
	SESSION_EXPIRED,
	SESSION_DELETED,
	SESSION_HOST_RESTART,
	SESSION_REASONS
};

enum session_action { SESSION_KILL, SESSION_PAUSE, SESSION_ACTIONS };

const char *session_state_name(enum session_state s);
const char *session_reason_name(enum session_reason r); /* "" for none */

#define SESSION_RULES_MAX 16

/* Two texts of a row that others show, too. mounts: a line "source TAB target TAB ro|rw" for each;
 * rules: the line of writable prefixes, then that of exportable ones, joined by ':' as in the spec.
 * No path in them holds a control character (the API refuses those). */

/* What a client asks for. 0, NULL or "" mean the default; core checks every maximum. */
struct session_spec {
	const char *template, *level;
	int profile; /* enum cell_profile, -1: default */
	struct cell_limits limits;
	uint64_t timeout_ms, idle_ms;
	bool timeout_given, idle_given; /* so that 0 can mean "none" */
	enum session_action on_timeout, on_idle;
	const char *env; /* "K=V\0K=V\0", env_len bytes */
	size_t env_len;
	const char *metadata; /* JSON object text, opaque here; "" or NULL: {} */
	unsigned nmounts;
	struct {
		const char *source, *target; /* source: absolute path below an allowed root */
		bool writable;
	} mounts[CELL_MOUNTS_MAX];
	const char *network; /* opaque here; "" or NULL: none */
	const char *policy;  /* whom it may contact: a document of policy_select.h; "" or NULL: the
				default */
	const char *secrets; /* opaque here; "" or NULL: none */
	bool keep_diff;	     /* kept_diff.h */
	const char *client;  /* of the interface that asks, opaque here; "" or NULL: none */
	const struct store_actor *actor; /* who asks; NULL: the server itself */
	/* Prefixes joined by ':' ; "" or NULL: everything. */
	const char *writable, *exportable;
};

/* Starts making a session. *ret is set at once and its id is final; w ends when it is running
 * (or queued, made, and running), or why not. With an error at once (quota, bad spec) -1 is
 * returned, nothing exists and w is not used. Cancelling w does not end the session: use
 * session_delete. *ret_retry_s is set with ERR_LIMIT, which has one of the reasons
 * REASON_QUOTA_... or REASON_CAPACITY_... */
int session_create(struct core *c, struct tenant *t, const struct session_spec *spec,
		   struct completion *w, struct session **ret, unsigned *ret_retry_s,
		   struct err *e) MUST_USE;

/* The row of any session of that tenant, live or stopped. ERR_NOT_FOUND otherwise. */
int session_get(struct core *c, const struct tenant *t, const char *id, struct store_session *ret,
		struct err *e) MUST_USE;

/* A live session of that tenant. ERR_NOT_FOUND; REASON_GONE if it is stopped. */
struct session *session_live(struct core *c, const struct tenant *t, const char *id, struct err *e);

/* A live session of any tenant, or NULL: for callers that check a token instead of a key. */
struct session *session_find(struct core *c, const char *id);
/* What is known of the session of a row: its own row while it is in memory, which is newer where
 * the store could not be told, else the one given. *ret_live is NULL if it does not live. */
const struct store_session *session_now(struct core *c, const struct store_session *row,
					struct session **ret_live);
struct tenant *session_tenant(const struct session *s);

/* Readable until the next turn of the loop. */
const struct store_session *session_row(const struct session *s);
/* Who asked for the last change of its state; of a new one, for it. */
const struct store_actor *session_actor(const struct session *s);
unsigned session_executions_running(const struct session *s);
struct core *session_core(const struct session *s);
/* The version of the template that it was made from; NULL: not known. */
const struct store_template *session_template(const struct session *s);
/* Its isolation level. */
const struct cell_level *session_level(const struct session *s);
/* Is this ability one of its level's? ERR_UNSUPPORTED: no; what: the action, for the message. */
int session_level_check(const struct session *s, enum cell_ability ability, const char *what,
			struct err *e) MUST_USE;

/* It is used: resets the idle clock; a paused session is resumed. True: it is running, and w is not
 * used. Else w ends when it is. */
bool session_use(struct session *s, const struct store_actor *who, struct completion *w);

/* c ends when the session does, with the reason as its error. For what is kept elsewhere for it. */
void session_when_over(struct session *s, struct completion *c);

/* While a client is connected (a stream, an attachment) the session is not idle. */
void session_hold(struct session *s);
void session_unhold(struct session *s);

/* w ends when it is so; soon if it is so already. who: see store_actor.h. */
void session_pause(struct session *s, const struct store_actor *who, struct completion *w);
void session_resume(struct session *s, const struct store_actor *who, struct completion *w);

/* Ends it: the state `stopping` is written before this returns; the cell is removed later.
 * Idempotent, also for stopped ones. ERR_NOT_FOUND if that tenant has no such session. */
int session_delete(struct core *c, const struct tenant *t, const char *id,
		   const struct store_actor *who, struct err *e) MUST_USE;

/* Counts from now; 0: none, if that is allowed. who: whose request it is, see allow.h. */
int session_set_timeout(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
			struct err *e) MUST_USE;

/* The same, but never sooner than it would have been. */
int session_extend(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
		   struct err *e) MUST_USE;
/* Replaces its network settings. */
int session_set_network(struct session *s, const char *network, struct err *e) MUST_USE;

/* How many live sessions are in each state, of all tenants. */
void session_count(const struct core *c, unsigned ret[SESSION_STATES]);
void session_each(struct core *c, const struct tenant *t, void (*see)(struct session *s, void *arg),
		  void *arg); /* t NULL: all */

/* What changed in its file system: records as src/init/diff.h has them arrive in on_data; then
 * on_done comes. Whether the list is whole, its last record says. All zeros but for the caller's
 * members before it is begun. session_diff_cancel() is allowed at any time. */
struct keeper_call;
struct session_diff {
	void (*on_data)(struct session_diff *d, const uint8_t *data, size_t len);
	void (*on_done)(struct session_diff *d, const struct err *e);
	void *arg;	       /* the caller's */
	struct completion end; /* the core's from here on */
	struct loop_fd fd;
	struct core *core; /* NULL: not under way */
	struct tenant *tenant;
	struct keeper_call *call;
	int pipe; /* owned */
};
void session_diff(struct session *s, struct session_diff *d);
void session_diff_cancel(struct session_diff *d);

/* Numbers now, and a sample every five seconds for the last ten minutes. */
struct session_sample {
	uint64_t time_ms; /* wall clock */
	uint64_t cpu_us, memory_bytes, memory_peak_bytes, pids, disk_bytes, inodes;
};
#define SESSION_SAMPLES 120
void session_sample_now(struct session *s, struct session_sample *ret);
/* Oldest first; returns how many. */
size_t session_history(const struct session *s, struct session_sample ret[SESSION_SAMPLES]);

/* session_mask.c: what is covered in everything the session says and in what is recorded of it.
 * NULL: nothing. Borrowed until the next session_set_mask(). */
const struct mask *session_mask(const struct session *s);
/* A mask of these values and the operator's patterns, for session_set_mask(). */
struct mask *session_make_mask(const struct session *s, const char *const *values,
			       const size_t *lens, size_t n, struct err *e) MUST_USE;
/* Takes m over; NULL: only the operator's patterns from now on. */
void session_set_mask(struct session *s, struct mask *m);
/* How many bytes of a text have to be covered if only its first `keep` bytes are kept: with those
 * that a value may take which begins there. */
size_t session_redact_part(const struct session *s, const char *text, size_t keep);
/* Covers in place; for texts that are kept or shown. */
void session_redact(const struct session *s, char *text);

/* ---- for the parts of a session, session_parts.h */

struct live_cell;

/* NULL before and after; also while it lives, if an earlier daemon left it and it is not adopted.
 */
struct live_cell *session_cell(const struct session *s);
/* What it has used; changes are written with its next change of state. */
struct store_usage *session_usage(struct session *s);
/* The column `secrets` of a new session: borrowed until the session is freed. */
void session_set_secrets(struct session *s, const char *lines);
/* Writes the column `policy` and an event that has the name of the policy. */
int session_save_policy(struct session *s, const char *document, const char *name,
			const struct store_actor *who, struct err *e) MUST_USE;

/* ---- for the core's own files */

/* In memory, in any state; NULL: it is not. */
struct session *session_by_id(struct core *c, const char *id);
/* Puts it into the table of live sessions. */
void session_list_in(struct session *s);
/* A session that an earlier daemon left, read from the store. */
struct session *session_restore(struct core *c, struct tenant *t, const char *id,
				struct err *e) MUST_USE;
void session_free(struct session *s);
/* session_mask.c: makes the node's mask of the operator's patterns. */
int session_mask_setup(struct core *c, struct err *e) MUST_USE;
