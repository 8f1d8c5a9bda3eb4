/* file_entry.h - says what a file is: the record ENTRY. */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

#include "err.h"

/* The absolute path that was requested, cleaned, FILE_MSG_PATH_MAX bytes; "" if it is too long. */
void file_entry_absolute(const char *requested, char *ret);

/* Of something pinned (O_PATH) whose real path is given, and which was requested by this path. */
int file_entry_send(int pinned, const char *real, const char *requested, uint16_t flags,
		    struct err *e) MUST_USE;

/* As the first, with the size that is known better than by st_size. */
int file_entry_send_sized(int pinned, const char *real, const char *requested, uint64_t size,
			  struct err *e) MUST_USE;

/* Of an entry of a directory, not followed, of which st is known. The path is relative to a
 * directory that was requested, whose absolute path is `top` ("": not known). */
int file_entry_send_at(int dir, const char *name, const struct stat *st, const char *path,
		       const char *top, struct err *e) MUST_USE;
