/* file_entry.h - sends the record ENTRY, which describes a file. Called by the built-ins for files.
 */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/* The requested absolute path, cleaned, FILE_MSG_PATH_MAX bytes. "" if it is too long. */
void file_entry_absolute(const char *requested, char *ret);

/* Send the entry of a file open with O_PATH (pinned). real: its path without links, requested: the
 * path of the request. */
int file_entry_send(int pinned, const char *real, const char *requested, uint16_t flags,
		    struct err *e) MUST_USE;

/* Send the entry with a size in place of st_size. */
int file_entry_send_sized(int pinned, const char *real, const char *requested, uint64_t size,
			  struct err *e) MUST_USE;

/* Send an entry of a directory, without following links. st: its status. path is relative to the
 * requested directory, whose absolute path is `top` ("": not known). */
int file_entry_send_at(int dir, const char *name, const struct stat *st, const char *path,
		       const char *top, struct err *e) MUST_USE;
