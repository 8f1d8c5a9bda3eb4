/* rootless.h - how an ordinary user's keeper becomes root of something it may be root of: a user
 * namespace in which he is 0 and his subordinate ids, if he has any, follow from 1 on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

/* Does this process lack what a privileged keeper needs (root, CAP_SYS_ADMIN, all ids)? */
bool rootless_needed(void);

/* The first of 65,536 ids that /etc/subuid and /etc/subgid give the user. False: he has none, or
 * the programs that would map them are not here. */
struct rootless_ranges {
	uint32_t first_uid, first_gid;
};
bool rootless_find_ranges(struct rootless_ranges *ret);

/* In the child that will be the keeper: with its single id. Makes only system calls, so that it may
 * run after vfork. */
int rootless_enter_single(struct err *e) MUST_USE;

/* The same with ranges: the child enters and waits; the parent maps it and tells it to go on. */
int rootless_enter_mapped(int sync_fd, struct err *e) MUST_USE;
int rootless_map(pid_t child, int sync_fd, const struct rootless_ranges *r, struct err *e) MUST_USE;
