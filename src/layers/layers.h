/* layers.h - the layers of the storage folder, as cordond sees them: who may write one, and when
 * one is removed. A member of struct core, which sets it up; storage_link.h does the work on disk,
 * and the rows are those of store_layer.h.
 *
 * A layer is written in this order: layers_admit() counts it and gives it an id; cordon-storage
 * writes the directory, which is whole and on disk when it answers; the owner writes the row, its
 * own row and its uses in one transaction; layers_settle(). A server that dies in between leaves a
 * directory without a row. Such directories, and those of dying rows, are removed by
 * layers_collect(): after recovery, after every delete, and when an operator asks. */
#pragma once

#include "completion.h"
#include "storage_link.h"
#include "store_layer.h"

struct layers;

/* File systems have so many bytes for each file that they can hold, usually; so who may store so
 * many bytes may store a fair number of files. The same number is in sql.c. */
#define LAYERS_ENTRY_BYTES 16384U

/* A layer that is being written. All zeros: none. */
struct layer_writing {
	struct layer_writing *next, **link; /* list.h */
	char id[STORE_ID_MAX];
	char tenant[STORE_ID_MAX];
	uint64_t bytes, entries;  /* it may take */
	char payer[STORE_ID_MAX]; /* for whose quota a shared one counts meanwhile; "": none */
	uint64_t paid;		  /* bytes that count so */
	uint64_t quota_left;	  /* of the tenant's bytes, with this one; UINT64_MAX: no bound */
	enum err_reason short_of; /* why that is less than was asked for; REASON_NONE: it is not */
};

/* What one pass over the folder did. */
struct layers_collected {
	uint64_t removed; /* layers that nothing used */
	uint64_t orphans; /* directories without a row */
	uint64_t bytes;	  /* of the former */
};

struct layers_gc {
	struct storage_job job;
	struct loop_fd watch; /* of the list of directories */
	int pipe;	      /* owned */
	char *names;	      /* owned: ids, each with its NUL */
	size_t names_len, at;
	char current[STORAGE_ID_MAX]; /* being removed */
	uint64_t current_bytes;
	bool running, listing, has_row;
	bool scan, scan_next, again; /* compare the folder with the rows; once more afterwards */
	struct layers_collected now, last;
	struct completions waiters, next_waiters;
	struct loop_timer timer;
};

struct layers {
	struct loop *loop;	   /* borrowed, as the next two */
	struct store *store;	   /* */
	struct storage_link *link; /* NULL: there is no storage folder */
	int state_fd;		   /* borrowed: the state folder; -1: not looked at */
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

/* Is there room for a layer of that tenant that takes at least so many bytes? Then it is counted;
 * w has its id, and w->bytes and w->entries are what it may take: `most`, or less if there is less
 * room. Of the room of the disk it gets half at most, unless it needs more, so that one layer does
 * not refuse all others while it is written. max: of the tenant's layers together, where a file
 * counts as LAYERS_ENTRY_BYTES at least on average; 0: no bound. REASON_STORAGE_FULL: the disk is
 * nearly full; REASON_QUOTA_STORED: the tenant's bound; REASON_UNAVAILABLE: no cordon-storage. */
int layers_admit(struct layers *l, struct layer_writing *w, const char *tenant, uint64_t max,
		 uint64_t least, uint64_t most, struct err *e) MUST_USE;

/* The row is written, or nothing will be: it is not counted any more. Repeatable. A directory that
 * has no row is removed by the next pass, which kept = false starts. */
void layers_settle(struct layers *l, struct layer_writing *w, bool kept);

/* A tenant needs so many bytes more than its quota leaves: what it can do without goes. Returns how
 * many bytes that frees. */
uint64_t layers_give_up(struct layers *l, const char *tenant, uint64_t bytes);

/* What a tenant's layers take, those that are being written included. */
int layers_used(struct layers *l, const char *tenant, uint64_t *ret_bytes, uint64_t *ret_layers,
		struct err *e) MUST_USE;

/* Bytes of shared layers that are being written on behalf of a tenant. */
uint64_t layers_paid(const struct layers *l, const char *payer);

/* How many bytes may be written before the reserve is touched. */
uint64_t layers_room(const struct layers *l);
/* The same for files; UINT64_MAX: not known, or not bounded by the file system. */
uint64_t layers_files_room(const struct layers *l);
/* REASON_STORAGE_FULL: less than this may. */
int layers_check_reserve(const struct layers *l, uint64_t bytes, struct err *e) MUST_USE;

/* What one tenant may be promised of the file system by disks, and by volumes, where no setting
 * says otherwise: half of what is above the reserve when it is empty, so that both together do not
 * fill it. UINT64_MAX: its size is not known. */
uint64_t layers_tenant_share(const struct layers *l);

/* layers_gc.c: removes what nothing uses; scan: also directories without a row, which is allowed
 * when all rows of an earlier server are known. w NULL: no request waits. When w ends, gc.last says
 * what was done. */
void layers_collect(struct layers *l, bool scan, struct completion *w);
void layers_gc_init(struct layers *l);
void layers_gc_release(struct layers *l);
