/* given_fds.h - the descriptors that a program was started with, at numbers that it and its starter
 * know (wire/supervisor_msg.h). For the main.c of cordon-egress and cordon-pull. */
#pragma once

#include <stdbool.h>

#include "err.h"

struct loop;
struct resolver;

/* Looks which of the numbers from first to end - 1 were given, and marks them close-on-exec. Before
 * anything is opened: a new descriptor gets the lowest free number, which may be one of these. */
void given_fds_find(int first, int end);
bool given_fds_has(int fd);
/* The whole text of one, malloc'ed, and closes it; "" if it was not given. NULL: unreadable, or
 * longer than READ_FILE_MAX. */
char *given_fds_read(int fd) MUST_USE;
/* A resolver with the texts of these two, resolv.conf and hosts. NULL: failed. */
struct resolver *given_fds_resolver(struct loop *l, int conf_fd, int hosts_fd,
				    struct err *e) MUST_USE;
