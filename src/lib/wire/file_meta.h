/* file_meta.h - metadata of files that clients set: pairs of key and value, packed as strings of
 * codec.h. cell/init/files/file_xattr.c stores them as extended attributes user.e2b.<key>. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_META_KEY_MAX 247U	  /* with NUL. The kernel's bound for the attribute's name */
#define FILE_META_TOTAL_MAX 4096U /* keys and values together, without NULs */
#define FILE_META_VALUE_MAX (FILE_META_TOTAL_MAX + 1)
#define FILE_META_PAIRS_MAX 128U
#define FILE_META_PACKED_MAX (FILE_META_TOTAL_MAX + 6 * FILE_META_PAIRS_MAX)

/* Packed pairs, borrowed. {0}: none. */
struct file_meta {
	const uint8_t *bytes;
	size_t len;
};

/* Add a pair behind *len bytes of ret. False, and nothing is added, if a bound would be exceeded,
 * or the key is empty or a duplicate. */
bool file_meta_add(uint8_t ret[FILE_META_PACKED_MAX], size_t *len, const char *key,
		   const char *value);

/* The next pair from *at, which begins at 0. Strings point into the bytes. False at the end or at
 * the first malformed thing. */
bool file_meta_next(const struct file_meta *m, size_t *at, const char **ret_key,
		    const char **ret_value);

/* Are these well-formed pairs within the bounds? */
bool file_meta_valid(const struct file_meta *m);
