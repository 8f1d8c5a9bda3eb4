/* file_user.h - the user that a built-in works for (--for), if it is not the user that it runs as:
 * relative paths begin in the home of that user, who owns new files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Set the user, by name or number in the cell's /etc/passwd. "": none. A missing user is
 * ERR_NOT_FOUND, with sys FILE_MSG_NO_USER. */
int file_user_set(const char *who, struct err *e) MUST_USE;
bool file_user_is_set(void);

/* Make a path absolute: "~", "~/x", "" and relative paths are in the user's home. ret has
 * FILE_MSG_PATH_MAX bytes. Only if a user is set. */
int file_user_path(const char *path, char *ret, struct err *e) MUST_USE;

/* The owner of new and written files. False: the owner is not to be changed. */
bool file_user_owner(uint32_t *ret_uid, uint32_t *ret_gid);

/* Set the owner of a new file. Fd may be O_PATH. Return 0, or -1 with errno. */
int file_user_give(int fd) MUST_USE;
