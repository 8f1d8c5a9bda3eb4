/* given_fds.h - the descriptors that a program was started with, at numbers that it and its starter
 * know (lib/wire/supervisor_msg.h). For the main.c of cordon-egress and cordon-pull. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

struct loop;
struct resolver;

/* Find which of the numbers from first to end - 1 were given, and mark them close-on-exec. Before
 * anything is opened: a new descriptor gets the lowest free number, which may be one of these. */
void given_fds_find(int first, int end);
bool given_fds_has(int fd);
/* The whole text of one, malloc'ed, and closes it. "" if it was not given. NULL: unreadable, or
 * longer than READ_FILE_MAX. */
char *given_fds_read(int fd) MUST_USE;
/* A resolver with the texts of these two, resolv.conf and hosts. NULL: failed. */
struct resolver *given_fds_resolver(struct loop *l, int conf_fd, int hosts_fd,
				    struct err *e) MUST_USE;

/* ---- whole small files that came as descriptors. Called by the channels, too. */

#define READ_FILE_MAX ((size_t)4 << 20)

/* From the start of the file. Malloc'ed, ends in NUL. NULL: unreadable, longer than max, or with a
 * NUL inside. */
char *read_file(int fd, size_t max);
