/* watch_event_out.h - sends the events of watch.c, and opens directories of the watched tree. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "file_msg.h"

/* Remembers the directory, by path and inode. entries: an event of a file that exists is followed
 * by its ENTRY. */
int watch_event_out_begin(const char *path, bool entries, struct err *e) MUST_USE;

/* Opens a directory of the tree ("" is the top), following no link; -1 if it does not exist. */
int watch_event_out_open(const char *path, uint64_t flags) MUST_USE;

int watch_event_out(enum file_msg_what what, bool is_dir, const char *path, const char *to,
		    struct err *e) MUST_USE;

/* Reports, once, that changes below a path are not reported. */
int watch_event_out_limit(const char *path, struct err *e) MUST_USE;
