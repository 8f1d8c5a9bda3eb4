/* session.h - a session from create to its end: the state machine of doc/sessions.md.
 *
 *   creating -> running <-> pausing / paused / resuming -> ending -> ended(reason)
 *
 * A live session (any state but ended) is in memory and in the store. An ended session is only a
 * row of the store, until its retention ends. Interfaces show a paused session without a cell as
 * stopped (session_shown_state()). session_suspend.h describes it.
 *
 * The interfaces, the session parts (session_hooks.h) and the other folders of the daemon use this
 * header. Only the core's own files see struct session (core_private.h).
 */
#pragma once

#include "daemon/node/core.h"
#include "daemon/store/store_actor.h"
#include "daemon/store/store_session.h"
#include "daemon/store/store_template.h"
#include "lib/mask/mask.h"
#include "lib/wire/cell_level.h"

enum session_state {
	SESSION_CREATING,
	SESSION_RUNNING,
	SESSION_PAUSING,
	SESSION_PAUSED,
	SESSION_RESUMING,
	SESSION_ENDING,
	SESSION_ENDED,
	SESSION_STOPPED, /* of no row: session_shown_state() */
	SESSION_STATES
};

enum session_reason {
	SESSION_NO_REASON,
	SESSION_OOM,
	SESSION_KILLED, /* PID 1 was killed from outside the cell */
	SESSION_CRASHED,
	SESSION_EXPIRED,
	SESSION_DELETED,
	SESSION_HOST_RESTART,
	SESSION_GUEST_PANICKED,
	SESSION_ENGINE_EXITED,
	SESSION_UNRESPONSIVE, /* PID 1, or the agent of the guest, did not end a program */
	SESSION_STORAGE_FULL, /* see session_room.h. It could not be paused */
	SESSION_ALARM,	      /* a rule of its alarms ended it: daemon/alarms */
	SESSION_REASONS
};

/* The place of a session's files: memory, or an image in the storage folder (session_disk.h). */
enum session_storage { SESSION_MEMORY, SESSION_DISK, SESSION_STORAGES };
extern const char *const session_storage_names[SESSION_STORAGES];

/* Selects the recorded calls of its programs: daemon/alarms/trace.h. The numbers are in rows. */
enum session_trace {
	SESSION_TRACE_NONE,
	SESSION_TRACE_PROGRAMS,
	SESSION_TRACE_CALLS,
	SESSION_TRACE_FILES,
	SESSION_TRACES
};
extern const char *const session_trace_names[SESSION_TRACES];

enum session_action {
	SESSION_KILL,
	SESSION_PAUSE,
	SESSION_PAUSE_FILES, /* without its memory: session_suspend.h */
	SESSION_ACTIONS
};

const char *session_state_name(enum session_state s);
const char *session_reason_name(enum session_reason r); /* "" for none */
/* Why a request for an ended session fails: REASON_LOST if neither a client nor a program in the
 * session has ended it, else REASON_GONE. */
enum err_reason session_gone_reason(const struct store_session *row);
/* The state in interfaces, events and messages: the state of the row, but SESSION_STOPPED for a
 * session paused without a cell, which starts at its next use. */
enum session_state session_shown_state(const struct store_session *row);
const char *session_shown_name(const struct store_session *row);

#define SESSION_RULES_MAX 16

/* The interfaces show two texts of a session's row. mounts: a line "source TAB target TAB ro|rw"
 * for each mount. rules: a line of writable prefixes, then a line of exportable ones, each joined
 * by ':' as in the spec. No path in them has a control character (the interfaces refuse those). */

#define SESSION_PORTS_MAX 16 /* open at a time: session_settings.h */

/* The settings in a client's request. 0, NULL or "" mean the default. core checks every maximum. */
struct guest_image;

struct session_spec {
	const char *template, *level;
	const char *usual_level; /* if neither `level` nor the template names one, or NULL */
	/* For callers inside the server: a version id instead of template, and layers above those
	 * of the template. The session uses these layers as soon as its row is written. */
	const char *version;
	const char (*layers)[STORE_ID_MAX];
	size_t nlayers;
	struct guest_image
		*image; /* the memory with which its guest begins. NULL: see session_guest.h */
	int profile;	/* enum cell_profile, -1: default */
	struct cell_limits limits;
	uint64_t timeout_ms, idle_ms;
	bool timeout_given, idle_given; /* so that 0 can mean "none" */
	enum session_action on_timeout, on_idle;
	const char *env; /* "K=V\0K=V\0", env_len bytes */
	size_t env_len;
	const char *metadata; /* JSON object text, opaque here. "" or NULL: {} */
	unsigned nmounts;
	struct {
		const char *source, *target; /* source: absolute path below an allowed root, or
						a volume: session_volume.h */
		bool writable;
	} mounts[CELL_MOUNTS_MAX];
	const char *network; /* opaque here. "" or NULL: none */
	const char *policy;  /* the hosts that it may contact: a document of policy_select.h. "" or
				NULL: the default */
	const char *secrets; /* opaque here. "" or NULL: none */
	uint16_t ports[SESSION_PORTS_MAX]; /* opened from the start, each once */
	unsigned nports;
	const char *redact;	 /* lines of redact.h. "" or NULL: none */
	const char *watch_reads; /* lines of session_watch.h. "" or NULL: none */
	const char *traceparent; /* lib/http/traceparent.h. "" or NULL: none */
	bool keep_diff;		 /* session_diff.h */
	enum session_storage storage;
	bool storage_given;
	bool read_only;	    /* its root directory, but not /tmp, /run and the home */
	bool persist;	    /* its disk outlives its cells. Only with SESSION_DISK */
	uint64_t keep_ms;   /* persist: how long without use. 0: default */
	bool of_build;	    /* a step of a build, with bounds of its own */
	const char *client; /* of the interface that asks, opaque here. "" or NULL: none */
	const struct store_actor *actor; /* on whose behalf. NULL: the server itself */
	const struct store_once *once;	 /* written with the row. NULL: none */
	/* Prefixes joined by ':'. "" or NULL: everything. */
	const char *writable, *exportable;
	enum session_trace trace;
	const char *alarms; /* lines of alarm_rules.h. "" or NULL: the usual rules */
};

/* Start to make a session. *ret is set before this returns. w ends when the session is running, or
 * with the error that prevents this. For a queued session this may take a while. -1: the session
 * was refused (quota, bad spec), nothing exists and w is not used. With ERR_LIMIT the reason is a
 * REASON_QUOTA_... or REASON_CAPACITY_..., and *ret_retry_s says when to try again. Cancelling w
 * does not end the session: call session_delete(). */
int session_create(struct core *c, struct tenant *t, const struct session_spec *spec,
		   struct completion *w, struct session **ret, unsigned *ret_retry_s,
		   struct err *e) MUST_USE;

/* Free a queued session, of which nothing is recorded. w ends with that error. False: it is not
 * queued. */
bool session_drop_queued(struct session *s, const struct err *why);

/* Read the row of any session of that tenant, live or ended. ERR_NOT_FOUND otherwise. */
int session_get(struct core *c, const struct tenant *t, const char *id, struct store_session *ret,
		struct err *e) MUST_USE;

/* Find a live session of that tenant. ERR_NOT_FOUND. REASON_GONE or REASON_LOST if it has ended.
 */
struct session *session_live(struct core *c, const struct tenant *t, const char *id, struct err *e);

/* Find a live session of any tenant, or NULL: for callers that check a token instead of a key. */
struct session *session_find(struct core *c, const char *id);
/* Return the newest row of a session that the store listed: the row in memory of a live session
 * (the store has an older one after a failed write), else the row given. *ret_live is NULL if the
 * session has ended or is ending. */
const struct store_session *session_now(struct core *c, const struct store_session *row,
					struct session **ret_live);
struct tenant *session_tenant(const struct session *s);

/* Has an earlier server made it? */
bool session_is_restored(const struct session *s);
/* Readable until the next turn of the loop. */
const struct store_session *session_row(const struct session *s);
/* On whose behalf the state changed last. For a new session: on whose behalf it was created. */
const struct store_actor *session_actor(const struct session *s);
unsigned session_executions_running(const struct session *s);
struct core *session_core(const struct session *s);
/* Did its guest begin with the memory of another session? */
bool session_goes_on(const struct session *s);
/* Return that session, if it is live and belongs to the same tenant, else NULL. */
struct session *session_source(const struct session *s);
/* The template version from which the session was made. NULL: not known. */
const struct store_template *session_template(const struct session *s);
/* Call fn for each layer of the session's files, template layers first. */
void session_each_layer(const struct session *s, void (*fn)(const char *layer, void *arg),
			void *arg);
/* Its isolation level. */
const struct cell_level *session_level(const struct session *s);
/* Do its programs run in a guest? */
bool session_has_guest(const struct session *s);
/* For a running session whose level has a guest: "running" or "unresponsive", else NULL. */
const char *session_guest_word(const struct session *s);
/* Is this ability one of its level's? ERR_UNSUPPORTED: no. what: the action, for the message. */
int session_level_check(const struct session *s, enum cell_ability ability, const char *what,
			struct err *e) MUST_USE;

/* A client uses the session: its idle time starts again, and a paused session is resumed. True: the
 * session is running, and w is not used. Else w ends when the session is running. */
bool session_use(struct session *s, const struct store_actor *who, struct completion *w);

/* c ends with the session, with the reason as its error. For modules with own data about the
 * session. */
void session_when_over(struct session *s, struct completion *c);

/* While a client is connected (a stream, an attachment) the session is not idle. */
void session_hold(struct session *s);
void session_unhold(struct session *s);

/* w ends when the session has reached the state, soon if it already has. who: see store_actor.h. */
void session_pause(struct session *s, const struct store_actor *who, struct completion *w);
void session_resume(struct session *s, const struct store_actor *who, struct completion *w);

/* End the session. The state `ending` is written before this returns, and the cell is removed
 * later. Idempotent, also for ended sessions. ERR_NOT_FOUND if that tenant has no such session.
 */
int session_delete(struct core *c, const struct tenant *t, const char *id,
		   const struct store_actor *who, struct err *e) MUST_USE;

/* Changes of a session that clients may ask for at any time. All are made, or none. */
struct session_change {
	const char *metadata;		/* replaces the old one. NULL: it stays */
	bool timeout_given, idle_given; /* the timeout is counted from now. 0: none */
	uint64_t timeout_ms, idle_ms;
	int on_timeout, on_idle; /* enum session_action. -1: as it is */
};
int session_change(struct session *s, const struct session_change *change,
		   const struct store_actor *who, struct err *e) MUST_USE;

/* Set the timeout, counted from now. 0: none, if allowed. PID 1 has been sent the new deadline when
 * this returns. who: on whose behalf, see allow.h. */
int session_set_timeout(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
			struct err *e) MUST_USE;

/* Set the timeout, but never move the deadline to an earlier time. */
int session_extend(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
		   struct err *e) MUST_USE;
/* Replace its network settings. */
int session_set_network(struct session *s, const char *network, struct err *e) MUST_USE;

/* Count the live sessions in each state, of all tenants. */
void session_count(const struct core *c, unsigned ret[SESSION_STATES]);
/* Call see for each live session. see() may end its own session. */
void session_each(struct core *c, const struct tenant *t, void (*see)(struct session *s, void *arg),
		  void *arg); /* t NULL: all */
/* Call see for the tenant's queued sessions, which session_each() leaves out. */
void session_each_queued(const struct tenant *t, void (*see)(struct session *s, void *arg),
			 void *arg);

/* List the changes in the session's file system. on_data gets records as in
 * src/cell/init/changes/diff.h, then on_done is called once. The last record says whether the list
 * is complete. Before the call the structure is all zeros but for the caller's members.
 * session_diff_cancel() is allowed at any time, and on_done is not called after it. */
struct keeper_call;
struct session_diff {
	void (*on_data)(struct session_diff *d, const uint8_t *data, size_t len);
	void (*on_done)(struct session_diff *d, const struct err *e);
	void *arg;	       /* the caller's */
	struct completion end; /* this and the rest are session_diff.c's */
	struct loop_fd fd;
	struct core *core; /* NULL: not in progress */
	struct tenant *tenant;
	struct keeper_call *call;
	struct guest_reader *reader; /* owned. NULL: a keeper reads */
	bool reads_guest;
	struct completion ready;
	bool still; /* freeze a guest's programs while they are read. Set by the caller */
	int pipe;   /* owned */
};
void session_diff(struct session *s, struct session_diff *d);
void session_diff_cancel(struct session_diff *d);

/* Usage now, and a sample every five seconds for the last ten minutes. */
struct session_sample {
	uint64_t time_ms; /* wall clock */
	uint64_t cpu_us, memory_bytes, memory_peak_bytes, pids, disk_bytes, inodes;
	uint64_t output_bytes; /* kept of its programs' output, since cordond started */
};
#define SESSION_SAMPLES 120
void session_sample_now(struct session *s, struct session_sample *ret);
/* Copy the samples, oldest first, and return their number. */
size_t session_sample_history(const struct session *s, struct session_sample ret[SESSION_SAMPLES]);

/* session.c: the mask for all output of the session and all records about it. NULL: nothing is
 * masked. Borrowed until the next session_mask_set(). */
const struct mask *session_mask(const struct session *s);
/* Does the session, or the node, want things covered by their form (redact.h)? */
bool session_redacts(const struct session *s);
/* How many bytes of the session may be masked in the rest of this turn of the loop. The caller
 * subtracts the bytes that it masks. */
size_t *session_mask_turn(struct session *s, const struct mask *m);
/* Count masked values. A session that prints secret values again and again is logged, at the 100th,
 * 1000th, ... value. */
void session_mask_covered(struct session *s, uint64_t places);
/* Make a mask of these values and the operator's patterns, for session_mask_set(). */
struct mask *session_mask_make(const struct session *s, const char *const *values,
			       const size_t *lens, size_t n, struct err *e) MUST_USE;
/* Give a session its mask before its cell starts: it may have names to cover, but no secrets. */
int session_mask_begin(struct session *s, struct err *e) MUST_USE;
/* Replace the session's mask and own m. NULL: only the operator's patterns are masked. */
void session_mask_set(struct session *s, struct mask *m);
/* How many bytes of a text must be masked if only its first `keep` bytes are kept: a value that
 * begins among those may end behind them. */
size_t session_redact_len(const struct session *s, const char *text, size_t keep);
/* Mask a text in place, before it is kept or shown. */
void session_redact(const struct session *s, char *text);
/* The same for a text that was cut off: it may end with the beginning of a value, which no mask
 * finds. As many bytes as a value takes at most are covered with it. */
void session_redact_cut(const struct session *s, char *text);
/* The same for any bytes. */
void session_redact_bytes(const struct session *s, void *bytes, size_t n);
/* How many bytes may be redacted in one turn of the loop. */
size_t session_redact_turn(const struct session *s);

/* ---- for the parts of a session, session_hooks.h */

struct live_cell;

/* NULL before the cell is made and after it has gone. Also NULL for a session of an earlier daemon,
 * until its cell is adopted. */
struct live_cell *session_cell(const struct session *s);
/* The usage of the session. Changes are written with its next change of state. */
struct store_usage *session_usage(struct session *s);
/* Set the column `secrets` of a new session. lines is borrowed until the session is freed. */
void session_set_secrets(struct session *s, const char *lines);
/* Set the column `refused`. It is written soon. lines as above. */
void session_set_refused(struct session *s, const char *lines);
/* Write the column `policy` and an event with the name of the policy. */
int session_save_policy(struct session *s, const char *document, const char *name,
			const struct store_actor *who, struct err *e) MUST_USE;

/* ---- for the core's own files */

struct keeper_create;
struct keeper_diff;
/* session_diff.c: build the keeper request that reads the changes in the cell. op: KEEPER_DIFF or
 * KEEPER_CAPTURE. plan: as of the cell's CREATE. */
void session_diff_request(const struct session *s, uint32_t op, const struct keeper_create *plan,
			  struct keeper_diff *ret);

/* Find a session by id in any state, or NULL: it is not in memory. */
struct session *session_by_id(struct core *c, const char *id);
/* Put the session into the table of live sessions. */
void session_list_in(struct session *s);
/* Read a session of an earlier daemon from the store, put it into the table, and count it. */
struct session *session_restore(struct core *c, struct tenant *t, const char *id,
				struct err *e) MUST_USE;
/* session.c: compile the operator's patterns, at the start. */
int session_mask_setup(struct core *c, struct err *e) MUST_USE;
