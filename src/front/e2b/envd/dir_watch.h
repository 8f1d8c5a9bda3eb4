/* dir_watch.h - a watched directory: records of the cell's built-in become events of E2B's
 * contract, one or two each. The caller delivers them, by a stream (filesystem_watch.c) or when
 * polled (filesystem_watch.c). */
#pragma once

#include <jansson.h>

#include "front/e2b/envd/cell_file.h"
#include "front/e2b/envd/rpc.h"

struct dir_watch;

struct dir_watch_events {
	/* The watch is in place: changes from now on are reported. */
	void (*on_ready)(struct dir_watch *w);
	/* Can it take a record now? As in file_call.h. NULL: always. */
	bool (*has_room)(struct dir_watch *w);
	/* At most two for a record. entry may be NULL. */
	void (*on_event)(struct dir_watch *w, const char *type, const char *name,
			 const struct file_msg_entry *entry);
	/* No more events, and why. RPC_OK: the watched directory is gone. The built-in may still
	 * run: call dir_watch_release(), not from inside this callback. */
	void (*on_end)(struct dir_watch *w, enum rpc_code code, const char *why);
	/* The built-in could not watch, or ended without a reason, or the sandbox is gone. */
	void (*on_failure)(struct dir_watch *w, const struct err *e);
};

struct dir_watch {
	struct file_call call; /* first */
	struct cell_file file;
	const struct dir_watch_events *events;
	char path[FILE_MSG_PATH_MAX];
	bool recursive, entries;
	bool begun, ended;
	/* an event whose entry is in the next record */
	const char *held; /* its type. NULL: none */
	char name[FILE_MSG_PATH_MAX];
};

/* Read WatchDirRequest or CreateWatcherRequest, and the user. ERR_INVALID. */
int dir_watch_read(struct dir_watch *w, struct request *r, const json_t *message,
		   struct err *e) MUST_USE;
/* r is NULL for a watch that outlives its request. */
int dir_watch_start(struct dir_watch *w, struct request *r, struct session *s,
		    const struct dir_watch_events *events, struct err *e) MUST_USE;
void dir_watch_release(struct dir_watch *w);
/* Answer that it could not be started. */
void dir_watch_fail(struct dir_watch *w, struct request *r, const struct err *e);
/* FilesystemEvent. */
void dir_watch_shape(struct json *j, const char *member, const char *type, const char *name,
		     const struct file_msg_entry *entry);
