/* owner_finder.h - answers cordon-egress's questions which program made a connection (owner_msg.h).
 *
 * PID 1 has the socket and only waits for a question: then it starts a child, which answers this
 * and all that follow, and exits when none has come for a while. So an idle cell has no such
 * process, and neither a search nor a hostile question holds PID 1 up. Called by main.c. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Take the socket fd, in place of an earlier one. */
void owner_finder_listen(int fd);
/* The descriptor to wait for now. None while the child runs. */
struct pollfd owner_finder_poll_fd(uint64_t now_ns);
/* When to call again without an event: a child may not be started yet. 0: never. */
uint64_t owner_finder_wake_ns(uint64_t now_ns);
/* poll(2) has reported the socket. */
void owner_finder_on_ready(short revents, uint64_t now_ns);
/* A child of PID 1 has exited. Any. */
void owner_finder_on_exit(pid_t pid);
