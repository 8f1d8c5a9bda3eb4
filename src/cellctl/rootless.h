/* rootless.h - how an ordinary user's keeper gets root in a user namespace of its own: a user
 * namespace in which the user is 0 and the user's subordinate ids, if any, follow from 1 on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

/* Does this process lack what a privileged keeper needs (root, CAP_SYS_ADMIN, all ids)? */
bool rootless_needed(void);

/* The first of 65,536 ids that /etc/subuid and /etc/subgid give the user. False: there are none, or
 * the programs that would map them are not here. */
struct rootless_ranges {
	uint32_t first_uid, first_gid;
};
bool rootless_find_ranges(struct rootless_ranges *ret);

/* The user namespace of a process of ours, or the one above it: of a keeper, or of the keeper that
 * made a lingering cell, whose PID 1 this is. Only a keeper in that same namespace can adopt the
 * cell. The caller owns *ret_fd. */
int rootless_open(pid_t pid, bool above, int *ret_fd, struct err *e) MUST_USE;

/* In the child that will be the keeper: enters a namespace that rootless_open() gave. Makes only
 * system calls. */
int rootless_join(int userns_fd, struct err *e) MUST_USE;

/* In the child that will be the keeper: with its single id. Makes only system calls, so that it may
 * run after vfork. */
int rootless_enter_single(struct err *e) MUST_USE;

/* The same with ranges: the child enters and waits; the parent maps it and tells it to go on. */
int rootless_enter_mapped(int sync_fd, struct err *e) MUST_USE;
int rootless_map(pid_t child, int sync_fd, const struct rootless_ranges *r, struct err *e) MUST_USE;
