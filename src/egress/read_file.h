/* read_file.h - whole small files, given as descriptors. */
#pragma once

#include <stddef.h>

#define READ_FILE_MAX ((size_t)4 << 20)

/* From its start; malloc'ed, ends in NUL. NULL: unreadable, longer than max, or with a NUL inside.
 */
char *read_file(int fd, size_t max);
