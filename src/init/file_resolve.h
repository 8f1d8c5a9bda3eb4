/* file_resolve.h - from a path to something that cannot be exchanged any more: a descriptor of the
 * object, or of its parent directory and a name in it.
 *
 * Links on the way are followed, as users expect, but not the magic ones of /proc. --within is
 * checked against the resolved path, not against the path given. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "file_msg.h"

struct file_place {
	int dir; /* O_PATH; owned: FILE_PLACE closes it */
	char name[NAME_MAX + 1];
};

#define FILE_PLACE __attribute__((cleanup(file_resolve_release))) struct file_place
#define FILE_PLACE_NONE   \
	{                 \
		.dir = -1 \
	}

enum {
	FILE_PLACE_FOLLOW =
		1 << 0, /* if the last part is a link: where it leads, existing or not */
	FILE_PLACE_PARENTS = 1 << 1, /* make missing directories; see file_resolve_unmake() */
};

/* From now on every place must lie in one of these: real paths, separated by ':'. */
int file_resolve_restrict(const char *list, struct err *e) MUST_USE;
/* And none may lie in one of these. */
int file_resolve_forbid(const char *list, struct err *e) MUST_USE;
/* Is an open directory one that may be looked into? */
bool file_resolve_allows(int dir);

/* Finds an entry that need not exist. Its parent directory must, or is made. "/", "." and ".." name
 * no entry (ERR_INVALID). */
int file_resolve_find(const char *path, unsigned flags, struct file_place *ret,
		      struct err *e) MUST_USE;
void file_resolve_release(struct file_place *p);

/* Removes the directories that the last file_resolve_find() made, where they are still empty. */
void file_resolve_unmake(void);

/* Pins an object that exists: an O_PATH descriptor, which the caller owns, and its real path of
 * FILE_MSG_PATH_MAX bytes. */
int file_resolve_open(const char *path, bool follow, char *ret_real, struct err *e) MUST_USE;

/* The same for an entry of a place, without following. */
int file_resolve_open_at(const struct file_place *p, char *ret_real, struct err *e) MUST_USE;

/* Pins what a symlink leads to in the end, as above. -1 if that is nothing, or outside of the
 * allowed directories. */
int file_resolve_follow(int dir, const char *link, char *ret_real) MUST_USE;

/* Opens what is pinned, with the rights of the user. Returns a descriptor or -1 with errno. */
int file_resolve_reopen(int pinned, int flags) MUST_USE;
