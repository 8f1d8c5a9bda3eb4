/* build_private.h - the structures of builds that run, for the files of this folder.
 *
 *   build.c          start, cancellation, end, the log; logs and archives that nothing needs any
 * more build_request.c  requests: names, tags, sizes build_base.c     the layers that a build
 * begins with build_run.c      its phases: each step, one layer of many, start and ready command,
 * the version build_cell.c     the session that a step runs in: a command with its output, an
 * archive build_limits.c   the limits that a command hit build_cache.c    results of steps, used
 * again build_upload.c   archives of clients
 */
#pragma once

#include "daemon/disk/layers.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/file_op.h"
#include "daemon/images/build.h"
#include "daemon/images/image_pull.h"
#include "daemon/session/session.h"
#include "daemon/session/session_capture.h"
#include "daemon/store/store_execution.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/template_stack.h"
#include "lib/base/sha256.h"
#include "lib/loop/completion.h"
#include "lib/loop/jobs.h"
#include "lib/loop/loop.h"

#define BUILD_ENTRIES_MAX 10000			   /* of a log */
#define BUILD_LOG_BYTES_MAX ((size_t)4 << 20)	   /* of a log */
#define BUILD_LOGS_TENANT_MAX ((uint64_t)64 << 20) /* of all logs of a tenant. The oldest go */
#define BUILD_LINE_MAX 4096			   /* of output. Longer ones are cut into pieces */

/* For the node. */
struct builds {
	struct core *core;
	struct build *running;
	struct uploader *uploaders; /* build_upload.c, as the next */
	uint64_t uploads_begun;
	unsigned written;	/* uploads being written */
	struct loop_task admit; /* begins to write uploads that wait */
	struct job room;	/* removes the oldest uploads of tenants with too many */
	struct job gone;	/* build.c */
	int uploads;		/* the folder of archives. Owned */
	uint64_t seconds;	/* that it runs */
	bool swept;		/* what builds of an earlier daemon left was removed */
};

/* A command that runs in the build's session. */
struct build_exec {
	struct execution_follower follower;
	struct completion end;
	char id[STORE_ID_MAX];
	int log;	 /* owned. -1: not open */
	uint64_t cursor; /* in the log */
	struct buf line[2];
	bool quiet;	       /* its output is not logged */
	struct loop_task read; /* the next part of its output */
	bool ended;	       /* when all of it is read, then_exit() is called */
	int code;	       /* with this */
	/* From the row of the ended command: kept until the next one begins. */
	char limits_hit[sizeof(((struct store_execution *)NULL)->limits_hit)];
};

struct build {
	struct build *next, **link; /* of builds.running */
	struct builds *builds;
	struct core *core;
	struct tenant *tenant;
	struct store_build row; /* its texts are its own */
	struct store_actor actor;
	struct recipe recipe;
	uint64_t began_ms;
	struct loop_timer deadline;
	struct loop_task advance; /* the next thing to do, from the loop */
	void (*next_phase)(struct build *b);

	/* the log */
	uint64_t entries;
	size_t log_bytes;
	bool log_full; /* and says so */

	/* where it is */
	bool finalizing, base_done;
	unsigned step;	   /* index of the step that runs. nsteps: all are done */
	unsigned variable; /* of ENV: the next argument */
	bool fresh;	   /* this step and all that follow are not taken from the cache */
	uint8_t key[SHA256_SIZE];
	struct recipe_state state;
	struct image_pull pull;	       /* of the base */
	struct template_version *base; /* held: template_use() */
	struct template_stack stack;   /* layers above the base only */
	struct store_layer captured; /* the layer of the step that runs. id "": it left no files */

	/* the step that runs */
	struct session *making;	       /* while cell_wait waits for it */
	char session_id[STORE_ID_MAX]; /* "": there is none */
	struct completion cell_wait;   /* for the session */
	struct session_capture capture;
	struct layer_writing folding; /* build_run.c */
	struct storage_job fold;
	struct build_exec exec;
	struct build_exec start;			  /* the start command, which continues */
	struct transfer *transfer;			  /* build_cell.c's. Owned */
	bool no_disk;					  /* this machine has none for sessions */
	bool plain_shell;				  /* there is no bash */
	const char *command, *command_user, *command_cwd; /* that runs. Borrowed */
	char script[1024];				  /* a command made here */
	struct file_op *op;
	int archive;				      /* owned. -1: none */
	char archive_digest[STORE_BUILD_DIGEST_MAX];  /* in the key of the step */
	void (*then)(struct build *b);		      /* after the session is there, or captured */
	void (*then_exit)(struct build *b, int code); /* after a command */
	struct loop_timer retry;		      /* of the ready command, or of any */
	uint64_t room_until_ns;			      /* PID 1 must take a command. 0: it does */
	uint64_t ready_until_ns;
	/* From the recipe, or from the base. NULL or "": none. Own copies: a build that folds its
	 * layers lets go of the base that it began with. */
	char *start_command, *ready_command;
};

/* build_cell.c: the same command with another shell. */
void build_exec_again(struct build *b);

struct builds *builds_of(const struct core *c);

/* build_request.c */
bool build_shares_tag(const char *a, const char *b);
/* End builds that wait and share a tag (tags NULL: all), but not that of not_id. */
void build_end_waiting(struct core *c, const char *template_id, const char *tags,
		       const char *not_id, const char *reason);

/* build.c: ends it. reason NULL: it is ready, and made the version that its row names. */
void build_finish(struct build *b, const char *reason);
/* build_run.c */
void build_run(struct build *b);
/* It failed in the phase that it is in. */
void build_fail(struct build *b, const char *fmt, ...) PRINTF(2, 3);
/* Set the callbacks of the loop. */
void build_go_on(struct build *b, void (*next)(struct build *b));
/* "base", "1", ..., "finalize". */
const char *build_step_word(const struct build *b, char ret[STORE_BUILD_STEP_MAX]);

/* build_run.c: runs the step b->step, or takes it from the cache. End by build_run_next(). */
void build_step_run(struct build *b);
void build_run_next(struct build *b);
/* build_run.c: makes one layer of all, if there are too many. Then continues. */
void build_fold(struct build *b, void (*then)(struct build *b));
/* End it, and let go of the base. */
void build_fold_release(struct build *b);
/* Remove what builds of an earlier daemon have left. */
void build_fold_sweep(struct core *c);
/* build.c: continues to remove files noted as gone. */
void build_gone_start(struct core *c);
void build_gone_release(struct core *c);
/* A build of the tenant has ended: the oldest logs go if all are too large. */
void build_gone_trim(struct core *c, const char *tenant);
/* build_base.c: finds the base of the build. End by build_run_next(). */
void build_base_run(struct build *b);
/* build_run.c: after the last step. */
void build_final_run(struct build *b);

/* build_cache.c: the key of a step follows from that of the step before it. */
void build_cache_key(struct build *b, const char *const *parts, unsigned n);
/* Is the result of the step with b->key there? Then its layer is on the stack and b->state is the
 * step's result. */
bool build_cache_take(struct build *b);
/* Keep the step's result: b->captured and b->state. */
void build_cache_keep(struct build *b);
/* A tenant needs so many bytes of layers: its oldest entries go. Return how many that frees. */
uint64_t build_cache_give_up(struct core *c, const char *tenant, uint64_t bytes);
/* Delete one entry, or one upload, of a tenant being removed. false: there is none. */
bool build_cache_delete_one(struct core *c, const char *tenant);
bool build_upload_delete_one(struct core *c, const char *tenant);

/* build.c */
void build_log(struct build *b, enum build_level level, const char *fmt, ...) PRINTF(3, 4);
void build_log_text(struct build *b, enum build_level level, const char *text);
/* "[base]", "[builder 2/5]" or "[finalize]". */
const char *build_log_prefix(const struct build *b, char ret[40]);
