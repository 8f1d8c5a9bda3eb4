/* content.h - operations on the content of a volume, in a child of cordon-storage that is confined
 * to that volume (storage_ops.c). Files in a volume belong to a tenant, and cells change them
 * meanwhile.
 *
 * On disk a volume is a directory with two others: data, which cells mount, and new, where files
 * are written before they get their name and trees are moved to be removed. Nothing in new is
 * visible in a cell; what a killed child leaves there is removed by the next operation that uses
 * it.
 *
 * What must not change: every path is resolved below data (RESOLVE_IN_ROOT); what was resolved is
 * used by descriptor, or by a name that is not followed; only regular files are opened for reading,
 * so no pipe or device can block; no mode or owner is changed through a path. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "content_msg.h"
#include "storage_msg.h"

struct content {
	const struct storage_content *r;
	int volume;  /* O_PATH: the directory of the volume; owned by the caller, as the next two */
	int data;    /* O_PATH: its directory data */
	int out, in; /* in: -1 if it is no write */
	/* How ids of cells are stored: as storage_jail_ids(); in an image as they are. */
	bool single;
	uint32_t shift;
};

/* Does the operation of the request, and writes the answer to out. Errors are in that answer. */
void content_run(struct content *c);

/* ---- content_io.c */

/* Each fails if the reader of the answer is gone. */
int content_put(const struct content *c, const struct content_record *r) MUST_USE;
int content_put_bytes(const struct content *c, const void *bytes, size_t len) MUST_USE;
/* The ENTRY of an open file (O_PATH is enough), of which path is the path in the volume. */
int content_put_entry(const struct content *c, int fd, const char *path) MUST_USE;

/* ---- content_path.c */

/* Opens what is at a path of the volume. A link at its end is followed unless flags say otherwise;
 * all links lead to places in the volume. -1 with errno. */
int content_open(const struct content *c, const char *path, uint64_t flags) MUST_USE;

/* The directory that a path lies in, and its name there. */
struct content_place {
	int dir; /* owned: content_place_release() */
	char name[NAME_MAX + 1];
};
#define CONTENT_PLACE __attribute__((cleanup(content_place_release))) struct content_place
#define CONTENT_PLACE_NONE \
	{                  \
		.dir = -1  \
	}
void content_place_release(struct content_place *p);
/* parents: makes directories that are missing, with the owner of the request. EINVAL: the root of
 * the volume has no place. */
int content_find(const struct content *c, const char *path, bool parents, struct content_place *ret,
		 struct err *e) MUST_USE;

/* Sets "PATH: strerror(errno)" with that errno. Returns -1. */
int content_fail(struct err *e, const char *path);
/* Sets the owner; STORAGE_CONTENT_UNSET: as it is. */
int content_chown(const struct content *c, int fd, uint32_t uid, uint32_t gid) MUST_USE;
/* Owner and mode of an open file or directory, as the request has them or by default. */
int content_give(const struct content *c, int fd, mode_t mode) MUST_USE;

/* ---- the operations; each returns -1 with e if it failed */

int content_list(const struct content *c, struct err *e) MUST_USE;
int content_stat(const struct content *c, struct err *e) MUST_USE;
int content_make(const struct content *c, struct err *e) MUST_USE;
int content_change(const struct content *c, struct err *e) MUST_USE;
int content_remove(const struct content *c, struct err *e) MUST_USE;
int content_read(const struct content *c, struct err *e) MUST_USE;
int content_write(const struct content *c, struct err *e) MUST_USE;

/* ---- content_new.c: the directory new of a volume */

/* Opens it, and removes what killed children left in it. volume: O_PATH. -1 with errno. */
int content_new_open(int volume) MUST_USE;
/* Makes an empty file in it that no other child removes while it is open. */
int content_new_file(int new, char ret_name[32]) MUST_USE;
/* Makes up a name that is not used. */
void content_new_name(const char *prefix, char ret_name[32]);
