/* guest_lock.h - the profile locked in a virtual machine: for its programs what the keeper makes of
 * a locked cell. One user, no capabilities, no_new_privs, the same filter of system calls; PID 1
 * itself keeps its rights, because it executes nothing. See guest_boot.h.
 *
 * A machine that is locked stays locked, and one whose programs run cannot be locked any more: so a
 * clone of a machine's memory never has programs of another profile than its session. */
#pragma once

#include "guest_msg.h"

/* For each HELLO: flags, uid and gid of it. Returns 0 or an errno: EPERM, it is locked or has
 * another user; EBUSY, programs run. */
int guest_lock_set(const struct guest_hello *h);
