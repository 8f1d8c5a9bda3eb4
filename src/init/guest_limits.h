/* guest_limits.h - limits of programs in a virtual machine: a cgroup of its kernel, whose counters
 * say which limits they have hit. See guest_boot.h. */
#pragma once

#include <stdbool.h>

#include "guest_msg.h"

/* Called once, by guest_boot(): makes the cgroup, and the rights of programs. */
int guest_limits_init(struct err *e) MUST_USE;

/* For each HELLO: pids, memory_bytes and nofile of it. Returns 0 or an errno; ENOTSUP without
 * guest_limits_init(). */
int guest_limits_set(const struct guest_hello *h);

/* Stops all programs, and returns when they stand still; or lets them go on. PID 1 and built-ins of
 * the guest are not stopped. */
int guest_limits_freeze(bool on, struct err *e) MUST_USE;

/* The same for the time in which the memory of the guest is copied, by PID 1: nothing else lets
 * programs go on until guest_limits_let_go(). others: programs have to stand still for another
 * reason, too. Both do nothing without guest_limits_init(). */
int guest_limits_hold(struct err *e) MUST_USE;
void guest_limits_let_go(bool others);

/* No program is there, nor any process that one has left. */
bool guest_limits_are_unused(void);
