/* read_file.h - reads whole small files that cordon-egress and cordon-pull were given as
 * descriptors: they can open none themselves. Called by their main.c and channels. */
#pragma once

#include <stddef.h>

#define READ_FILE_MAX ((size_t)4 << 20)

/* From the start of the file; malloc'ed, ends in NUL. NULL: unreadable, longer than max, or with a
 * NUL inside. */
char *read_file(int fd, size_t max);
