/* file_xattr.h - metadata of files that clients set (file_meta.h): the extended attributes
 * user.e2b.<key>. Where the file system has none (tmpfs before Linux 6.6), nothing is read, and
 * setting metadata is an error. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/file_meta.h"

/* Packed pairs, as file_meta.h has them. */
struct file_xattr {
	uint8_t bytes[FILE_META_PACKED_MAX];
	size_t len;
};

/* Parse lines "key=value". "" is the empty set. */
int file_xattr_parse(const char *text, struct file_xattr *ret, struct err *e) MUST_USE;

/* Read the metadata of a file or directory. follow: if path is a link, of its target. Pairs that
 * exceed a bound or hold a NUL are left out. On failure there are none. */
void file_xattr_read(const char *path, bool follow, struct file_xattr *ret);

/* Replace the metadata of a file by these. ERR_UNSUPPORTED if the file system has no attributes.
 * The path is for the message. After a failure the file may have some old and some new pairs. */
int file_xattr_replace(int fd, const struct file_xattr *x, const char *path,
		       struct err *e) MUST_USE;
