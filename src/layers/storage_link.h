/* storage_link.h - channel D on cordond's loop: requests to cordon-storage, which keeps layers,
 * volumes and disks.
 *
 * A job is one request. Its owner has the structure, fills in done.on_done and done.arg, and calls
 * one of the functions below; done ends exactly once, from the loop. Requests wait here while
 * cordon-storage is not there, or has as many as it or their tenant may have (storage_queue.h).
 * Each has a deadline of its own that cordon-storage keeps; if it has not answered grace_ms after
 * that, it hangs: on_hung is called, and the supervisor replaces it. When it ends, the requests
 * that it has not answered end with REASON_PEER_DIED. REMOVE and LIST can then be sent again;
 * UNPACK's input is lost.
 *
 * What must not change: a job that was cancelled and still makes a layer or a disk has that
 * removed, so that nothing stays on disk without a record. */
#pragma once

#include "completion.h"
#include "storage_msg.h"

struct storage_link;
struct storage_call;

struct storage_job {
	struct completion done; /* the owner sets on_done and arg */
	/* Whose work it is: a tenant's id, read when it is asked for; NULL: the server's own. Each
	 * has a share of its own (storage_queue.h). */
	const char *tenant;
	bool for_session; /* FOLD: a session waits for it, not an image */
	/* In on_done, if there was no error: */
	struct storage_reply reply;
	int fd; /* owned by the job's owner: came with the answer; -1 */
	/* The rest is for storage_link.c only. */
	struct storage_call *call; /* NULL: none */
};

struct storage_calls {
	struct storage_call *first, **end; /* oldest first */
	unsigned n;
};

struct storage_share;

/* storage_queue.h */
struct storage_queue {
	struct storage_share *shares; /* of tenants that have calls */
	struct storage_calls sent;
	struct storage_calls lost; /* of a cordon-storage that is gone, or late: they end one by one
				    */
	unsigned at_work[8];	   /* sent, by class */
	uint64_t turn;
};

struct storage_link {
	struct loop *loop; /* borrowed */
	int sock;	   /* owned; -1: cordon-storage is not there */
	bool greeted;
	uint64_t next_job;
	uint64_t
		grace_ms; /* behind a job's own deadline; set after storage_link_init() to change */
	uint64_t greet_ns;    /* when HELLO is late */
	struct loop_fd watch; /* of sock */
	struct storage_queue calls;
	struct loop_task send;
	struct loop_timer late;
	uint64_t late_at;	 /* when it is set to; 0: it is not */
	struct storage_job look; /* storage_link_look() */
	/* As of the last answer: the file system of the storage folder. 0: not known yet. */
	uint64_t disk_bytes, disk_free, disk_files, disk_files_free;
	/* cordon-storage is ready (e is NULL), or cannot work. May be NULL. */
	void (*on_hello)(void *arg, const struct err *e);
	/* It does not answer: it is to be killed and replaced. May be NULL. */
	void (*on_hung)(void *arg);
	void *arg;
};

void storage_link_init(struct storage_link *s, struct loop *l);
/* Jobs that wait are cancelled. */
void storage_link_release(struct storage_link *s);

/* A new channel, taken over; the cordon-storage before it has ended. */
int storage_link_attach(struct storage_link *s, int sock, struct err *e) MUST_USE;
bool storage_link_is_ready(const struct storage_link *s);

/* Sends a request of any kind. The head's op and deadline_ms are set by the caller, its job number
 * here. The request is copied; the descriptors are taken over. */
void storage_link_ask(struct storage_link *s, struct storage_job *j, const void *request,
		      size_t len, const int *fds, size_t nfds);

/* Asks for the room of the disk, unless that is being asked already. */
void storage_link_look(struct storage_link *s);

/* The owner is no longer interested: done does not end. Repeatable, and allowed for a job that has
 * ended or was never begun (all zeros). */
void storage_link_cancel(struct storage_link *s, struct storage_job *j);

/* Makes a layer from the archive that comes from input, which is taken over. r: format, flags,
 * bounds, layer and what the format needs; head.deadline_ms 0: an hour. */
void storage_link_unpack(struct storage_link *s, struct storage_job *j,
			 const struct storage_unpack *r, int input);
/* The same, of a capture that must have none of the values of a file, which is taken over: see
 * STORAGE_SEARCH. -1: nothing is looked for. */
void storage_link_unpack_searched(struct storage_link *s, struct storage_job *j,
				  const struct storage_unpack *r, int input, int values);
void storage_link_remove(struct storage_link *s, struct storage_job *j, const char *layer);
/* The ids are written to fd, which is taken over: a file or the end of a pipe. */
void storage_link_list(struct storage_link *s, struct storage_job *j, int fd);
/* The layer that an image of n layers, the lowest first, needs on top. */
void storage_link_arrange(struct storage_link *s, struct storage_job *j, const char *layer,
			  const char (*lower)[STORAGE_ID_MAX], unsigned n);
/* What the archive is: see struct storage_survey. All three descriptors are taken over. */
void storage_link_survey(struct storage_link *s, struct storage_job *j, uint64_t bytes_max,
			 uint32_t reserve_percent, int archive, int spare, int result);
/* One layer from n, the lowest of a stack, the lowest first. below: STORAGE_FOLD_BOTTOM or
 * STORAGE_FOLD_HOST. The second: above an entry of template_dir. */
void storage_link_fold(struct storage_link *s, struct storage_job *j, const char *layer,
		       const char (*from)[STORAGE_ID_MAX], unsigned n, uint32_t below);
void storage_link_fold_dir(struct storage_link *s, struct storage_job *j, const char *layer,
			   const char (*from)[STORAGE_ID_MAX], unsigned n, const char *dir);
/* The root image of a stack; r: all but the head. The answer has its size, and its descriptor. The
 * second: the descriptor of one that is there. */
void storage_link_root_make(struct storage_link *s, struct storage_job *j,
			    const struct storage_root *r);
void storage_link_root_open(struct storage_link *s, struct storage_job *j, const char *layer);
/* The memory of a stopped guest to disk, as a layer of at most so many bytes: two sealed memfds,
 * which are taken over. The answer has the bytes. The second fills and seals two empty memfds;
 * copies of the descriptors stay with the caller. */
void storage_link_memory_save(struct storage_link *s, struct storage_job *j, const char *layer,
			      uint64_t bytes_max, unsigned reserve_percent, const int fds[2]);
void storage_link_memory_load(struct storage_link *s, struct storage_job *j, const char *layer,
			      const int fds[2]);
/* A copy in memory of two sealed memfds, from[], in two empty ones, to[]: it is charged to
 * cordon-storage, not to the cell that wrote them. All four are taken over. */
void storage_link_memory_copy(struct storage_link *s, struct storage_job *j, uint64_t bytes_max,
			      const int from[2], const int to[2]);
/* The same from those of n that are above the lowest `stay`. dir: of STORAGE_FOLD_DIR; else "". */
void storage_link_fold_above(struct storage_link *s, struct storage_job *j, const char *layer,
			     const char (*from)[STORAGE_ID_MAX], unsigned n, unsigned stay,
			     uint32_t below, const char *dir);
