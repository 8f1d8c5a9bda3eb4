/* mounts.h - the mount system calls of the keeper. Called by the builder and by adopt.c.
 *
 * Invariant: mounts are named by descriptors. A mount is made detached, its attributes
 * are set, and only then is it attached. Paths are resolved inside of the cell's root, so links
 * that a layer or a mount brings cannot lead outside. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/kernel.h"

/* For trees of data: no devices, no set-id programs, nothing executable. */
#define MOUNTS_DATA_ONLY (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

/* One option of a new file system. Value NULL for a bare flag. */
struct mounts_option {
	const char *key, *value;
};

/* Make a detached file system. The caller owns *ret_fd. options end with a NULL key. */
int mounts_new(const char *type, const struct mounts_option *options, uint64_t attrs, int *ret_fd,
	       struct err *e) MUST_USE;

/* A detached copy of the tree at dir_fd/path ("" for dir_fd itself), with attributes added to it
 * and everything below it. The caller owns *ret_fd. */
int mounts_copy(int dir_fd, const char *path, uint64_t attrs, int *ret_fd, struct err *e) MUST_USE;

/* Add attributes to a detached tree and everything below it. */
int mounts_restrict(int fd, uint64_t attrs, struct err *e) MUST_USE;

/* Translate the tree's owners by a user namespace. Return 1 if it was done, 0 if the file system
 * has no idmapped mounts (owners that the cell does not have then show as "nobody"), -1 for other
 * errors. */
int mounts_idmap(int fd, int userns_fd, struct err *e) MUST_USE;

/* Attach a detached mount at path inside of root. */
int mounts_place(int fd, int root_fd, const char *path, struct err *e) MUST_USE;

/* Make path inside of root, parents included: an empty directory or an empty file. Parts that
 * exist are left as they are. One of the wrong kind is ERR_INVALID. New ones belong to uid:gid. */
int mounts_make_target(int root_fd, const char *path, bool directory, uint32_t uid, uint32_t gid,
		       struct err *e) MUST_USE;
