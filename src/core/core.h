/* core.h - what the daemon is about: tenants, sessions, executions, and the cells behind them.
 *
 * The core knows no HTTP and no JSON. It lives on the loop: calls that take time return at once and
 * end a completion later. Everything it must not forget is in the store before it is acted on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cgroups.h"
#include "completion.h"
#include "config.h"
#include "keeper_msg.h"
#include "loop.h"
#include "jobs.h"
#include "store.h"

struct core;
struct fd_budget;
struct session_part;
struct tenant;
struct seal;
struct session;

#define CORE_ROOTS_MAX 16
#define CORE_PARTS_MAX 4

/* What the supervisor prepared; see supervisor_msg.h. */
struct core_host {
	uint32_t nlayers;
	struct {
		uint32_t root; /* index of the keeper's root */
		char at[CELL_PLACE_MAX];
	} layers[CELL_LAYERS_MAX];
};

struct core_root {
	uint32_t root; /* index of the keeper's root */
	bool writable;
	char path[CELL_PATH_MAX]; /* as the operator named it */
};

struct core_options {
	const struct config *config;	  /* borrowed */
	struct cgroups cgroups;		  /* borrowed descriptors */
	struct core_host host;		  /* layers of the template "host" */
	uint32_t template_root;		  /* index of the keeper's root that is template_dir */
	char template_dir[CELL_PATH_MAX]; /* "": templates cannot be added */
	struct core_root roots[CORE_ROOTS_MAX];
	unsigned nroots;
	const char
		*node_policy; /* borrowed: the node's layer, a document of policy.h; NULL: none */
	const struct seal *seal; /* borrowed: the keys of secrets */
	/* Borrowed: what sessions are made of besides cells and executions, in the order of calls;
	 * NULL ends the list. */
	const struct session_part *parts[CORE_PARTS_MAX];
	int state_fd; /* owned by the caller: the state folder */
	int run_fd;   /* owned by the caller: the run folder */
	/* Called once, when it is fit to serve for the first time. */
	void (*ready)(void *arg);
	void *ready_arg;
	/* Called when the keeper (or cordon-egress) does not answer: another one is wanted. False:
	 * the supervisor could not be asked, and this is called again in a second; for egress, when
	 * no channel has come after its timeout. */
	bool (*replace_keeper)(void *arg, unsigned slot);
	unsigned nkeepers; /* 0: one */
	void (*replace_egress)(void *arg, unsigned slot);
	unsigned negress; /* processes of cordon-egress; 0: one */
};

/* Opens nothing by itself but what lies in the two folders. The store is open. */
struct core *core_new(struct loop *l, struct store *s, const struct core_options *o,
		      struct err *e) MUST_USE;
void core_free(struct core *c);

/* Descriptors for what comes over the supervisor's socket when there are no others. */
struct fd_reserve *core_reserve(struct core *c);

/* A keeper is there: its channel A (taken over). Also called when a new one replaces a dead one. */
int core_set_keeper(struct core *c, unsigned slot, int channel_fd, struct err *e) MUST_USE;

/* Compares the store with the cells that exist; finishes what was half done. Called when the first
 * keeper is there, and again after a failure. Sessions are usable when core_ready() says so. */
int core_recover(struct core *c, struct err *e) MUST_USE;

/* Is it fit to serve? ret_why says what is missing. */
bool core_ready(const struct core *c, const char **ret_why);

/* The same, and is everything else that sessions may need there, too? */
bool core_fit(const struct core *c, const char **ret_why);

/* The sessions of before are known again: one that is not found is not there. */
bool core_recovered(const struct core *c);

/* Called before an upgrade or an end: the pool ends. Sessions go on, and requests that are here
 * already are served to their end. */
void core_drain(struct core *c);

/* After core_drain(): are all cells gone that were to be removed? */
bool core_drained(const struct core *c);
/* How many are not gone yet. */
unsigned core_cells_ending(const struct core *c);

/* What the machine can enforce, as the keeper said; NULL before it did. */
const struct cell_restrictions *core_restrictions(const struct core *c);
const struct config *core_config(const struct core *c);
const struct core_options *core_options(const struct core *c);
struct store *core_store(struct core *c);
struct loop *core_loop(struct core *c);
uint64_t core_started_ns(const struct core *c);

/* Queues long work in a tenant's share of the loop (NULL: the node's own); see jobs.h. */
void core_job_add(struct core *c, struct tenant *t, struct job *j);
void core_job_cancel(struct core *c, struct job *j);
/* Where they are queued, for others that work on behalf of tenants (struct byte_account). */
struct jobs *core_jobs(struct core *c);

/* ---- for the folders of the core */

/* The descriptors of this process. */
struct fd_budget *core_fds(struct core *c);

/* Wall clock in milliseconds. */
uint64_t core_now_ms(void);
/* Called before anything ends because of the wall clock: if the clock was set, deadlines move with
 * it. */
void core_check_clock(struct core *c);
