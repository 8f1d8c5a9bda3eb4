/* netns.h - the network of a cell: loopback, and every address in the world is on it. */
#pragma once

#include "err.h"

/* In the new network namespace, while still allowed to: brings lo up, makes every IPv4 and IPv6
 * destination local (so that a connect is refused at once, or accepted by a listener that was put
 * there), and lets every user bind low ports. proc_sys_fd is the directory /proc/sys. */
int netns_setup(int proc_sys_fd, struct err *e) MUST_USE;
