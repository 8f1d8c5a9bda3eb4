/* core.h - struct core as other files see it: its options, and the questions that they ask it.
 * core_run.h has the functions that set it up and run it.
 *
 * The core holds tenants, sessions, executions and the cells behind them. It knows no HTTP and no
 * JSON. It runs on cordond's loop: a call that takes time returns at once and ends a completion
 * later. State that must survive a crash is written to the store before it is acted on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cell/cellctl/cgroups.h"
#include "daemon/store/store.h"
#include "lib/config/config.h"
#include "lib/loop/completion.h"
#include "lib/loop/jobs.h"
#include "lib/loop/loop.h"
#include "lib/wire/keeper_msg.h"
#include "lib/wire/supervisor_msg.h"

/* Opaque here: struct core is in core_private.h. */
struct core;
struct fd_budget;
struct session_part;
struct tenant;
struct seal;
struct layers;
struct storage_link;
struct session;
struct audit;

/* Records with a bounded number: record_quota.h. */
enum record_kind { RECORD_EVENT, RECORD_NET, RECORD_PACKAGE, RECORD_KINDS };

#define CORE_MOUNT_ROOTS_MAX 16
#define CORE_PARTS_MAX 8

/* The layers prepared by the supervisor: see supervisor_msg.h. */
struct core_host {
	uint32_t nlayers;
	struct {
		uint32_t root; /* index of the keeper's root */
		char at[CELL_PLACE_MAX];
	} layers[CELL_LAYERS_MAX];
	/* Change with the machine's packages (templates_host_changed()). */
	char name[SERVE_HOST_NAME_MAX]; /* of the first layer, for cordon-storage */
	uint64_t bytes;			/* of a root image of it. 0: not more than guest_root_max */
};

struct core_mount_root {
	uint32_t root; /* index of the keeper's root */
	bool writable;
	char path[CELL_PATH_MAX]; /* as the operator named it */
};

struct core_options {
	const struct config *config;		     /* borrowed */
	struct cgroups cgroups;			     /* borrowed descriptors */
	struct cell_level_state levels[CELL_LEVELS]; /* the abilities of this machine */
	int level_files[SERVE_LEVEL_FILES]; /* borrowed: files for the engines. -1: missing */
	bool use_kvm;			    /* for guests of level microvm */
	char guest_key[SERVE_GUEST_KEY_MAX];
	char guest_origin[SERVE_GUEST_ORIGIN_MAX]; /* see layer_origin.h */
	struct core_host host;			   /* layers of the template "host" */
	uint32_t template_root;			   /* index of the keeper's root for template_dir */
	char template_dir[CELL_PATH_MAX];	   /* "": templates cannot be added */
	bool has_volumes;			   /* there is a root of volumes, */
	uint32_t volume_root;			   /* at this index of the keeper's roots */
	bool has_storage;      /* there is a storage folder, and cordon-storage */
	uint32_t storage_root; /* index of the keeper's root for the layers */
	struct core_mount_root roots[CORE_MOUNT_ROOTS_MAX];
	unsigned nroots;
	const char
		*node_policy; /* borrowed: the node's layer, a document of policy.h. NULL: none */
	const struct seal *seal; /* borrowed: the keys of secrets */
	/* Borrowed: the parts of sessions that the core does not know (session_hooks.h), in the
	 * order of their calls. NULL ends the list. */
	const struct session_part *parts[CORE_PARTS_MAX];
	int state_fd;		   /* owned by the caller: the state folder */
	int run_fd;		   /* owned by the caller: the run folder */
	struct byte_account *held; /* borrowed: the sum of all accounts. NULL: nothing is counted */
	/* Called once, when the core can serve requests for the first time. */
	void (*on_ready)(void *arg);
	void *arg; /* of these callbacks */
	/* Called when a keeper reports at its start that it cannot work, and none ever could. May
	 * be NULL. */
	void (*on_no_keeper)(void *arg, const struct err *e);
	/* Ask the supervisor for another keeper or cordon-egress, because the present one does not
	 * answer. False: it could not be asked. Called again in a second. For cordon-egress the
	 * core calls again when no channel has come within its timeout. */
	bool (*replace_keeper)(void *arg, unsigned slot);
	unsigned nkeepers; /* 0: one */
	void (*replace_egress)(void *arg, unsigned slot);
	void (*replace_pull)(void *arg);    /* and for cordon-pull */
	void (*replace_cache)(void *arg);   /* and for cordon-cache */
	struct notary_link *notary;	    /* borrowed: the channel to cordon-notary. NULL: none */
	void (*replace_storage)(void *arg); /* and for cordon-storage. NULL: none exists */
	unsigned negress;		    /* processes of cordon-egress. 0: one */
};

/* ERR_UNSUPPORTED, with the reason: this server cannot make cells of that level. */
/* Callers: every create, and every boot of a cold session, since the server may have been started
 * with other settings since. */
int core_level_check(const struct core *c, const struct cell_level *level, struct err *e) MUST_USE;

/* Is a keeper ready, and has recovery ended? *ret_why names the missing condition. */
bool core_ready(const struct core *c, const char **ret_why);

/* May work that makes cells begin? It may also while a keeper is replaced: its requests wait for
 * the successor. REASON_UNAVAILABLE, with the missing condition. */
int core_check_ready(const struct core *c, struct err *e) MUST_USE;

/* Are the sessions of an earlier daemon known again? Before that a missing session may exist. */
bool core_recovered(const struct core *c);

/* The limits that the machine can enforce, by the last HELLO of a keeper. All zeros before the
 * first. */
const struct cell_restrictions *core_restrictions(const struct core *c);
/* The configuration of this start. It never changes while the daemon runs. */
const struct config *core_config(const struct core *c);
const struct core_options *core_options(const struct core *c);
struct store *core_store(struct core *c);
/* The audit log: audit.h. */
struct audit *core_audit(struct core *c);
/* The origin of new guests: kernel, agent and engine, see layer_origin.h. */
const char *core_guest_origin(const struct core *c);
struct loop *core_loop(struct core *c);
uint64_t core_started_ns(const struct core *c);

/* Queue long work in a tenant's share of the loop (NULL: the node's own). See jobs.h. */
/* The job runs from the loop, a piece at a time, never from inside this call. */
void core_job_add(struct core *c, struct tenant *t, struct job *j);
void core_job_cancel(struct core *c, struct job *j);
/* The queue itself, for src/lib/net, which works on behalf of tenants (struct byte_account). */
struct jobs *core_jobs(struct core *c);

/* The layers of the storage folder. */
struct layers *core_layers(struct core *c);
/* The channel to cordon-storage. */
struct storage_link *core_storage(struct core *c);
struct layers *core_layers(struct core *c);

/* The budget of this process's descriptors. */
struct fd_budget *core_fds(struct core *c);

/* Wall clock in milliseconds. */
uint64_t core_now_ms(void);
