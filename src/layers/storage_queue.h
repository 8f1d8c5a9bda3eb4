/* storage_queue.h - the requests to cordon-storage that wait, and the room for them. Used by
 * storage_link.c only. Pure.
 *
 * Every request is of a class and of a tenant ("": the server's own). A class has room for so many
 * requests at a time, and for fewer of one tenant: so the long ones of a tenant hold up neither its
 * quick ones nor those of another. When there is room, the tenant that has the fewest of the class
 * at work is next; of several, the one that was served longest ago. A tenant's own requests of one
 * class are served in their order. */
#pragma once

#include "storage_link.h"

/* Those of STORAGE_JOBS_MAX are the sum of all but the last, see storage_queue.c. */
enum storage_class {
	STORAGE_CLASS_QUICK,  /* disks, captures, volumes, memory, removals */
	STORAGE_CLASS_FILES,  /* lists of a template's files */
	STORAGE_CLASS_FOLD,   /* a session's layers become one: it may be frozen meanwhile */
	STORAGE_CLASS_LONG,   /* images: as long as they are large */
	STORAGE_CLASS_STREAM, /* as long as a client or a registry takes */
	STORAGE_CLASSES
};

enum storage_place { STORAGE_NOWHERE, STORAGE_WAITING, STORAGE_SENT, STORAGE_LOST };

/* The copy of a request with its descriptors. */
struct storage_call {
	struct storage_call *next, **link; /* list.h */
	struct storage_share *share;
	enum storage_class class;
	enum storage_place place;
	struct storage_job *job; /* NULL: cancelled */
	int fds[STORAGE_FDS_MAX];
	size_t nfds; /* owned until sent */
	uint64_t late_ns;
	size_t len;
	union storage_request r; /* len bytes of it */
};

/* A new call: in no queue, counted for the tenant. The second frees it. */
struct storage_call *storage_queue_call(struct storage_queue *q, const char *tenant,
					bool for_session, const void *request, size_t len);
void storage_queue_free(struct storage_queue *q, struct storage_call *c);

void storage_queue_init(struct storage_queue *q);
/* Takes it out of where it is, and puts it behind the others there. */
void storage_queue_move(struct storage_queue *q, struct storage_call *c, enum storage_place to);
/* The one that is to be sent next; NULL: there is no room, or none waits. */
struct storage_call *storage_queue_next(const struct storage_queue *q);
/* Calls of one place, the first of it (c NULL) or the one after c; NULL: there are no more. */
struct storage_call *storage_queue_each(const struct storage_queue *q, enum storage_place place,
					const struct storage_call *c);
