/* file_xattr.h - what clients keep with a file (file_meta.h), as its extended attributes
 * user.e2b.<key>. A file system, or a kernel (tmpfs before Linux 6.6), may know no such thing: then
 * there is nothing to read, and what is to be kept is refused. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "file_meta.h"
#include "err.h"

/* Storage for what is read or parsed. */
struct file_xattr {
	uint8_t bytes[FILE_META_PACKED_MAX];
	size_t len;
};

/* Lines "key=value". Empty is the empty set. */
int file_xattr_parse(const char *text, struct file_xattr *ret, struct err *e) MUST_USE;

/* All that a file or directory has; `path` leads to it, in the end over a link if it is to be
 * followed. What passes a bound, or is no text, is left out; what cannot be read is none. */
void file_xattr_read(const char *path, bool follow, struct file_xattr *ret);

/* Makes the attributes of a file exactly these. ERR_UNSUPPORTED if it cannot keep them; the path is
 * for the message. A failure may leave some of the old ones and of the new. */
int file_xattr_replace(int fd, const struct file_xattr *x, const char *path,
		       struct err *e) MUST_USE;
