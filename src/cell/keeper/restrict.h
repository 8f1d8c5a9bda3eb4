/* restrict.h - the restrictions of a new PID 1, and its network: restrict.c (capabilities,
 * descriptors, Landlock, keyring, rlimits, system calls), netns.c (network).
 *
 * Called by cell_enter.c once each, in the order explained there, and in part by diff_reader.c.
 * Children inherit all of them, and no process can undo one. A failure ends the process before it
 * executes anything of the cell. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/keeper_msg.h"

/* Remove all capabilities but the profile's. file_caps: root of the cell may set capabilities of
 * files. */
int restrict_drop_caps(enum cell_profile profile, bool file_caps, struct err *e) MUST_USE;

/* Move these n descriptors to the numbers first, first + 1, .... Where one is -1 the number is
 * closed. Close all higher numbers. cloexec: set of close-on-exec numbers (1 << number). */
int restrict_only_fds(int *fds, unsigned n, int first, uint64_t cloexec, struct err *e) MUST_USE;

/* From now on only files below the current root can be opened, also through descriptors and mounts.
 * No process outside of the cell can be signalled or reached by an abstract socket. Does nothing on
 * a kernel without Landlock. */
int restrict_landlock(struct err *e) MUST_USE;

/* The kernel's Landlock version. 0: none, or one that cannot be used. */
int restrict_landlock_abi(void);

/* Join a new session keyring, so that keys of the keeper's cannot be found. */
int restrict_keyring(struct err *e) MUST_USE;

int restrict_rlimits(uint64_t nofile, struct err *e) MUST_USE;

int restrict_no_new_privs(struct err *e) MUST_USE;

/* RESTRICT_WATCHED: calls that the filter refuses with EPERM wait for the answer of the process
 * with its listener. RESTRICT_TRACED: starts and ends of programs, too. RESTRICT_CALLED: and some
 * allowed calls. */
enum restrict_watch { RESTRICT_UNWATCHED, RESTRICT_WATCHED, RESTRICT_TRACED, RESTRICT_CALLED };

/* Install the system-call filter of a profile, compiled at build time from syscalls.def. profile:
 * enum cell_profile, or CELL_PROFILES for the column "engine" of that table. *ret_listener stays -1
 * if the filter is not watched, or cannot be: then it is the plain one. */
int restrict_calls(unsigned profile, enum restrict_watch watch, int *ret_listener,
		   struct err *e) MUST_USE;

/* Install a filter that refuses to set the set-user-id and set-group-id bits of files: the filter
 * "setid" of that table. */
int restrict_setid(struct err *e) MUST_USE;

/* Set up the new network namespace: bring lo up, make every IPv4 and IPv6 destination local (so
 * that a connection is refused at once, or accepted by a listener of the cell), and let every user
 * bind ports below 1024. proc_sys_fd is the directory /proc/sys. */
int netns_setup(int proc_sys_fd, struct err *e) MUST_USE;

/* Install the packet rules of the namespace: TCP connections to all addresses but loopback go to
 * the returned socket, once it listens at AGENT_EGRESS_PORT. Until then the kernel refuses them.
 * -1: this kernel cannot redirect connections, and all of them are refused. */
int netns_egress_socket(void);
/* A netlink socket over which the kernel answers questions about sockets of the namespace
 * (sock_diag). Filters of the cell refuse to make one. PID 1 alone has this one. -1: none. */
int netns_diag_socket(void);
