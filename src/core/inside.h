/* inside.h - the core's own structures, for its own files only. */
#pragma once

#include "core.h"
#include "session_egress.h"
#include "egress_link.h"
#include "execution.h"
#include "fd_budget.h"
#include "file_op.h"
#include "grant.h"
#include "event_log.h"
#include "keeper_link.h"
#include "live_cell.h"
#include "log_removal.h"
#include "net_log.h"
#include "net_usage.h"
#include "output_log.h"
#include "output_mask.h"
#include "pool.h"
#include "session.h"
#include "store_event.h"
#include "store_execution.h"
#include "store_key.h"
#include "store_session.h"
#include "store_tenant.h"
#include "tenant.h"

#define CORE_BUCKETS 4096

/* Exit codes of executions, as shells have them. */
#define EXIT_TIMEOUT 124
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127

/* Where tenant_remove.c is. */
struct tenant_removal {
	struct core *core;
	struct job job;
	unsigned bucket; /* of the table of sessions */
};

struct tenant {
	struct tenant *next;
	struct store_tenant row;
	/* what its live sessions have been promised */
	uint64_t sessions, memory_bytes, disk_bytes;
	/* token bucket, in thousandths of a session */
	uint64_t tokens_milli, tokens_at_ns;
	struct session *queue, **queue_end; /* waiting to be made, oldest first */
	unsigned queued;
	unsigned requests;   /* being answered */
	unsigned diffs;	     /* being read */
	uint64_t kept_bytes; /* in the logs of its executions, ended sessions' included */
	struct job_queue work;
	struct log_removal removal;
	struct tenant_removal end;
	uint64_t keys_milli, keys_at_ns;      /* how many it may make, see key_quota.c */
	uint64_t change_bytes, changed_at_ns; /* of policies and secrets, see change_quota.c */
	struct tally tally;		      /* kept by src/net on its behalf */
	char *policy;			      /* owned: its layer; "": none */
};

/* Where session_sample.c is. */
struct sampling {
	struct job job;
	unsigned bucket;
	uint64_t memory_bytes; /* of those before it */
};

/* Where retention.c is. */
struct retention {
	struct job job;
	unsigned step;
	char id[STORE_ID_MAX]; /* the session that is being deleted; "": none */
	uint64_t after_ms;     /* the last one that was looked at, by its end */
	char after_id[STORE_ID_MAX];
	uint64_t events; /* appended since the start */
};

struct core {
	struct loop *loop;   /* borrowed */
	struct store *store; /* borrowed */
	struct core_options o;
	struct keeper_link keeper;
	bool keeper_hung;   /* and there is no other yet, */
	bool keeper_wanted; /* which the supervisor is still to be asked for */
	struct egress_link egress;
	char *default_policy;	    /* owned: of sessions that do not say */
	struct policy_memo *merged; /* owned: the last merged policies */
	int cells_fd;		    /* owned: RUN/cells */
	int output_fd;		    /* owned: STATE/output */
	int removed_fd;		    /* owned: STATE/output/removed */
	char boot_id[40];
	uint64_t started_ns;
	bool recovered, draining;
	uint64_t cells_failed;
	int64_t clock_ahead_ms; /* of the wall clock, before the other */
	struct fd_budget fds;
	unsigned ending; /* cells on their way out */

	struct session *sessions[CORE_BUCKETS];
	unsigned live;			     /* sessions, the queued ones not counted */
	uint64_t memory_bytes;		     /* promised to sessions */
	int meminfo_fd;			     /* owned */
	bool memory_short;		     /* of the machine, a second ago */
	unsigned journal_pages;		     /* of the store, then */
	uint64_t created_ms;		     /* of the youngest session */
	uint64_t tokens_milli, tokens_at_ns; /* of the node */

	struct tenant *tenants;
	unsigned requests;	 /* of all of them */
	unsigned diffs;		 /* being read */
	struct grant *grants;	 /* what is open because of a key */
	struct loop_task revoke; /* tells those that are revoked */
	struct tenant *turn;	 /* whose queue is looked at next */
	struct loop_timer queue_turn;
	struct pool *pool;
	struct jobs jobs;      /* long work, tenants in turn */
	struct job_queue work; /* the node's own */
	struct retention retention;
	struct {
		uint64_t at_ns;
		size_t left;
	} last_turn; /* bytes that execution_drain_last() may mask in the turn that began at at_ns
		      */
	struct log_removal removal;	   /* of what an earlier daemon left */
	struct removed_log_list held_logs; /* being read */
	unsigned old_logs;		   /* that retention has removed, still taking space */
	struct sampling sampling;
	uint64_t cell_memory_bytes; /* of all cells, at the last look */
	struct event_log_listener *listeners;
	struct loop_task tell_listeners;
	struct net_usage_due net_used;
	struct net_log_listener *net_listeners;
	uint64_t net_stored; /* records, since the start */
	struct loop_task tell_net;
	struct mask *mask;	  /* owned: the operator's patterns; NULL: none */
	struct loop_timer chores; /* once a second */
	uint64_t chores_done;
	uint64_t secrets_seen_ms; /* those whose time was over by then are gone; of that moment: */
	char secrets_seen_id[STORE_ID_MAX]; /* up to this one */
};

/* One that ended a moment ago, by its process id. */
#define EXECUTION_PAST 32
struct execution_past {
	uint32_t pid;
	uint64_t ended_ns;
	char id[STORE_ID_MAX];
};

struct session {
	struct session *next; /* in its bucket, or in its tenant's queue */
	struct core *core;
	struct tenant *tenant;
	struct store_session row;
	char *texts;		/* owned: what the row points into */
	char *network, *policy; /* owned: the same, after a change */
	struct live_cell *cell; /* owned; NULL before and after */
	bool counted;		/* in the sums of core and tenant */
	bool listed;		/* in the table of live sessions */
	bool unsaved;		/* the row could not be written; tried again every second */
	struct execution *executions;
	struct file_op *file_ops;
	struct tree_kill *kills; /* of ended executions, under way */
	struct dial_call *dials; /* under way, or held by whoever asked */
	unsigned ndials;
	unsigned running;    /* executions not ended */
	uint64_t records;    /* of executions; 0: not counted yet */
	uint64_t text_bytes; /* in those records */
	uint64_t kept_bytes; /* in the logs of all of them */
	struct completions when_running, when_paused, when_over;
	struct loop_task tell; /* that it is running */
	unsigned holds;
	uint64_t used_ns;
	struct loop_timer timer; /* the nearest of its deadlines */
	uint64_t created_ns;
	bool from_pool;
	/* counters of its cell when an execution last looked */
	uint64_t oom_seen, pids_seen, disk_seen, inodes_seen;
	struct session_sample *samples; /* owned; a ring of SESSION_SAMPLES, NULL until needed */
	size_t nsamples, last_sample;
	uint64_t memory_bytes;	     /* of its cell, at the last look */
	struct execution_past *past; /* owned; a ring of EXECUTION_PAST, NULL until needed */
	unsigned npast;
	struct mask *mask; /* owned; NULL: the node's */
	struct {
		uint64_t at_ns;
		size_t left;
	} mask_turn;	  /* bytes of output that may be masked in the turn that began at at_ns */
	uint64_t covered; /* values of secrets and matches of patterns in its output so far */
	struct session_egress door;
	struct secret_state *secrets; /* owned: secret_inside.h; NULL: it never had any */
	uint64_t net_records;	      /* of what it tried to reach; 0: not counted yet */
	struct net_usage used;
};

struct execution {
	struct execution *next; /* of its session */
	struct session *session;
	struct store_execution row;
	char *texts; /* owned: what the row points into */
	struct live_program program;
	int in;	    /* owned; -1: none or not yet */
	int out[2]; /* owned; -1 at the end of file, or before it runs */
	struct loop_fd watch_in, watch_out[2];
	bool started; /* its descriptors have come */
	bool stdin_open, ended, complete, unsaved, killed, close_wanted, background;
	bool draining;	 /* what is due at its end moves, see output_quota_make() */
	bool forget_due; /* PID 1 may forget it, and is told when everybody else has been */
	bool killing;	 /* PID 1 will say when the tree is dead */
	char why[160];	 /* what row.error points to, if it is not a constant */
	bool signalled;
	enum execution_fault fault;
	int fault_sys;
	bool owed; /* its descriptors are on their way */
	uint32_t pid;
	uint64_t started_ns;
	uint64_t paused_before_ms; /* of its session, then */
	struct loop_timer late;	   /* execution_deadline.c */
	struct output_log log;
	struct output_mask mask[2]; /* of stdout and stderr */
	bool exiting;		    /* `exit` came, and `due` of its output is being moved */
	struct agent_event exit;
	uint64_t due[2]; /* log.said then, and what was in the pipes */
	struct job drain;
	unsigned drain_pieces;
	struct loop_timer hold_timer;
	struct completions when_ended, when_dead, when_room;
	struct execution_follower *followers;
	struct loop_task tell; /* followers */
};

extern const struct live_cell_events core_orphan_events;

/* Before anything is ended because of the wall clock: was the clock set? */
void core_check_clock(struct core *c);

/* Wall clock in milliseconds. */
uint64_t core_now_ms(void);

/* session_states.c: may a session go from one state to another? */
bool session_states_allow(enum session_state from, enum session_state to);

/* session_spec.c: defaults and maxima of the configuration and the tenant; fills the row's
 * settings. The texts of the spec are copied into *ret_texts, which the row points into. */
int session_spec_check(const struct core *c, const struct session_spec *spec,
		       struct store_session *row, char **ret_texts, struct err *e) MUST_USE;

/* session_spec.c: what the keeper is asked to make of a row. */
int session_spec_plan(const struct core *c, const struct store_session *row,
		      struct keeper_create *ret, struct err *e) MUST_USE;

/* quota.c: may this session be now? 0: yes, and it is counted; 1: not now, it may wait; -1: no,
 * and when to ask again. */
int quota_admit(struct session *s, unsigned *ret_retry_s, struct err *e) MUST_USE;
void quota_count(struct session *s);
void quota_release(struct session *s);
/* Lets waiting ones in, in turn of their tenants, as far as there is room. */
void quota_serve_queues(struct core *c);
void quota_turn(struct loop_timer *t);
/* All of a tenant's that wait. */
void quota_refuse_all(struct tenant *t, const struct err *e);
void quota_queue(struct session *s);
void quota_unqueue(struct session *s);
uint64_t quota_queue_ms(const struct session *s);

/* key_quota.c: may the tenant make one more key? */
int key_quota_check(struct core *c, struct tenant *t, struct err *e) MUST_USE;

/* retention.c: begins to delete what is too old or too much, if it is not at it. */
void retention_start(struct core *c);
void retention_count_event(struct core *c);

/* session_lifecycle.c */
extern const struct live_cell_events session_cell_events;
void session_begin(struct session *s); /* admitted: claim a cell or have one made */
void session_stop(struct session *s, enum session_reason reason, const char *detail);
void session_stopped(struct session *s); /* nothing of its cell is left */
void session_adopted(struct session *s);
void session_plan_timer(struct session *s);
/* session_pause.c */
void session_pause_by_itself(struct session *s);
void session_freeze_again(struct session *s);
void session_thaw_again(struct session *s);
/* It runs, and what runs in it is known: after a restart of ours only PID 1 can say that, and until
 * it has, every process would seem to be gone to whoever asks for it. */
bool session_usable(const struct session *s);
void session_touch(struct session *s);
int session_save(struct session *s, enum session_state to, enum session_reason reason,
		 struct err *e) MUST_USE;
void session_retry_save(struct session *s);
void session_list_in(struct session *s);
void session_free(struct session *s);
struct session *session_by_id(struct core *c, const char *id);

/* session_policy.c: a document of policy_select.h: its own, or the default. */
const char *session_choice(const struct session *s);
/* All layers, merged. The caller frees *ret. */
int session_policy(const struct session *s, char **ret, struct err *e) MUST_USE;
int session_policy_setup(struct core *c, struct err *e) MUST_USE;

struct session *session_restore(struct core *c, struct tenant *t, const char *id,
				struct err *e) MUST_USE;

/* secret.c: at the start, values that another key sealed are sealed anew; once a second, those
 * whose time is over are taken away. */
int secret_start(struct core *c, struct err *e) MUST_USE;
void secret_chores(struct core *c);
/* Deletes one of the tenant's; false: there is none, or it could not. */
bool secret_delete_one(struct core *c, const struct tenant *t);
/* secret_egress.c: checks the secrets of a new session, and gives it placeholders. */
int secret_settle(struct session *s, struct err *e) MUST_USE;
/* secret_delivery.c: appends "NAME=value" strings for an execution; wiped when it is released. */
void secret_env(struct session *s, struct buf *to);
/* secret_delivery.c: its cell gets what it should have, now or when it can. Repeatable. */
void secret_bring(struct session *s);
void secret_refresh(struct session *s); /* it was resumed, or adopted */
void secret_retry(struct session *s);	/* once a second */
/* Has the cell what it should have from the start? */
bool secret_is_ready(const struct session *s);
void secret_forget(struct session *s);
/* secret_egress.c: what a changed secret means for the session: its mask, then its cell. */
void secret_deliver(struct session *s);
/* secret_mask.c: what may not be seen in its output has changed. */
void secret_mask(struct session *s);

/* session_sample.c: begins to look at what all sessions use. */
void session_sample_all(struct core *c);

/* execution.c, execution_io.c */
int execution_recover(struct session *s, const struct store_execution *row, struct err *e) MUST_USE;
void execution_adopt(struct execution *x, struct live_cell *c, const struct agent_event *v);
void execution_adopt_failed(struct execution *x, struct live_cell *c, const struct agent_event *v);
void execution_lost(struct execution *x);   /* its cell is gone */
void execution_finish(struct execution *x); /* its outcome is in the row */
/* execution_deadline.c: ends it here, whatever PID 1 does: it timed out, or failed for a reason (a
 * constant). Its tree is killed. */
void execution_give_up(struct execution *x, bool timed_out, const char *why);
/* execution_deadline.c: it was asked for, or has started: PID 1 has its time for what comes next.
 */
void execution_expect(struct execution *x);
void execution_retry_save(struct execution *x);
void execution_free(struct execution *x);
void execution_notify(struct execution *x);
void execution_remember(struct execution *x);
void execution_count_out(struct execution *x);
void execution_tell_followers(struct loop_task *t);
int execution_take_fds(struct execution *x, struct live_cell *c, const struct agent_event *v,
		       struct err *e) MUST_USE;
void execution_close_fds(struct execution *x);
void execution_paid(struct execution *x);
void execution_drain(struct execution *x);
void execution_drain_last(struct execution *x);
void execution_catch_up(struct execution *x);
void execution_exited(struct execution *x); /* and what it wrote is in its log */
void execution_maybe_complete(struct execution *x);
struct execution *execution_by_handle(struct session *s, uint32_t handle);

/* session_mask.c: the node's mask, of its settings. */
int session_mask_setup(struct core *c, struct err *e) MUST_USE;

/* output_quota.c: sets by how much the log may grow, having tried to make room for need bytes.
 * can_wait: later will do, if the space of logs that went before is not free yet. */
void output_quota_make(struct execution *x, uint64_t need, bool can_wait);
/* The log has grown from that size, or has shrunk. */
void output_quota_count(struct execution *x, uint64_t before);
/* Logs of so many bytes were removed with their session's record. */
void output_quota_gone(struct tenant *t, uint64_t bytes);

/* execution_kill.c: the session's cell can be asked now; or is gone, and all in it. */
void execution_kills_synced(struct session *s);
void execution_kills_lost(struct session *s);

/* tenant.c, event_log.c, core_metrics.c */
int tenant_load_all(struct core *c, struct err *e) MUST_USE;
void tenant_forget_keys(void);
/* tenant_remove.c: goes on with those that an earlier daemon was removing. */
void tenant_remove_rest(struct core *c);
void event_log_tell(struct loop_task *t);
void net_log_tell(struct loop_task *t);
void core_metrics_setup(void);

/* file_op.c: its cell is gone. */
void file_op_lost(struct file_op *op);

/* dial.c: the session is over; who waits is told, who holds keeps his connection. */
void dial_all_lost(struct session *s, const struct err *e);
