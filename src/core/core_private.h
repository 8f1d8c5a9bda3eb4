/* core_private.h - the structures of tenants, sessions, executions and the core. Only structures:
 * functions are declared in the header of the file that has them. */
#pragma once

#include "cells.h"
#include "core.h"
#include "event_log.h"
#include "execution.h"
#include "file_op.h"
#include "grant.h"
#include "live_guest.h"
#include "log_removal.h"
#include "meter.h"
#include "output_log.h"
#include "output_mask.h"
#include "pool.h"
#include "record_bounds.h"
#include "key_expiry.h"
#include "retention.h"
#include "session.h"
#include "session_sample.h"
#include "layers.h"
#include "storage_link.h"
#include "store_event.h"
#include "store_execution.h"
#include "store_key.h"
#include "store_session.h"
#include "store_tenant.h"
#include "tenant.h"

#define CORE_BUCKETS 4096

/* How far the removal of a tenant is (tenant_remove.c). */
struct tenant_removal {
	struct core *core;
	struct job job;
	unsigned bucket; /* of the table of sessions */
};

struct tenant {
	struct tenant *next;
	struct store_tenant row;
	/* the sums of the limits of its live sessions */
	uint64_t sessions, memory_bytes, disk_bytes, pids;
	uint64_t image_bytes;	/* of disk_bytes: of sessions with storage disk */
	uint64_t started_cells; /* of pools, in which its commands run; template_pools.c */
	uint64_t persistent;	/* sessions, cold ones included */
	struct record_count kept[RECORD_KINDS];
	/* token bucket, in thousandths of a session */
	uint64_t tokens_milli, tokens_at_ns;
	struct session *queue, **queue_end; /* waiting for room, oldest first */
	unsigned queued;
	struct key_use *key_uses; /* owned; key_sessions.c */
	unsigned requests;	  /* being answered */
	unsigned streams;	  /* open, see tenant_stream_open() */
	unsigned diffs;		  /* being read */
	uint64_t kept_bytes;	  /* in the logs of its executions, ended sessions' included */
	struct job_queue work;
	struct log_removal removal;
	struct tenant_removal end;
	uint64_t keys_milli, keys_at_ns;      /* token bucket of new keys, key_quota.c */
	uint64_t change_bytes, changed_at_ns; /* token bucket of bytes, change_quota.c */
	struct byte_account account;	      /* kept by src/net on its behalf */
	struct agent_account orders;	      /* that wait for PID 1 of its sessions */
	char *policy;			      /* owned: its layer; "": none */
	uint64_t policy_changes;	      /* of it, since the start */
};

struct core {
	struct loop *loop;   /* borrowed */
	struct store *store; /* borrowed */
	struct core_options o;
	struct cells cells;
	struct storage_link storage;
	struct layers layers;
	struct root_image *root_images;	    /* owned; root_images.c */
	struct memory_image *memory_images; /* owned; memory_images.c */
	struct held_memory *held_memory;    /* owned; held_memory.c */
	struct capturing *captures;	    /* borrowed; session_capture.c, as the next */
	struct loop_task next_capture;	    /* starts one that waits */
	struct storage_job disk_list;	    /* session_disk.c */
	int disk_list_fd;		    /* owned; -1: none */
	struct disk_removal *disk_removals;
	bool keeper_hung;	 /* the last keeper to go did not answer */
	bool storage_cannot;	 /* cordon-storage said at its start that it cannot work */
	bool keeper_seen;	 /* at least one has been ready */
	uint32_t keepers_wanted; /* slots whose keeper the supervisor is still to be asked for */
	int output_fd;		 /* owned: STATE/output */
	char boot_id[40];
	uint64_t started_ns;
	bool recovered, draining;
	int64_t clock_ahead_ms; /* wall clock minus monotonic clock, at the last look */

	struct session *sessions[CORE_BUCKETS];
	unsigned live;			     /* sessions, the queued ones not counted */
	uint64_t memory_bytes;		     /* promised to sessions */
	int meminfo_fd;			     /* owned */
	bool memory_short;		     /* of the machine, a second ago */
	uint64_t created_ms;		     /* of the youngest session */
	uint64_t tokens_milli, tokens_at_ns; /* of the node */

	struct tenant *tenants;
	unsigned requests;	 /* of all of them */
	unsigned diffs;		 /* being read, those of guests not counted */
	unsigned guest_diffs;	 /* the same, of guests */
	struct grant *grants;	 /* what is open because of a key */
	struct loop_task revoke; /* calls the owners of revoked grants */
	/* session_queue.c */
	unsigned queued;	       /* sessions in the queues of all tenants */
	struct tenant *next_tenant;    /* whose queue is looked at next */
	struct loop_timer queue_timer; /* serves the queues */
	struct session *stopped;       /* whose last record is to be written, session_stopped.c */
	struct loop_timer write_stopped;
	struct template_version *templates; /* all versions, see templates.h */
	uint64_t pool_hits, pool_misses;    /* of versions that are gone */
	unsigned templates_adding;	    /* trial cells under way, see template_add.c */
	struct jobs jobs;		    /* long work, tenants in turn */
	struct job_queue work;		    /* the node's own */
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
	uint64_t cell_memory_bytes; /* of all cells, at the last look */
	struct event_log_listener *listeners;
	struct loop_task notify_listeners;
	struct mask *mask;	  /* owned: the operator's patterns; NULL: none */
	struct loop_timer chores; /* once a second */
	uint64_t chores_done;
	void *parts[CORE_PARTS_MAX]; /* owned by the parts */
	struct loop_task changes;    /* session_parts.c: calls the parts for changed sessions */
};

/* An execution that ended lately, by its process id. */
#define EXECUTION_PAST 32
struct execution_past {
	uint32_t pid;
	uint64_t ended_ns;
	char id[STORE_ID_MAX];
};

struct session {
	struct session *next, **link; /* list.h: in its bucket, or in its tenant's queue */
	struct core *core;
	struct tenant *tenant;
	struct template_version *template; /* what it was made from; NULL: its row has none */
	struct template_stack *own;	   /* owned: layers above the template's; NULL: none */
	struct store_session row;
	char *texts;		  /* owned: what the row points into */
	char *network, *policy;	  /* owned: the same, after a change */
	struct store_actor actor; /* on whose behalf its state was changed last */
	struct meter meter;
	struct store_actor waker; /* on whose behalf it is resumed after a pause under way */
	struct live_cell *cell;	  /* owned; NULL before and after */
	uint64_t key_max, key_per_minute; /* of its key: key_sessions.c; 0: no limit */
	bool key_counted;
	bool counted;		      /* in the sums of core and tenant */
	bool listed;		      /* in the table of live sessions */
	struct session *next_stopped; /* in core's list */
	bool unsaved;		      /* the row could not be written; tried again every second */
	struct execution *executions;
	struct keeping *keeping;     /* owned; kept_diff.c */
	struct capturing *capturing; /* owned; session_capture.c */
	struct cooling *cooling;     /* owned; session_cold.c, as the next */
	/* NULL, or called once when it is usable, instead of ending when_running */
	void (*on_usable)(struct session *s);
	struct session_services *services; /* owned; session_service.c */
	bool prepared;		     /* the commands of its template ran before it had the cell */
	bool plain_shell;	     /* there is no bash */
	uint64_t cpu_before_us;	     /* of the cells that it had before */
	struct disk_boot *disk_boot; /* owned; session_disk.c */
	bool disk_removed;	     /* its removal was asked for */
	/* memory_images.h: what its guest was started from; "": its own, or none */
	char clone_of[STORE_LAYER_DIGEST_MAX];
	struct guest_boot *guest_boot;	    /* owned; session_guest.c, as the next */
	struct session_memory *remembering; /* borrowed: under way; session_memory.c, as the next */
	struct live_guest_call go_on;
	bool lends;		   /* changes of its memory, to children that start */
	bool cannot_save;	   /* its memory could not be saved: it is frozen instead */
	struct guest_image *image; /* what its guest begins with, until it runs; NULL: see there */
	bool goes_on;		   /* its guest began with the memory of another session */
	char source[STORE_ID_MAX]; /* which that is */
	struct reboot *reboot;	   /* owned; session_reboot.c */
	bool disk_counted;	   /* in the sums of its tenant */
	bool of_build;	   /* bounded by build_max and build_disk, not by a share of disks */
	bool cold_counted; /* the same, as one without a cell */
	struct file_op *file_ops;
	struct guest_reader *readers; /* guest_reader.c, as the next */
	struct guest_reader *still;   /* owned: its programs stand still by it; NULL: none */
	struct tree_kill *kills;      /* of ended executions, under way */
	struct dial_call *dials;      /* under way, or held by the callers */
	unsigned ndials;
	unsigned running;    /* executions not ended */
	uint64_t records;    /* of executions; 0: not counted yet, if it was restored */
	uint64_t text_bytes; /* in those records */
	uint64_t kept_bytes; /* in the logs of all of them */
	struct completions when_running, when_paused, when_over;
	struct loop_task notify_running; /* ends when_running, if it is usable */
	unsigned holds;
	uint64_t used_ns;
	struct loop_timer timer; /* the nearest of its deadlines */
	uint64_t created_ns;
	bool from_pool;
	bool restored; /* an earlier daemon has made it */
	/* counters of its cell when an execution last looked */
	uint64_t oom_seen, pids_seen, disk_seen, inodes_seen;
	uint64_t oom_last, pids_last; /* the same, as they were when they were last read */
	struct session_sample
		*samples; /* owned; a ring of up to SESSION_SAMPLES, NULL until needed */
	size_t nsamples, last_sample;
	uint64_t memory_bytes, cpu_us; /* of its cell, at the last look */
	struct execution_past *past;   /* owned; a ring of EXECUTION_PAST, NULL until needed */
	unsigned npast;
	void *parts[CORE_PARTS_MAX]; /* owned by the parts: session_parts.h */
	bool changed;		     /* on_changed of the parts is still to be called */
	bool starting;		     /* created by this daemon, and not usable yet */
	struct mask *mask;	     /* owned; NULL: the node's */
	struct {
		uint64_t at_ns;
		size_t left;
	} mask_turn;	  /* bytes of output that may be masked in the turn that began at at_ns */
	uint64_t covered; /* places in its output that were masked so far */
};

struct execution {
	struct execution *next, **link; /* list.h: of its session */
	struct session *session;
	struct store_execution row;
	char *texts;   /* owned: what the row points into */
	char *secrets; /* owned: what row.secrets points to; NULL: none, or the row's own */
	struct preparation *preparation; /* owned; execution_prepare.c */
	struct {
		void (*cut)(void *arg); /* NULL: it is no call, or it has ended */
		void *arg;
	} call; /* code_execution.c */
	struct live_program program;
	int in;			 /* owned; -1: none or not yet */
	int out[OUTPUT_STREAMS]; /* owned; -1 at the end of file, or before it runs */
	struct loop_fd watch_in, watch_out[OUTPUT_STREAMS];
	bool started; /* its descriptors have come */
	bool stdin_open, ended, complete, unsaved, killed, close_wanted, background;
	bool draining;	 /* the output before its end is being moved: it waits for no room */
	bool forget_due; /* FORGET is sent to PID 1 after all waiters were called */
	bool killing;	 /* PID 1 will say when the tree is dead */
	char why[160];	 /* what row.error points to, if it is not a constant */
	bool signalled;
	enum execution_fault fault;
	int fault_sys;
	bool owed; /* descriptors are reserved for it, execution_fds_settled() */
	uint32_t pid;
	uint64_t started_ns;
	uint64_t oom_before, pids_before; /* execution_limits.c: when it began, if `counted` */
	bool counted;
	uint64_t paused_before_ms; /* of its session, then */
	struct loop_timer late;	   /* execution_deadline.c, as the next */
	unsigned overdue;	   /* ticks since PID 1 should have ended it */
	struct output_log log;
	struct output_mask mask[OUTPUT_STREAMS];
	bool exiting; /* `exit` came, and `due` of its output is being moved */
	struct agent_event exit;
	uint64_t due[OUTPUT_STREAMS]; /* log.written then, and what was in the pipes */
	struct job drain;
	unsigned drain_pieces;
	struct loop_timer hold_timer;
	struct completions when_ended, when_dead, when_room;
	struct execution_follower *followers;
	struct loop_task notify; /* calls its followers */
};
