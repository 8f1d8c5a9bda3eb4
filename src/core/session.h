/* session.h - a session from create to its end: the state machine of doc/sessions.md.
 *
 *   creating -> running <-> pausing / paused / resuming -> stopping -> stopped(reason)
 *
 * A live session (any state but stopped) is in memory and in the store; one that has ended is a row
 * of the store only, until its retention ends. Interfaces show a live session without a cell as
 * stopped, too (session_shown_state()); here it is paused, and session_cold.h has the rest. */
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
	SESSION_GUEST_PANICKED,
	SESSION_ENGINE_EXITED,
	SESSION_UNRESPONSIVE, /* its PID 1, or the agent of its guest, did not end a program */
	SESSION_REASONS
};

/* Where a session's files are: in memory, or in an image in the storage folder (session_disk.h). */
enum session_storage { SESSION_MEMORY, SESSION_DISK, SESSION_STORAGES };
extern const char *const session_storage_names[SESSION_STORAGES];

enum session_action {
	SESSION_KILL,
	SESSION_PAUSE,
	SESSION_PAUSE_FILES, /* without its memory: session_cold.h */
	SESSION_ACTIONS
};

const char *session_state_name(enum session_state s);
const char *session_reason_name(enum session_reason r); /* "" for none */
/* Why a request for a session that has ended fails: REASON_LOST if neither a client nor a program
 * in it has ended it, else REASON_GONE. */
enum err_reason session_gone_reason(const struct store_session *row);
/* The state that interfaces, events and messages show: that of the row, but SESSION_STOPPED for a
 * session that is paused without a cell and starts at its next use. One that has ended is told
 * from it by ended_ms. */
enum session_state session_shown_state(const struct store_session *row);
const char *session_shown_name(const struct store_session *row);

#define SESSION_RULES_MAX 16

/* Two texts of a session's row that the interfaces show. mounts: a line "source TAB target TAB
 * ro|rw" for each mount. rules: a line of writable prefixes, then a line of exportable ones, each
 * joined by
 * ':' as in the spec. No path in them has a control character (the interfaces refuse those). */

#define SESSION_PORTS_MAX 16 /* open at a time: session_ports.h */

/* What a client asks for. 0, NULL or "" mean the default; core checks every maximum. */
struct guest_image;

struct session_spec {
	const char *template, *level;
	const char *usual_level; /* if neither `level` nor the template names one; or NULL */
	/* For callers inside of the server: the id of a version, instead of template; and layers
	 * above those of the template, which the session uses from its record on. */
	const char *version;
	const char (*layers)[STORE_ID_MAX];
	size_t nlayers;
	struct guest_image
		*image; /* the memory that its guest begins with; NULL: see session_guest.h */
	int profile;	/* enum cell_profile, -1: default */
	struct cell_limits limits;
	uint64_t timeout_ms, idle_ms;
	bool timeout_given, idle_given; /* so that 0 can mean "none" */
	enum session_action on_timeout, on_idle;
	const char *env; /* "K=V\0K=V\0", env_len bytes */
	size_t env_len;
	const char *metadata; /* JSON object text, opaque here; "" or NULL: {} */
	unsigned nmounts;
	struct {
		const char *source, *target; /* source: absolute path below an allowed root, or
						a volume: volume_mount.h */
		bool writable;
	} mounts[CELL_MOUNTS_MAX];
	const char *network; /* opaque here; "" or NULL: none */
	const char *policy;  /* whom it may contact: a document of policy_select.h; "" or NULL: the
				default */
	const char *secrets; /* opaque here; "" or NULL: none */
	uint16_t ports[SESSION_PORTS_MAX]; /* opened from the start, each once */
	unsigned nports;
	bool keep_diff;	     /* kept_diff.h */
	enum session_storage storage;
	bool storage_given;
	bool read_only;	    /* its root directory; /tmp, /run and the home are not */
	bool persist;	    /* its disk outlives its cells; only with SESSION_DISK */
	uint64_t keep_ms;   /* persist: how long without use; 0: default */
	bool of_build;	    /* a step of a build, which has bounds of its own */
	const char *client; /* of the interface that asks, opaque here; "" or NULL: none */
	const struct store_actor *actor; /* who asks; NULL: the server itself */
	/* Prefixes joined by ':' ; "" or NULL: everything. */
	const char *writable, *exportable;
};

/* Starts to make a session. *ret is set before this returns, and w ends when the session is
 * running, which for a queued one may take a while, or with the error that keeps it from running.
 * -1: the session was refused (quota, bad spec), nothing exists and w is not used; with ERR_LIMIT,
 * whose reason is one of REASON_QUOTA_... or REASON_CAPACITY_..., *ret_retry_s says when to try
 * again. Cancelling w does not end the session: session_delete() does. */
int session_create(struct core *c, struct tenant *t, const struct session_spec *spec,
		   struct completion *w, struct session **ret, unsigned *ret_retry_s,
		   struct err *e) MUST_USE;

/* Frees a session that is still queued, of which nothing is recorded; w ends with that error.
 * False: it is not queued. */
bool session_drop_queued(struct session *s, const struct err *why);

/* The row of any session of that tenant, live or stopped. ERR_NOT_FOUND otherwise. */
int session_get(struct core *c, const struct tenant *t, const char *id, struct store_session *ret,
		struct err *e) MUST_USE;

/* A live session of that tenant. ERR_NOT_FOUND; REASON_GONE or REASON_LOST if it is stopped. */
struct session *session_live(struct core *c, const struct tenant *t, const char *id, struct err *e);

/* A live session of any tenant, or NULL: for callers that check a token instead of a key. */
struct session *session_find(struct core *c, const char *id);
/* The newest row of a session of which the store gave a row: the session's own while it is in
 * memory (the store may have an older one, if a write failed), else the one given. *ret_live is
 * NULL if the session has ended or is ending. */
const struct store_session *session_now(struct core *c, const struct store_session *row,
					struct session **ret_live);
struct tenant *session_tenant(const struct session *s);

/* Readable until the next turn of the loop. */
const struct store_session *session_row(const struct session *s);
/* On whose behalf its state was changed last; of a new session, on whose behalf it was created. */
const struct store_actor *session_actor(const struct session *s);
unsigned session_executions_running(const struct session *s);
struct core *session_core(const struct session *s);
/* Did its guest begin with the memory of another session? */
bool session_goes_on(const struct session *s);
/* If so: that session, if it is live and its tenant is the same; else NULL. */
struct session *session_source(const struct session *s);
/* templates.c: the version of the template that the session was made from; NULL: not known. */
const struct store_template *session_template(const struct session *s);
/* Its isolation level. */
const struct cell_level *session_level(const struct session *s);
/* Of a running session whose level has a guest: "running" or "unresponsive"; else NULL. */
const char *session_guest_word(const struct session *s);
/* Is this ability one of its level's? ERR_UNSUPPORTED: no; what: the action, for the message. */
int session_level_check(const struct session *s, enum cell_ability ability, const char *what,
			struct err *e) MUST_USE;

/* A client uses the session: its idle time starts again, and a paused session is resumed. True: it
 * is running, and w is not used. Else w ends when it is. */
bool session_use(struct session *s, const struct store_actor *who, struct completion *w);

/* c ends when the session does, with the reason as its error. For modules that keep something for
 * the session elsewhere. */
void session_when_over(struct session *s, struct completion *c);

/* While a client is connected (a stream, an attachment) the session is not idle. */
void session_hold(struct session *s);
void session_unhold(struct session *s);

/* w ends when the session has reached the state, soon if it already has. who: see store_actor.h. */
void session_pause(struct session *s, const struct store_actor *who, struct completion *w);
void session_resume(struct session *s, const struct store_actor *who, struct completion *w);

/* Ends it: the state `stopping` is written before this returns; the cell is removed later.
 * Idempotent, also for stopped ones. ERR_NOT_FOUND if that tenant has no such session. */
int session_delete(struct core *c, const struct tenant *t, const char *id,
		   const struct store_actor *who, struct err *e) MUST_USE;

/* Sets the timeout, which counts from now; 0: none, if that is allowed. PID 1 has been sent the new
 * deadline when this returns. who: on whose behalf, see allow.h. */
int session_set_timeout(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
			struct err *e) MUST_USE;

/* The same, but the deadline never moves to an earlier time. */
int session_extend(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
		   struct err *e) MUST_USE;
/* Replaces its network settings. */
int session_set_network(struct session *s, const char *network, struct err *e) MUST_USE;

/* How many live sessions are in each state, of all tenants. */
void session_count(const struct core *c, unsigned ret[SESSION_STATES]);
void session_each(struct core *c, const struct tenant *t, void (*see)(struct session *s, void *arg),
		  void *arg); /* t NULL: all */
/* Those of the tenant that wait for room, which the former leaves out. */
void session_each_queued(const struct tenant *t, void (*see)(struct session *s, void *arg),
			 void *arg);

/* Lists what changed in the session's file system: on_data gets records as in src/init/diff.h, then
 * on_done is called once. The last record says whether the list is complete. Before the call the
 * structure is all zeros but for the caller's members. session_diff_cancel() is allowed at any
 * time, and on_done is not called after it. */
struct keeper_call;
struct session_diff {
	void (*on_data)(struct session_diff *d, const uint8_t *data, size_t len);
	void (*on_done)(struct session_diff *d, const struct err *e);
	void *arg;	       /* the caller's */
	struct completion end; /* this and the rest: session_diff.c's */
	struct loop_fd fd;
	struct core *core; /* NULL: not under way */
	struct tenant *tenant;
	struct keeper_call *call;
	struct guest_reader *reader; /* owned; NULL: a keeper reads */
	bool reads_guest;
	struct completion ready;
	bool still; /* the programs of a guest stand still meanwhile: set by the caller */
	int pipe;   /* owned */
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
size_t session_sample_history(const struct session *s, struct session_sample ret[SESSION_SAMPLES]);

/* session_mask.c: the mask for everything that the session writes and that is recorded of it. NULL:
 * nothing is masked. Borrowed until the next session_mask_set(). */
const struct mask *session_mask(const struct session *s);
/* How many bytes of the session may be masked in the rest of this turn of the loop; the caller
 * takes off what it masks. */
size_t *session_mask_turn(struct session *s, const struct mask *m);
/* So many values were masked: a session that prints them again and again is logged, at 100, 1000,
 * ... of them. */
void session_mask_covered(struct session *s, uint64_t places);
/* A mask of these values and the operator's patterns, for session_mask_set(). */
struct mask *session_mask_make(const struct session *s, const char *const *values,
			       const size_t *lens, size_t n, struct err *e) MUST_USE;
/* Replaces the session's mask and owns m; NULL: only the operator's patterns are masked. */
void session_mask_set(struct session *s, struct mask *m);
/* How many bytes of a text must be masked if only its first `keep` bytes are kept: a value that
 * begins among those may end behind them. */
size_t session_redact_len(const struct session *s, const char *text, size_t keep);
/* Masks a text in place, before it is kept or shown. */
void session_redact(const struct session *s, char *text);

/* ---- for the parts of a session, session_parts.h */

struct live_cell;

/* NULL before the cell is made and after it has gone; also of a session that an earlier daemon
 * left, until its cell is adopted. */
struct live_cell *session_cell(const struct session *s);
/* What the session has used; changes are written with its next change of state. */
struct store_usage *session_usage(struct session *s);
/* Sets the column `secrets` of a new session; lines is borrowed until the session is freed. */
void session_set_secrets(struct session *s, const char *lines);
/* Writes the column `policy` and an event that has the name of the policy. */
int session_save_policy(struct session *s, const char *document, const char *name,
			const struct store_actor *who, struct err *e) MUST_USE;

/* ---- for the core's own files */

/* Does the session run, are its parts ready and its executions known? After a restart of the daemon
 * only PID 1 can say what runs; until it has, every process would seem to be gone. */
bool session_is_usable(const struct session *s);

/* Executions that have not ended are lost with the cell. */
void session_lose_executions(struct session *s);

/* A program of its cell outlived its timeout, and PID 1 or the agent of its guest did not end it:
 * the cell is ended. */
void session_end_unresponsive(struct session *s);

struct keeper_create;
struct keeper_diff;
/* session_diff.c: the request to the keeper that reads what the cell changed. op: KEEPER_DIFF or
 * KEEPER_CAPTURE. plan: as of the cell's CREATE. */
void session_diff_request(const struct session *s, uint32_t op, const struct keeper_create *plan,
			  struct keeper_diff *ret);

/* The session of that id in any state, or NULL: it is not in memory. */
struct session *session_by_id(struct core *c, const char *id);
/* Puts it into the table of live sessions. */
void session_list_in(struct session *s);
/* A session that an earlier daemon left, read from the store: in the table, and counted. */
struct session *session_restore(struct core *c, struct tenant *t, const char *id,
				struct err *e) MUST_USE;
/* session_mask.c: compiles the operator's patterns, at the start. */
int session_mask_setup(struct core *c, struct err *e) MUST_USE;
