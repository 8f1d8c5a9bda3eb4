/* rootless.h - how an ordinary user's keeper becomes root of something it may be root of. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

/* Does this process lack what a privileged keeper needs (root, CAP_SYS_ADMIN, all ids)? */
bool rootless_needed(void);

/* In the child that will be the keeper: a new user namespace, then waits until it is mapped. */
int rootless_enter(int sync_fd, struct err *e) MUST_USE;

/* In its parent: maps the child's namespace, in which the user is 0 and his subordinate ids follow
 * from 1 on. *ret_ids is how many of those there are: 0 means a single id. */
int rootless_map(pid_t child, int sync_fd, uint32_t *ret_ids, struct err *e) MUST_USE;
