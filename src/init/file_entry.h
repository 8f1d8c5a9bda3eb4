/* file_entry.h - says what a file is: the record ENTRY. */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

#include "err.h"

/* Of something pinned (O_PATH), under the path given. */
int file_entry_say(int pinned, const char *path, uint16_t flags, struct err *e) MUST_USE;

/* Of an entry of a directory, not followed, of which st is known. */
int file_entry_say_at(int dir, const char *name, const struct stat *st, const char *path,
		      struct err *e) MUST_USE;

/* As the first, with the size that is known better than by st_size. */
int file_entry_say_sized(const struct stat *st, const char *path, uint64_t size,
			 struct err *e) MUST_USE;
