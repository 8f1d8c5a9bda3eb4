/* layers.h - the layers of the storage folder, as cordond sees them: who may write one, and when
 * one is removed. A member of struct core, which sets it up. storage_link.h does the work on disk,
 * and the rows are those of store_layer.h.
 *
 * A layer is written in this order: layers_admit() counts it and gives it an id. Cordon-storage
 * writes the directory: it is whole and on disk when cordon-storage answers. The owner writes the
 * row, its own row and its uses in one transaction. layers_settle(). A server that dies in between
 * leaves a directory without a row. Such directories are searched for by layers_collect(): after
 * recovery, when another cordon-storage comes, and when an operator asks. Those of dying rows are
 * removed after every delete. */
#pragma once

#include "daemon/disk/storage_link.h"
#include "daemon/store/store_layer.h"
#include "lib/loop/completion.h"

struct layers;

/* File systems have so many bytes for each file that they can hold, usually. So who may store so
 * many bytes may store a fair number of files. store_layer.c has this number, too. */
#define LAYERS_ENTRY_BYTES 16384U

/* A layer being written. All zeros: none. */
struct layer_writing {
	struct layer_writing *next, **link; /* list.h */
	char id[STORE_ID_MAX];
	char tenant[STORE_ID_MAX];
	uint64_t bytes, entries;  /* it may take */
	char payer[STORE_ID_MAX]; /* for whose quota a shared one counts until then. "": none */
	uint64_t paid;		  /* bytes that count so */
	uint64_t quota_left;	  /* of the tenant's bytes, with this one. UINT64_MAX: no bound */
	enum err_reason short_of; /* why this is less than was asked for. REASON_NONE: it is not */
};

/* The work of one pass over the folder. */
struct layers_collected {
	uint64_t removed; /* layers that nothing used */
	uint64_t orphans; /* directories without a row */
	uint64_t bytes;	  /* of the former */
};

#define LAYERS_GC_BATCH 64

/* A layer not kept: it may have a directory. */
struct layer_given_up {
	struct layer_given_up *next, **link; /* list.h */
	char id[STORE_ID_MAX];
};

struct layers_gc {
	struct storage_job job;
	struct loop_task go_on; /* looks for more to remove, in pieces */
	struct layers_dying {
		char id[STORAGE_ID_MAX];
		uint64_t bytes;
	} dying[LAYERS_GC_BATCH]; /* looked up together */
	unsigned ndying, at_dying;
	char next_tenant[STORE_ID_MAX + 1]; /* those of this one on are looked up next */
	struct loop_fd watch;		    /* of the list of directories */
	int pipe;			    /* owned */
	struct layer_given_up *given_up;    /* owned */
	char *names;			    /* owned: ids, each with its NUL */
	size_t names_len, at;
	char current[STORAGE_ID_MAX]; /* being removed */
	uint64_t current_bytes;
	bool running, listing, has_row;
	bool scan, scan_next, again; /* compare the folder with the rows. Once more afterwards */
	struct layers_collected now, last;
	struct completions waiters, next_waiters;
	struct loop_timer timer;
};

struct layers {
	struct loop *loop;	   /* borrowed, as the next two */
	struct store *store;	   /* */
	struct storage_link *link; /* NULL: there is no storage folder */
	int state_fd;		   /* borrowed: the state folder. -1: not looked at */
	uint64_t reserve_percent;  /* of the file system that stay free */
	struct layer_writing *writing;
	/* A tenant's quota is used up: frees up to so many bytes of its layers that it can do
	 * without, and returns how many. NULL: there are none. */
	uint64_t (*give_up)(void *arg, const char *tenant, uint64_t bytes);
	void *give_up_arg;
	struct layers_gc gc;
};

void layers_init(struct layers *l, struct loop *loop, struct store *store);
void layers_release(struct layers *l);

/* Is there room for a layer of that tenant that takes at least so many bytes? Then it is counted.
 * w has its id, and w->bytes and w->entries are its bounds: `most`, or less if there is less room.
 * It gets at most half of the disk's room, unless it needs more, so that one layer does not refuse
 * all others while it is written. max: of the tenant's layers together, where a file counts as
 * LAYERS_ENTRY_BYTES at least on average. 0: no bound. REASON_STORAGE_FULL: the disk is nearly
 * full. REASON_QUOTA_STORED: the tenant's bound. REASON_UNAVAILABLE: no cordon-storage. */
int layers_admit(struct layers *l, struct layer_writing *w, const char *tenant, uint64_t max,
		 uint64_t least, uint64_t most, struct err *e) MUST_USE;

/* The row of a layer that cordon-storage has written. */
struct store_layer layers_row(const struct layer_writing *w, const struct storage_reply *made,
			      const char *kind);

/* The row is written, or nothing will be: it is not counted any more. Repeatable. With kept = false
 * the next pass removes its directory, if it has one and no row. */
void layers_settle(struct layers *l, struct layer_writing *w, bool kept);

/* A request held this layer (STORE_LAYER_HELD), and does not any more. The next pass removes an
 * unused one. */
void layers_unhold(struct layers *l, const char *layer);
/* The same, and the pass begins. */
void layers_let_go(struct layers *l, const char *layer);

/* A tenant needs so many bytes more than its quota leaves: layers it can do without go. Return how
 * many bytes this frees. */
uint64_t layers_give_up(struct layers *l, const char *tenant, uint64_t bytes);

/* The bytes of a tenant's layers, those being written included. */
int layers_used(struct layers *l, const char *tenant, uint64_t *ret_bytes, uint64_t *ret_layers,
		struct err *e) MUST_USE;

/* Bytes of shared layers being written for a tenant. */
uint64_t layers_paid(const struct layers *l, const char *payer);

/* How many bytes may be written before the reserve is touched. */
uint64_t layers_room(const struct layers *l);
/* As above, for files. UINT64_MAX: not known, or not bounded by the file system. */
uint64_t layers_files_room(const struct layers *l);
/* REASON_STORAGE_FULL: less than this may. */
int layers_check_reserve(const struct layers *l, uint64_t bytes, struct err *e) MUST_USE;

/* The bytes of the file system that disks, and volumes, may promise one tenant without a setting:
 * half of those above the reserve when it is empty, so that both together do not fill it.
 * UINT64_MAX: its size is not known. */
uint64_t layers_tenant_share(const struct layers *l);

/* layers_gc.c: this layer is not kept. No other one is looked at: clients let captures fail as
 * often as they like. */
void layers_give_it_up(struct layers *l, const char *id);
/* Remove unused layers. scan: also directories without a row, allowed when all rows of an earlier
 * server are known. w NULL: no request waits. When w ends, gc.last tells the work done. */
void layers_collect(struct layers *l, bool scan, struct completion *w);
void layers_gc_init(struct layers *l);
void layers_gc_release(struct layers *l);
