/* secret_table.h - parses a table of secrets that cordond sends to the built-in secrets. Pure.
 *
 * 	u8 kind ('f': file, 's': socket) | name | place | owner | u32 mode | u32 length | value
 *
 * for each secret, in the layout of codec.h. place: of a file, its name in SECRET_TABLE_DIR. For a
 * socket, the program that may read it. owner: "": any user. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define SECRET_TABLE_DIR "/dev/shm/secrets"
#define SECRET_TABLE_LINK "/run/secrets" /* a link to it */
#define SECRET_TABLE_SOCKET ".socket"	 /* in it, no valid name of a secret */
#define SECRET_TABLE_MAX 32
#define SECRET_TABLE_BYTES (4U << 20)

struct secret_table_entry {
	char kind;
	const char *name, *place, *owner; /* in the read bytes */
	uint32_t mode;
	const uint8_t *value;
	uint32_t len;
};

struct secret_table {
	struct secret_table_entry at[SECRET_TABLE_MAX];
	size_t n;
};

/* The table points into the bytes. ERR_INVALID if they are malformed, a name has a '/' or begins
 * with a dot, or a program is not an absolute path. */
int secret_table_read(const uint8_t *bytes, size_t len, struct secret_table *ret,
		      struct err *e) MUST_USE;
