/* restrict.h - what a new PID 1 gives up for good, and its network. Each is called once, by
 * cell_enter.c, in the order that is explained there; a failure of any ends the cell before it ran
 * anything. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "keeper_msg.h"

/* Capabilities beyond the profile's are removed for the process and all its children. file_caps:
 * root of the cell may give capabilities to files. */
int restrict_drop_caps(enum cell_profile profile, bool file_caps, struct err *e) MUST_USE;

/* These descriptors become first, first + 1, ...; -1: none is to be there. All behind them are
 * closed. cloexec: the set of numbers (1 << number) that close by exec. */
int restrict_only_fds(int *fds, unsigned n, int first, unsigned cloexec, struct err *e) MUST_USE;

/* Nothing but what lies below the current root can be opened, whatever descriptor or mount may
 * turn up; nothing outside can be signalled or reached by abstract socket. */
int restrict_landlock(struct err *e) MUST_USE;

/* The kernel's Landlock version as far as we can use it; 0: none. */
int restrict_landlock_abi(void);

/* A session keyring of its own, so that the keeper's cannot be searched. */
int restrict_keyring(struct err *e) MUST_USE;

int restrict_rlimits(uint64_t nofile, struct err *e) MUST_USE;

int restrict_no_new_privs(struct err *e) MUST_USE;

/* The profile's system-call filter, compiled at build time from syscalls.def. */
int filter_calls(enum cell_profile profile, struct err *e) MUST_USE;

/* Refuses to give a file the set-user-id or set-group-id bit. */
int filter_setid(struct err *e) MUST_USE;

/* In the new network namespace, while still allowed to: brings lo up, makes every IPv4 and IPv6
 * destination local (so that a connect is refused at once, or accepted by a listener that was put
 * there), and lets every user bind low ports. proc_sys_fd is the directory /proc/sys. */
int netns_setup(int proc_sys_fd, struct err *e) MUST_USE;

/* There, too: from now on a TCP connection to anywhere but loopback goes to the socket returned,
 * once it listens at EGRESS_PORT; until then the kernel refuses it. -1: this kernel cannot; then
 * all are refused.
 */
int netns_egress_socket(void);
