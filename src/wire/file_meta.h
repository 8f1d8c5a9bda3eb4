/* file_meta.h - what clients keep with a file: keys and values, packed into a row of bytes (each a
 * string of codec.h). In a file they are the extended attributes user.e2b.<key>. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_META_KEY_MAX 247U	  /* with NUL; the kernel's bound for the attribute's name */
#define FILE_META_TOTAL_MAX 4096U /* keys and values together, without NULs */
#define FILE_META_VALUE_MAX (FILE_META_TOTAL_MAX + 1)
#define FILE_META_PAIRS_MAX 128U
#define FILE_META_PACKED_MAX (FILE_META_TOTAL_MAX + 6 * FILE_META_PAIRS_MAX)

/* Borrowed bytes: from a message, or of the packer. {0} is none. */
struct file_meta {
	const uint8_t *bytes;
	size_t len;
};

/* Adds one behind *len bytes of ret. False, and nothing is added, if a bound would be passed, the
 * key is empty or there already. */
bool file_meta_add(uint8_t ret[FILE_META_PACKED_MAX], size_t *len, const char *key,
		   const char *value);

/* The next pair from *at, which begins at 0; strings point into the bytes. False at the end or at
 * the first thing that is malformed. */
bool file_meta_next(const struct file_meta *m, size_t *at, const char **ret_key,
		    const char **ret_value);

/* Are these bytes what file_meta_add() makes? */
bool file_meta_valid(const struct file_meta *m);
