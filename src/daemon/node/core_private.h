/* core_private.h - the structures of tenants, sessions, executions and the core. Only structures:
 * functions are declared in the header of their file.
 *
 * Only the files of the group around struct session include it: node, tenant, execution, template,
 * guest and session. A comment behind a member names the file that changes it. "owned" members are
 * freed with their structure.
 */
#pragma once

#include "daemon/cells/cells.h"
#include "daemon/cells/live_guest.h"
#include "daemon/cells/pool.h"
#include "daemon/disk/disk_room.h"
#include "daemon/disk/image_sizes.h"
#include "daemon/disk/layers.h"
#include "daemon/disk/storage_link.h"
#include "daemon/node/core.h"
#include "daemon/output/log_removal.h"
#include "daemon/output/output_log.h"
#include "daemon/output/output_mask.h"
#include "daemon/session/session_op.h"
#include "daemon/store/store_event.h"
#include "daemon/store/store_execution.h"
#include "daemon/store/store_key.h"
#include "daemon/store/store_sample.h"
#include "daemon/store/store_session.h"
#include "daemon/store/store_tenant.h"
#include "daemon/store/store_usage.h"
#include "lib/base/byte_account.h"

#define CORE_BUCKETS 4096

/* A member of struct tenant. */
struct record_count {
	bool counted; /* if not set, rows is not known yet */
	uint64_t rows;
};

/* A member of struct session: usage not written yet, and the last written sums. */
struct meter {
	bool begun;
	uint64_t seen_ns, written_ns; /* the last call, the last write */
	uint64_t cpu_us;	      /* at the last call */
	struct store_usage_sums held; /* not written yet */
	struct store_usage_mark mark; /* the sums written so far */
};

/* The state of the job, a member of struct core. */
struct retention {
	struct job job;
	unsigned step;
	char id[STORE_ID_MAX]; /* the session in deletion. "": none */
	uint64_t after_ms;     /* when the last visited session ended, and its id */
	char after_id[STORE_ID_MAX];
};

/* Where the reports of expired keys are: each key is reported once, in the order of expiry. */
struct key_expiry {
	bool loaded;
	uint64_t after_ms; /* the last reported key: its expiry and its id */
	char after_id[STORE_ID_MAX];
	uint64_t next_ms; /* no key expires before */
};

/* The current round over all sessions, a member of struct core. */
struct sampling {
	struct job job;
	unsigned bucket;
	uint64_t memory_bytes; /* of the sessions in the buckets before */
};

/* The progress of a tenant's removal (tenant_admin.c). */
struct tenant_removal {
	struct core *core;
	struct job job;
	unsigned bucket; /* of the table of sessions */
};

/* The tenant's use of file systems with little room. */
struct tenant_room {
	uint64_t images_grown; /* of disks and volumes, in this round of session_room.c */
};

/* A tenant: its row, the sums that its quota is checked against, and its queues. It lives until its
 * removal has ended, also while no session of it is live. */
struct tenant {
	struct tenant *next;
	struct store_tenant row;
	/* the sums of its live sessions' limits */
	uint64_t sessions, memory_bytes, disk_bytes, pids;
	uint64_t image_bytes; /* of disk_bytes: of sessions with storage disk */
	struct tenant_room room;
	uint64_t started_cells; /* of pools, in which its commands run. See template_pools.c */
	uint64_t persistent;	/* sessions, cold ones included */
	struct record_count kept[RECORD_KINDS];
	/* token bucket, in thousandths of a session */
	uint64_t tokens_milli, tokens_at_ns;
	struct session *queue, **queue_end; /* waiting for room, oldest first */
	unsigned queued;
	struct key_use *key_uses; /* owned, see quota.c */
	unsigned requests;	  /* being answered */
	unsigned streams;	  /* open, see tenant_stream_open() */
	unsigned diffs;		  /* being read */
	unsigned captures;	  /* that run */
	uint64_t kept_bytes;	  /* in the logs of its executions, ended sessions' included */
	struct job_queue work;
	struct log_removal removal;
	struct tenant_removal end;
	uint64_t keys_milli, keys_at_ns;      /* token bucket of new keys, tenant_key.c */
	uint64_t change_bytes, changed_at_ns; /* token bucket of bytes, quota.c */
	struct byte_account account;	      /* kept by src/lib/net on its behalf */
	struct agent_account orders;	      /* waiting for PID 1 of its sessions */
	char *policy;			      /* owned: its layer. "": none */
	uint64_t policy_changes;	      /* of its policy, since the start */
};

/* The node. There is one in a daemon, and several in unit tests. */
struct core {
	struct loop *loop;   /* borrowed */
	struct store *store; /* borrowed */
	struct audit *audit; /* owned */
	struct core_options o;
	struct cells cells;
	struct storage_link storage;
	struct layers layers;
	struct root_image *root_images;	    /* owned, see root_images.c */
	struct memory_image *memory_images; /* owned, see memory_images.c */
	struct image_charge *image_charges; /* owned, see image_charge.c */
	struct capturing *captures;	    /* borrowed. session_capture.c has these four */
	struct loop_task next_capture;	    /* starts a waiting capture */
	unsigned captures_running;
	unsigned guest_captures;      /* of these */
	struct storage_job disk_list; /* session_disk.c */
	int disk_list_fd;	      /* owned. -1: none */
	struct disk_removal *disk_removals;
	struct {
		struct disk_room storage, state; /* of the file systems of the two folders */
		struct image_sizes sizes;
		struct loop_timer timer;
	} room;			 /* session_room.c */
	bool keeper_hung;	 /* the last lost keeper had not answered */
	bool storage_cannot;	 /* cordon-storage said at its start that it cannot work */
	bool keeper_seen;	 /* at least one has been ready */
	uint32_t keepers_wanted; /* slots for which the supervisor must still be asked for a keeper
				  */
	int output_fd;		 /* owned: STATE/output */
	char boot_id[40];
	uint64_t started_ns;
	bool recovered, draining;
	int64_t clock_ahead_ms; /* wall clock minus monotonic clock, at the last check */

	struct session *sessions[CORE_BUCKETS];
	unsigned live;			     /* sessions, without the queued ones */
	uint64_t memory_bytes;		     /* promised to sessions */
	int meminfo_fd;			     /* owned */
	bool memory_short;		     /* of the machine, a second ago */
	uint64_t created_ms;		     /* of the youngest session */
	uint64_t tokens_milli, tokens_at_ns; /* of the node */

	struct tenant *tenants;
	unsigned requests;	 /* of all of them */
	unsigned diffs;		 /* being read, without those of guests */
	unsigned guest_diffs;	 /* diffs of guests being read */
	struct grant *grants;	 /* requests and connections open by right of a key */
	struct loop_task revoke; /* calls the owners of revoked grants */
	/* session_queue.c */
	unsigned queued;	       /* sessions in the queues of all tenants */
	struct tenant *next_tenant;    /* whose queue is served next */
	struct loop_timer queue_timer; /* serves the queues */
	struct session *ended;	       /* sessions whose last record is due, session_stop.c */
	struct loop_timer write_ended;
	struct template_version *templates; /* all versions, see templates.h */
	uint64_t pool_hits, pool_misses;    /* of removed versions */
	/* template_pools.c, which makes the pools of a new version */
	void (*on_new_template)(struct template_version *v);
	unsigned templates_adding; /* trial cells in progress, see template_add.c */
	struct jobs jobs;	   /* long work, tenants in turn */
	struct job_queue work;	   /* the node's own */
	struct retention retention;
	struct key_expiry key_expiry;
	uint64_t appended[RECORD_KINDS]; /* records, since the start */
	struct {
		uint64_t at_ns;
		size_t left;
	} last_turn; /* bytes that execution_drain_last() may mask in the turn that began at at_ns
		      */
	struct removed_logs removed_logs;
	struct sampling sampling;
	uint64_t cell_memory_bytes; /* of all cells, at the last sample */
	struct event_log_listener *listeners;
	struct loop_task notify_listeners;
	struct mask *mask;	  /* owned: the operator's patterns. NULL: none */
	struct loop_timer chores; /* once a second */
	uint64_t chores_done;
	void *parts[CORE_PARTS_MAX]; /* owned by the parts */
	struct loop_task changes;    /* session_hooks.c: calls the parts for changed sessions */
};

/* A recently ended execution, by its process id. */
#define EXECUTION_PAST 32
struct execution_past {
	uint32_t pid;
	uint64_t ended_ns;
	char id[STORE_ID_MAX];
};

/* The guest of a session, and the memory that it began with. */
struct session_guest {
	struct guest_image *image; /* the memory image to begin with, until the guest runs. NULL:
				      see session_guest.h */
	/* memory_images.h: the image that it was started from. "": its own, or none */
	char clone_of[STORE_LAYER_DIGEST_MAX];
	bool from_memory;	      /* it began with the memory of another session, */
	char source[STORE_ID_MAX];    /* of this session */
	bool shares_pages;	      /* starting children map pages that this guest has changed */
	bool cannot_save;	      /* its memory could not be saved: it is frozen instead */
	struct live_guest_call go_on; /* session_memory.c */
	struct guest_reader *readers; /* guest_reader.c */
	struct guest_reader *still;   /* owned: it keeps the guest's programs stopped. NULL: none */
};

/* The sums that count the session: quota.c. */
struct session_quota {
	bool live, disk,
		cold; /* counted in core and tenant, in the disks, in the sessions without a cell */
	bool key;     /* of its key */
	uint64_t key_max, key_per_minute; /* the bounds of its key. 0: no limit */
	bool of_build; /* bounded by build_max and build_disk, not by a share of disks */
};

/* The masking of a session's output: session.c. */
struct session_output {
	struct mask *mask; /* owned. NULL: the node's */
	struct {
		uint64_t at_ns;
		size_t left;
	} turn;		  /* bytes that may be masked in the turn that began at at_ns */
	uint64_t covered; /* masked places so far */
};

/* A session's records of its executions: record_quota.c. */
struct session_records {
	uint64_t n;		     /* 0: not counted yet, if the session was restored */
	uint64_t text_bytes;	     /* in the records */
	uint64_t kept_bytes;	     /* in the logs of all executions */
	uint64_t output_bytes;	     /* the same, but removed logs still count */
	struct execution_past *past; /* owned: a ring of EXECUTION_PAST, NULL until needed */
	unsigned npast;
};

/* Counters of a cell when an execution last read them: execution_deadline.c. */
struct session_seen {
	uint64_t oom, pids, disk, inodes;
	uint64_t oom_last, pids_last; /* at the last read of the files */
};

/* session_sample.c: a ring of up to SESSION_SAMPLES. */
struct session_samples {
	struct session_sample *ring; /* owned. NULL until needed */
	size_t n, last;
};

/* A session's history not yet written: session_history.c. */
struct session_history {
	bool begun;
	uint64_t step_ms;	       /* the span of a point */
	uint64_t began_ms, written_ms; /* the begin of this one, the end of the last */
	struct store_sample point;     /* looks 0: nothing yet */
};

/* A live session, from its admission (or the queue) until its last record is written. Invariant:
 * row is the newest state, and the store has it too unless `unsaved` is set. */
struct session {
	struct session *next, **link; /* list.h: in its bucket, or in its tenant's queue */
	struct session *next_ended;   /* in core's list */
	struct core *core;
	struct tenant *tenant;
	struct template_version
		*template;	    /* the version it was made from. NULL: its row names none */
	struct template_stack *own; /* owned: layers above the template's. NULL: none */
	bool listed;		    /* in the table of live sessions */

	/* its row, and who changes it */
	struct store_session row;
	char *texts;		   /* owned: the row points into it */
	char *network, *policy;	   /* owned: the row points to them after a change */
	char *metadata;		   /* the same */
	bool unsaved;		   /* the row could not be written. Tried again every second */
	struct store_once *once;   /* owned: written with the row. NULL: none */
	struct store_actor actor;  /* on whose behalf its state changed last */
	struct session_uses *uses; /* owned. NULL: none has a record yet */
	struct store_actor waker;  /* on whose behalf it is resumed after a pause in progress */

	/* its cell */
	struct live_cell *cell; /* owned. NULL before and after */
	uint64_t created_ns;
	bool from_pool;
	bool restored;	  /* an earlier daemon has made it */
	bool starting;	  /* created by this daemon, and not usable yet */
	bool prepared;	  /* the commands of its template ran before it had the cell */
	bool plain_shell; /* there is no bash */
	struct session_guest guest;
	bool disk_removed; /* session_disk.c: its removal was requested */

	/* long operations on it. NULL: not in progress */
	struct session_op *ops[SESSION_OPS];

	/* its waiters and its deadlines */
	struct completions when_running, when_paused, when_over;
	bool pause_asked;	/* the present pause, by a client */
	unsigned pause_refused; /* by the keeper, at the end of its time, in a row */
	/* NULL, or called once when it is usable, instead of ending when_running */
	void (*on_usable)(struct session *s);
	struct loop_task notify_running; /* ends when_running, if it is usable */
	struct loop_timer timer;	 /* the nearest of its deadlines */
	/* session_lifecycle.c, as the callback of timer: end the cell, because a program outlived
	 * its timeout and PID 1 did not end it. */
	void (*on_unresponsive)(struct session *s);
	unsigned holds;
	uint64_t used_ns;

	/* How long captures have held its programs still. session_capture.c adds to it. */
	uint64_t captured_ms;

	/* the programs and requests in it */
	struct execution *executions;
	unsigned running; /* live executions */
	struct file_op *file_ops;
	struct tree_kill *kills; /* of ended executions, in progress */
	struct dial_call *dials; /* in progress, or held by the callers */
	unsigned ndials;
	struct session_records records;
	struct session_output output;

	/* its usage */
	struct session_quota quota;
	struct meter meter;
	struct session_seen seen;
	struct session_samples samples;
	struct session_history history;
	uint64_t memory_bytes, cpu_us; /* of its cell, at the last sample */
	uint64_t cpu_before_us;	       /* of its earlier cells */

	void *parts[CORE_PARTS_MAX]; /* owned by the parts: session_hooks.h */
	bool changed;		     /* on_changed of the parts is due */
};

/* The part of an execution made for a client's request: code_execution.c. */
struct execution_call {
	void (*cut)(void *arg); /* NULL: it is no call, or it has ended */
	void *arg;
	/* Numbers of live_cell_stat(), at its begin and its end. 0: not asked, or answered. */
	uint64_t begin, end;
	bool counted;		    /* `before` has the answer at its begin */
	struct agent_event before;  /* STATED */
	bool ending;		    /* `end` was asked: then it ends as `how` says */
	unsigned how;		    /* enum execution_call_outcome */
	struct loop_timer patience; /* with PID 1 */
};

/* An execution in memory: live, or ended and not yet complete. The store has its row from the start
 * on. */
struct execution {
	struct execution *next, **link; /* list.h: of its session */
	struct session *session;
	struct store_execution row;
	char *texts;   /* owned: the row points into it */
	char *secrets; /* owned: row.secrets points to it. NULL: none, or the row's own */
	struct preparation *preparation; /* owned, see execution_calls.c */
	struct execution_call call;
	struct live_program program;
	int in;			 /* owned. -1: none or not yet */
	int out[OUTPUT_STREAMS]; /* owned. -1 at the end of file, or before it runs */
	struct loop_fd watch_in, watch_out[OUTPUT_STREAMS];
	bool started; /* its descriptors have come */
	bool stdin_open, ended, complete, unsaved, killed, close_wanted, background;
	bool draining;	 /* the output before its end is being moved: it waits for no room */
	bool forget_due; /* FORGET is sent to PID 1 after all waiters were called */
	bool close_due;	 /* CLOSE_STDIN was refused by PID 1's queue */
	bool killing;	 /* PID 1 will say when the tree is dead */
	bool unkillable; /* PID 1 could not be told: the cell is to be ended */
	char why[160];	 /* row.error points to it, or to a constant */
	bool signalled;
	unsigned fault; /* enum execution_fault */
	int fault_sys;
	bool owed; /* descriptors are reserved for it, execution_fds_settled() */
	uint32_t pid;
	uint64_t started_ns;
	uint64_t oom_before,
		pids_before; /* execution_deadline.c: the counters at its start, if `counted` */
	bool counted;
	uint64_t still_before_ms; /* of its session then: paused or captured */
	struct loop_timer late;	  /* execution_deadline.c has it and the next */
	unsigned overdue;	  /* ticks since PID 1 should have ended it */
	uint64_t dead_by_ms;	  /* a client's kill must have worked by then. 0: no kill waits */
	unsigned kill_ticks;	  /* since then */
	bool is_dead;		  /* it is, and PID 1 has not reported its exit */
	bool leftovers;		  /* timed out: what its program left behind is being killed */
	unsigned leftover_ticks;  /* since that should be done */
	struct output_log log;
	struct {
		uint64_t bytes, written, at_ns; /* of the log, at the last mark, and its time */
	} marked;				/* execution_marks.c */
	struct output_mask mask[OUTPUT_STREAMS];
	uint64_t redacted[MASK_COUNTS]; /* places that closed streams had covered */
	bool exiting; /* `exit` has come, and the `due` bytes of its output are being moved */
	struct agent_event exit;
	uint64_t due[OUTPUT_STREAMS]; /* log.written at that moment, and the bytes in the pipes */
	struct job drain;
	unsigned drain_pieces;
	struct loop_timer hold_timer;
	struct completions when_ended, when_dead, when_room;
	struct execution_follower *followers;
	struct loop_task notify; /* calls its followers */
};
