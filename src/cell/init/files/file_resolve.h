/* file_resolve.h - resolves a path to a descriptor, so that other processes cannot exchange the
 * file between check and use: either of the file itself (O_PATH, "pinned"), or of its parent
 * directory together with a name in it (a place). Called by all built-ins that work on files.
 *
 * Links are followed, as users expect, except the magic links of /proc. --within and --without are
 * compared with the resolved path, not with the path of the request. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "lib/wire/file_msg.h"

struct file_place {
	int dir; /* O_PATH. owned: a FILE_PLACE closes it at the end of its scope */
	char name[NAME_MAX + 1];
};

#define FILE_PLACE __attribute__((cleanup(file_resolve_release))) struct file_place
#define FILE_PLACE_NONE   \
	{                 \
		.dir = -1 \
	}

enum {
	FILE_PLACE_FOLLOW =
		1 << 0, /* if the last component is a link: its target, existing or not */
	FILE_PLACE_PARENTS = 1 << 1, /* make missing directories. See file_resolve_unmake() */
};

/* --within: from now on files must be at or below one of these paths, which ':' separates. */
int file_resolve_restrict(const char *list, struct err *e) MUST_USE;
/* --without: and not at or below one of these. */
int file_resolve_forbid(const char *list, struct err *e) MUST_USE;
/* May this open directory be listed? */
bool file_resolve_allows(int dir);

/* Find the place of an entry that need not exist. Its parent directory must exist, or is made
 * (FILE_PLACE_PARENTS). "/", "." and ".." have no place (ERR_INVALID). */
int file_resolve_find(const char *path, unsigned flags, struct file_place *ret,
		      struct err *e) MUST_USE;
void file_resolve_release(struct file_place *p);

/* Remove the directories that the last file_resolve_find() made, if they are empty. */
void file_resolve_unmake(void);

/* Open a file that exists with O_PATH. The caller owns the descriptor. *ret_real is its path
 * without links, FILE_MSG_PATH_MAX bytes. */
int file_resolve_open(const char *path, bool follow, char *ret_real, struct err *e) MUST_USE;

/* Check a place, without following a link. */
int file_resolve_open_at(const struct file_place *p, char *ret_real, struct err *e) MUST_USE;

/* Check the final target of a symlink. -1 if it does not exist or is not allowed. */
int file_resolve_follow(int dir, const char *link, char *ret_real) MUST_USE;

/* Open a pinned file with other flags, with the rights of the process. Return a descriptor, or -1
 * with errno. */
int file_resolve_reopen(int pinned, int flags) MUST_USE;
