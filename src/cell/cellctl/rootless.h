/* rootless.h - user namespaces for the keepers of ordinary users: in such a namespace the user is
 * 0, and the user's subordinate ids, if there are any, are 1 and up. Called by keeper_client.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

/* Does this process lack the needs of a privileged keeper: root, CAP_SYS_ADMIN, all ids? */
bool rootless_needed(void);

/* The first of 65,536 ids that /etc/subuid and /etc/subgid assign to the user. False: there are
 * none, or newuidmap or newgidmap is not installed. */
struct rootless_ranges {
	uint32_t first_uid, first_gid;
};
bool rootless_find_ranges(struct rootless_ranges *ret);

/* Open the user namespace of a process. above: the parent of that namespace. So from a keeper, or
 * from PID 1 of a lingering cell, one gets the namespace of the keeper that made the cell. Only a
 * keeper in this namespace can work on the cell. The caller owns *ret_fd. */
int rootless_open(pid_t pid, bool above, int *ret_fd, struct err *e) MUST_USE;

/* In the child that will be the keeper: joins a namespace that rootless_open() returned. Make only
 * system calls, so that it may run after vfork(2). */
int rootless_join(int userns_fd, struct err *e) MUST_USE;

/* In that child: makes a namespace with the user's single id. Only system calls, too. */
int rootless_enter_single(struct err *e) MUST_USE;

/* Enter a namespace with ranges of ids: the child makes the namespace and waits. The parent runs
 * newuidmap(1) and newgidmap(1), and sends a byte over sync_fd. */
int rootless_enter_mapped(int sync_fd, struct err *e) MUST_USE;
int rootless_map(pid_t child, int sync_fd, const struct rootless_ranges *r, struct err *e) MUST_USE;
