/* core.h - struct core as other files see it: its options, and what they ask of it. core_run.h has
 * the functions that set it up and run it.
 *
 * The core holds tenants, sessions, executions and the cells behind them. It knows no HTTP and no
 * JSON. It runs on cordond's loop: a call that takes time returns at once and ends a completion
 * later. What must survive a crash is written to the store before it is acted on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cgroups.h"
#include "completion.h"
#include "config.h"
#include "keeper_msg.h"
#include "supervisor_msg.h"
#include "loop.h"
#include "jobs.h"
#include "store.h"

struct core;
struct fd_budget;
struct session_part;
struct tenant;
struct seal;
struct layers;
struct storage_link;
struct session;

#define CORE_MOUNT_ROOTS_MAX 16
#define CORE_PARTS_MAX 6

/* What the supervisor prepared; see supervisor_msg.h. */
struct core_host {
	uint32_t nlayers;
	struct {
		uint32_t root; /* index of the keeper's root */
		char at[CELL_PLACE_MAX];
	} layers[CELL_LAYERS_MAX];
};

struct core_mount_root {
	uint32_t root; /* index of the keeper's root */
	bool writable;
	char path[CELL_PATH_MAX]; /* as the operator named it */
};

struct core_options {
	const struct config *config;		     /* borrowed */
	struct cgroups cgroups;			     /* borrowed descriptors */
	struct cell_level_state levels[CELL_LEVELS]; /* what this machine can do */
	int level_files[SERVE_LEVEL_FILES]; /* borrowed: what engines need; -1: not there */
	bool use_kvm;			    /* for guests of level microvm */
	char guest_key[SERVE_GUEST_KEY_MAX];
	char guest_origin[SERVE_GUEST_ORIGIN_MAX]; /* see layer_origin.h */
	struct core_host host;			   /* layers of the template "host" */
	uint64_t host_bytes;	/* of a root image of it; 0: not more than guest_root_max */
	uint32_t template_root; /* index of the keeper's root that is template_dir */
	char template_dir[CELL_PATH_MAX]; /* "": templates cannot be added */
	bool has_volumes;		  /* there is a root of volumes, */
	uint32_t volume_root;		  /* which is this one of the keeper's */
	bool has_storage;		  /* there is a storage folder, and cordon-storage */
	uint32_t storage_root;		  /* index of the keeper's root that is its layers */
	struct core_mount_root roots[CORE_MOUNT_ROOTS_MAX];
	unsigned nroots;
	const char
		*node_policy; /* borrowed: the node's layer, a document of policy.h; NULL: none */
	const struct seal *seal; /* borrowed: the keys of secrets */
	/* Borrowed: the parts of sessions that the core does not know (session_parts.h), in the
	 * order in which they are called; NULL ends the list. */
	const struct session_part *parts[CORE_PARTS_MAX];
	int state_fd; /* owned by the caller: the state folder */
	int run_fd;   /* owned by the caller: the run folder */
	/* Called once, when the core can serve requests for the first time. */
	void (*on_ready)(void *arg);
	void *arg; /* of these callbacks */
	/* Called when a keeper reports at its start that it cannot work, and none ever could. May
	 * be NULL. */
	void (*on_no_keeper)(void *arg, const struct err *e);
	/* Ask the supervisor for another keeper or cordon-egress, because the one that is there
	 * does not answer. False: it could not be asked; called again in a second. For
	 * cordon-egress the core calls again when no channel has come within its timeout. */
	bool (*replace_keeper)(void *arg, unsigned slot);
	unsigned nkeepers; /* 0: one */
	void (*replace_egress)(void *arg, unsigned slot);
	void (*replace_pull)(void *arg);    /* and for cordon-pull */
	void (*replace_cache)(void *arg);   /* and for cordon-cache */
	void (*replace_storage)(void *arg); /* likewise for cordon-storage; NULL: none is there */
	unsigned negress;		    /* processes of cordon-egress; 0: one */
};

/* ERR_UNSUPPORTED, with the reason: this server cannot make cells of that level. */
int core_level_check(const struct core *c, const struct cell_level *level, struct err *e) MUST_USE;

/* Is a keeper ready, and has recovery ended? *ret_why says what is missing. */
bool core_ready(const struct core *c, const char **ret_why);

/* Are the sessions of an earlier daemon known again? Before that a session that is not found may
 * exist. */
bool core_recovered(const struct core *c);

/* What the machine can enforce, by the last HELLO of a keeper; all zeros before the first. */
const struct cell_restrictions *core_restrictions(const struct core *c);
const struct config *core_config(const struct core *c);
const struct core_options *core_options(const struct core *c);
struct store *core_store(struct core *c);
/* What new guests are made of: layer_origin.h. */
const char *core_guest_origin(const struct core *c);
struct loop *core_loop(struct core *c);
uint64_t core_started_ns(const struct core *c);

/* Queues long work in a tenant's share of the loop (NULL: the node's own); see jobs.h. */
void core_job_add(struct core *c, struct tenant *t, struct job *j);
void core_job_cancel(struct core *c, struct job *j);
/* The queue itself, for src/net, which works on behalf of tenants (struct byte_account). */
struct jobs *core_jobs(struct core *c);

/* The layers on disk. */
struct layers *core_layers(struct core *c);
/* The channel to cordon-storage. */
struct storage_link *core_storage(struct core *c);
/* The layers of the storage folder. */
struct layers *core_layers(struct core *c);

/* The budget of this process's descriptors. */
struct fd_budget *core_fds(struct core *c);

/* Wall clock in milliseconds. */
uint64_t core_now_ms(void);
