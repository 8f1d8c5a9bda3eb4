/* mounts.h - the mount calls of the keeper, all by descriptor. A mount is made detached,
 * restricted, and only then put into a tree; paths are resolved inside the cell's root and can
 * never leave it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "kernel.h"

/* Nothing of it can be executed, be a device, or change a user. */
#define MOUNTS_STILL (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

/* One option of a new file system; value NULL for a bare flag. */
struct mounts_option {
	const char *key, *value;
};

/* Makes a detached file system. The caller owns *ret_fd. options end with a NULL key. */
int mounts_new(const char *type, const struct mounts_option *options, uint64_t attrs, int *ret_fd,
	       struct err *e) MUST_USE;

/* A detached copy of the tree at dir_fd/path ("" for dir_fd itself), with attributes added to it
 * and everything below it. The caller owns *ret_fd. */
int mounts_copy(int dir_fd, const char *path, uint64_t attrs, int *ret_fd, struct err *e) MUST_USE;

/* Adds attributes to a detached tree and everything below it. */
int mounts_restrict(int fd, uint64_t attrs, struct err *e) MUST_USE;

/* Shows the tree's owners translated by a user namespace. Returns 1 if done, 0 if the file system
 * cannot (then owners outside the cell show as the overflow id, "nobody"), -1 for other errors. */
int mounts_idmap(int fd, int userns_fd, struct err *e) MUST_USE;

/* Puts a detached mount onto path inside root, which it never leaves. */
int mounts_place(int fd, int root_fd, const char *path, struct err *e) MUST_USE;

/* Makes path inside root, parents included: an empty directory or an empty file. What exists
 * already is left as it is, if it is of the right kind. New ones belong to uid:gid. */
int mounts_make_target(int root_fd, const char *path, bool directory, uint32_t uid, uint32_t gid,
		       struct err *e) MUST_USE;
