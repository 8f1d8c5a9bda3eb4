/* confine_net.h - restricts a process that only makes connections: cordon-egress and cordon-pull,
 * each with its own list of system calls (syscalls.def). Called by confine_egress.c and
 * confine_pull.c. A restriction that cannot be installed is an error; only a kernel without
 * Landlock is accepted, with a warning in the log. */
#pragma once

#include <stddef.h>

#include "err.h"

struct sock_filter;

/* Afterwards the process can open no file (Landlock), listen at no port, and make no system call
 * that the filter does not allow. Sets no new privileges. */
int confine_net(const struct sock_filter *filter, size_t n, struct err *e) MUST_USE;
