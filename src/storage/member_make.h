/* member_make.h - makes the entry that a member of an archive describes: file, link, FIFO, and sets
 * owner, mode, attributes and time. The name must not exist in the directory. Called by what
 * unpacks archives, in a worker. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/base/err.h"
#include "lib/wire/tar_head.h"
#include "storage/storage_jail.h"
#include "storage/tar_member.h"

/* Owners from 65536 on become this one ("nobody"). */
#define MEMBER_NOBODY 65534U

/* A regular file with the body that the reader gives. */
int member_make_file(int dir, const char *name, const struct tar_member *m, struct tar_reader *r,
		     const struct storage_ids *ids, struct err *e) MUST_USE;
int member_make_symlink(int dir, const char *name, const struct tar_member *m,
			const struct storage_ids *ids, struct err *e) MUST_USE;
int member_make_fifo(int dir, const char *name, const struct tar_member *m,
		     const struct storage_ids *ids, struct err *e) MUST_USE;

/* Owner, mode, attributes and time of a directory (open for reading). */
int member_set_dir(int fd, const struct tar_member *m, const struct storage_ids *ids,
		   struct err *e) MUST_USE;

/* The time of a member. One before 1901 or beyond the year 2200 becomes the nearest within. */
struct timespec member_time(const struct tar_member *m);

/* A copy of a file of another layer, with all that belongs to it. from is open for reading. */
int member_copy(int from, const struct stat *st, int dir, const char *name, struct err *e) MUST_USE;

/* Give a directory owner, mode, attributes and time of another one. */
int member_copy_dir(int from, int to, struct err *e) MUST_USE;

/* Is this an attribute that an archive may set: user.* but not what overlay uses, file
 * capabilities, and ACLs? */
bool member_may_set(const char *attribute);

/* The blocks on disk of a file or directory with this content and these attributes: of a sparse
 * file each block with a piece in it, as an archive chooses the pieces. */
uint64_t member_bytes(const struct tar_member *m);

/* For errors of system calls: REASON_STORAGE_FULL if there is no room. */
int member_fail(struct err *e, const char *what, const char *name) MUST_USE;

/* ---- access control lists: the attributes system.posix_acl_access and _default, as the kernel
 * gives and takes them */

bool member_acl_is(const char *attribute);
/* Change the ids of one read from a stored file to those of cells. */
void member_acl_unmap(uint8_t *value, size_t len, const struct storage_ids *ids);

/* ---- the directory of a member of an archive, by its path below the layer
 *
 * The last directory is kept open, because members of one directory follow each other. For
 * untrusted paths: no link is followed, nothing above the layer is reached, nothing is made.
 *
 * Making entries changes the time of their directory. It is set back when the directory is left. */

struct member_dir {
	int top; /* borrowed: the layer */
	int fd;	 /* owned: the directory. -1 */
	char path[TAR_HEAD_PATH_MAX];
	struct timespec time;
};

void member_dir_init(struct member_dir *d, int top);

/* Go to the directory of a path. *ret_name is its last component, inside of path. */
int member_dir_enter(struct member_dir *d, const char *path, const char **ret_name,
		     struct err *e) MUST_USE;

/* Leave it, at the end, or before its own owner, mode and time are set. */
int member_dir_leave(struct member_dir *d, struct err *e) MUST_USE;

/* Open the directory of a path without entering it. The caller owns *ret_fd. */
int member_dir_open(const struct member_dir *d, const char *path, const char **ret_name,
		    int *ret_fd, struct err *e) MUST_USE;
