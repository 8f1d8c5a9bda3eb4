/* storage_link.h - channel D on cordond's loop: requests to cordon-storage, which keeps layers,
 * volumes and disks.
 *
 * A job is one request. Its owner has the structure, fills in done.on_done and done.arg, and calls
 * one of the functions below. Done ends exactly once, from the loop. Requests wait here while
 * cordon-storage is not there, or has as many as it or their tenant may have (storage_link.h).
 * Each has a deadline of its own that cordon-storage keeps. If it has not answered grace_ms after
 * that, it hangs: on_hung is called, and the supervisor replaces it. When it ends, the requests
 * that it has not answered end with REASON_PEER_DIED. REMOVE and LIST can then be sent again.
 * UNPACK's input is lost.
 *
 * Invariant: the layer or disk that a cancelled job still makes is removed, so that nothing stays
 * on disk without a record. */
#pragma once

#include "lib/base/lanes.h"
#include "lib/channel/channel.h"
#include "lib/wire/storage_msg.h"

struct storage_link;
struct storage_call;

struct storage_job {
	struct completion done; /* the owner sets on_done and arg */
	/* Whose work it is: a tenant's id, read when it is asked for. NULL: the server's own. Each
	 * has a share of its own (storage_link.h). */
	const char *tenant;
	bool for_session; /* FOLD: a session waits for it, not an image */
	/* In on_done, if there was no error: */
	struct storage_reply reply;
	int fd; /* owned by the job's owner: came with the answer. -1 */
	/* The rest is for storage_link.c only. */
	struct storage_call *call; /* NULL: none */
};

struct storage_calls {
	struct storage_call *first, **end; /* oldest first */
	unsigned n;
};

/* Request classes. Each has room of its own, see storage_link.c. STORAGE_JOBS_MAX is the sum of all
 * but the last. */
enum storage_class {
	STORAGE_CLASS_QUICK,   /* disks, volumes, memory, removals */
	STORAGE_CLASS_CAPTURE, /* as long as the files of a session are large */
	STORAGE_CLASS_FILES,   /* lists of a template's files */
	STORAGE_CLASS_FOLD,    /* a session's layers become one: it may be frozen for that time */
	STORAGE_CLASS_LONG,    /* images: as long as they are large */
	STORAGE_CLASS_STREAM,  /* as long as a client or a registry takes */
	STORAGE_CLASSES
};

/* Sessions captured at a time (lanes_room), here and in session_capture.c. */
#define STORAGE_CAPTURES_ROOM \
	{                     \
		6, 3, 4       \
	}

/* storage_queue_call() */
struct storage_queue {
	struct lanes lanes[STORAGE_CLASSES]; /* of tenants with calls */
	struct storage_calls sent;
	struct storage_calls lost; /* of a lost cordon-storage, or late: they end one by one */
};

struct storage_link {
	struct loop *loop;	/* borrowed */
	struct channel channel; /* up while cordon-storage is there */
	bool greeted;
	uint64_t next_job;
	uint64_t
		grace_ms; /* behind a job's own deadline. Set after storage_link_init() to change */
	uint64_t greet_ns; /* when HELLO is late */
	struct storage_queue calls;
	struct loop_task send;
	struct loop_timer late;
	uint64_t late_at;	  /* when it is set to. 0: it is not */
	struct storage_job look;  /* storage_link_look() */
	uint32_t reserve_percent; /* of its file system that stay free: of FOLD. Set after init */
	/* As of the last answer: the file system of the storage folder. 0: not known yet. */
	uint64_t disk_bytes, disk_free, disk_files, disk_files_free, disk_device;
	/* cordon-storage is ready (e is NULL), or cannot work. May be NULL. */
	void (*on_hello)(void *arg, const struct err *e);
	/* It does not answer: it is to be killed and replaced. May be NULL. */
	void (*on_hung)(void *arg);
	void *arg;
};

void storage_link_init(struct storage_link *s, struct loop *l);
/* Jobs that wait are cancelled. */
void storage_link_release(struct storage_link *s);

/* A new channel, taken over. The cordon-storage before it has ended. */
int storage_link_attach(struct storage_link *s, int sock, struct err *e) MUST_USE;
bool storage_link_is_ready(const struct storage_link *s);

/* Send a request of any kind. The head's op and deadline_ms are set by the caller, its job number
 * here. The request is copied. The descriptors are taken over. */
void storage_link_ask(struct storage_link *s, struct storage_job *j, const void *request,
		      size_t len, const int *fds, size_t nfds);

/* Ask for the room of the disk, unless a request for it is open. */
void storage_link_look(struct storage_link *s);

/* The owner is no longer interested: done does not end. Repeatable, and allowed for an ended job or
 * one never begun (all zeros). */
void storage_link_cancel(struct storage_link *s, struct storage_job *j);

/* Make a layer from the archive that comes from input, taken over. r: format, flags, bounds, layer
 * and the format's own members. head.deadline_ms 0: an hour. */
void storage_link_unpack(struct storage_link *s, struct storage_job *j,
			 const struct storage_unpack *r, int input);
/* As above, from a capture that must have none of the values in a file, taken over: see
 * STORAGE_SEARCH. -1: nothing is looked for. found: taken over, see STORAGE_NAME. -1: a value is an
 * error. */
void storage_link_unpack_searched(struct storage_link *s, struct storage_job *j,
				  const struct storage_unpack *r, int input, int values, int found);
void storage_link_remove(struct storage_link *s, struct storage_job *j, const char *layer);
/* The ids are written to fd, taken over: a file or the end of a pipe. */
void storage_link_list(struct storage_link *s, struct storage_job *j, int fd);
/* The layer that an image of n layers, the lowest first, needs on top. host: struct core_host's
 * name. */
void storage_link_arrange(struct storage_link *s, struct storage_job *j, const char *layer,
			  const char (*lower)[STORAGE_ID_MAX], unsigned n, const char *host);
/* The archive's kind: see struct storage_survey. All three descriptors are taken over. */
void storage_link_survey(struct storage_link *s, struct storage_job *j, uint64_t bytes_max,
			 uint32_t reserve_percent, int archive, int spare, int result);
/* One layer from n, the lowest first: together a whole file system. */
void storage_link_fold(struct storage_link *s, struct storage_job *j, const char *layer,
		       const char (*from)[STORAGE_ID_MAX], unsigned n);
/* The root image of a stack. r: all but the head. The answer has its size, and its descriptor. The
 * second: the descriptor of an existing one. */
void storage_link_root_make(struct storage_link *s, struct storage_job *j,
			    const struct storage_root *r);
void storage_link_root_open(struct storage_link *s, struct storage_job *j, const char *layer);
/* The memory of a stopped guest to disk, as a layer of at most so many bytes: two sealed memfds,
 * taken over. The answer has the bytes. The second fills and seals two empty memfds. Copies of the
 * descriptors stay with the caller. */
void storage_link_memory_save(struct storage_link *s, struct storage_job *j, const char *layer,
			      uint64_t bytes_max, unsigned reserve_percent, const int fds[2]);
void storage_link_memory_load(struct storage_link *s, struct storage_job *j, const char *layer,
			      const int fds[2]);
/* A copy in memory of two sealed memfds, from[], in two empty ones, to[]: it is charged to
 * cordon-storage, not to the cell that wrote them. All four are taken over. */
void storage_link_memory_copy(struct storage_link *s, struct storage_job *j, uint64_t bytes_max,
			      const int from[2], const int to[2]);
/* One layer from the stack's n lowest ones except its lowest `stay`. below and base: see struct
 * storage_fold. */
void storage_link_fold_above(struct storage_link *s, struct storage_job *j, const char *layer,
			     const char (*from)[STORAGE_ID_MAX], unsigned n, unsigned stay,
			     uint32_t below, const char *dir);

/* ---- the requests to cordon-storage that wait, and the room for them. Used by
 * storage_link.c only. Pure.
 *
 * Every request is of a class and of a tenant ("": the server's own). A class has room for so many
 * requests at a time, and for fewer of one tenant: so the long ones of a tenant hold up neither its
 * quick ones nor those of another. Some more places are for tenants without any of the class: so
 * two tenants with all the others do not hold up a third. Those that wait have a lane for each
 * tenant (lib/base/lanes.h). */

enum storage_place { STORAGE_NOWHERE, STORAGE_WAITING, STORAGE_SENT, STORAGE_LOST };

/* The copy of a request with its descriptors. */
struct storage_call {
	struct lane_item lane; /* of its class, until it is answered or lost. The first member */
	struct storage_call *next, **link; /* list.h: of those sent or lost */
	enum storage_class class;
	enum storage_place place;
	struct storage_job *job; /* NULL: cancelled */
	int fds[STORAGE_FDS_MAX];
	size_t nfds; /* owned until sent */
	uint64_t late_ns;
	size_t len;
	union storage_request r; /* len bytes of it */
};

void storage_queue_init(struct storage_queue *q);
/* A new call, which waits behind the tenant's others of its class. The second frees it. */
struct storage_call *storage_queue_call(struct storage_queue *q, const char *tenant,
					bool for_session, const void *request, size_t len);
void storage_queue_free(struct storage_queue *q, struct storage_call *c);

/* Take it out of its place, and put it behind the other sent or lost ones. */
void storage_queue_move(struct storage_queue *q, struct storage_call *c, enum storage_place to);
/* The one to be sent next. NULL: there is no room, or none waits. */
struct storage_call *storage_queue_next(const struct storage_queue *q);
/* Calls of one place, the first of it (c NULL) or the one after c. NULL: there are no more. */
struct storage_call *storage_queue_each(const struct storage_queue *q, enum storage_place place,
					const struct storage_call *c);
