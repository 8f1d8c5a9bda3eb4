/* guest_limits.h - limits of programs in a virtual machine: a cgroup of its kernel, whose counters
 * say which limits they have hit. See guest_boot.h. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/own.h"
#include "lib/wire/guest_msg.h"

/* Called once, by guest_boot(): makes the cgroup, and the rights of programs. */
int guest_limits_init(struct err *e) MUST_USE;

/* For each HELLO: pids, memory_bytes and nofile of it. Return 0 or an errno. ENOTSUP without
 * guest_limits_init(). */
int guest_limits_set(const struct guest_hello *h);

/* Stop all programs, and return when they stand still, or let them continue. PID 1 and built-ins of
 * the guest are not stopped. */
int guest_limits_freeze(bool on, struct err *e) MUST_USE;

/* As above, for the time in which guest memory is copied, by PID 1: nothing else lets programs
 * continue until guest_limits_let_go(). others: programs have to stand still for another reason,
 * too. Both do nothing without guest_limits_init(). */
int guest_limits_hold(struct err *e) MUST_USE;
void guest_limits_let_go(bool others);

/* No program is there, nor any process that one has left. */
bool guest_limits_are_unused(void);

struct err;

/* In the agent: closes the descriptors that only the first process uses. */
void guest_limits_pressure_leave(void);

/* In the machine's first process, which keeps no other descriptor than the standard ones: returns
 * when process `agent`, its child, has ended. */
void guest_limits_pressure_watch(pid_t agent);
