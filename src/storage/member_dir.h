/* member_dir.h - the directory that a member of an archive is in, by its path below the layer. The
 * last one is kept open, because members of one directory follow each other. For untrusted paths:
 * no link is followed, nothing above the layer is reached, nothing is made. Called by
 * unpack_capture.c, in a worker.
 *
 * Making entries changes the time of their directory; it is set back when the directory is left. */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "err.h"
#include "tar_head.h"

struct member_dir {
	int top; /* borrowed: the layer */
	int fd;	 /* owned: the directory; -1 */
	char path[TAR_HEAD_PATH_MAX];
	struct timespec time;
};

void member_dir_init(struct member_dir *d, int top);

/* Goes to the directory of a path. *ret_name is the last part of it, a part of path. */
int member_dir_enter(struct member_dir *d, const char *path, const char **ret_name,
		     struct err *e) MUST_USE;

/* Leaves it, at the end, or before its own owner, mode and time are set. */
int member_dir_leave(struct member_dir *d, struct err *e) MUST_USE;

/* Opens the directory of a path without entering it. The caller owns *ret_fd. */
int member_dir_open(const struct member_dir *d, const char *path, const char **ret_name,
		    int *ret_fd, struct err *e) MUST_USE;
