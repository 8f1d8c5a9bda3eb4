/* file_user.h - for whom a built-in works (--for), if not for the user it runs as: relative paths
 * begin in that user's home, and what is made is given to that user. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

/* By name or number in the cell's /etc/passwd; "" changes nothing. Unknown: ERR_NOT_FOUND, and sys
 * is FILE_MSG_NO_USER. */
int file_user_set(const char *who, struct err *e) MUST_USE;
bool file_user_is_set(void);

/* The absolute path that is meant by one: "~", "~/x" and relative ones are in the user's home, and
 * so is "". FILE_MSG_PATH_MAX bytes. Only with a user set. */
int file_user_path(const char *path, char *ret, struct err *e) MUST_USE;

/* Who is to own what is made or written; false, and nothing is set, if that is left to the kernel.
 */
bool file_user_owner(uint32_t *ret_uid, uint32_t *ret_gid);

/* Gives what was just made to the user; any descriptor will do. 0, or -1 with errno. */
int file_user_give(int fd) MUST_USE;
