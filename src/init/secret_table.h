/* secret_table.h - the secrets of a cell that cordond hands in, one table at a time, each replacing
 * the last. Pure.
 *
 *	u8 kind ('f': file, 's': socket) | name | place | owner | u32 mode | u32 length | value
 *
 * as often as there are secrets, in the layout of codec.h. place: of a file its name in
 * SECRET_TABLE_DIR, of a socket the program that may ask. owner: "": any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define SECRET_TABLE_DIR "/dev/shm/secrets"
#define SECRET_TABLE_LINK "/run/secrets" /* leads there */
#define SECRET_TABLE_SOCKET ".socket"	 /* in it: no secret is called that */
#define SECRET_TABLE_MAX 32
#define SECRET_TABLE_BYTES (4U << 20)

struct secret_table_entry {
	char kind;
	const char *name, *place, *owner; /* in the bytes that were read */
	uint32_t mode;
	const uint8_t *value;
	uint32_t len;
};

struct secret_table {
	struct secret_table_entry at[SECRET_TABLE_MAX];
	size_t n;
};

/* The table points into the bytes. ERR_INVALID if they are none: a name that is no plain one, a
 * program that is no absolute path. */
int secret_table_read(const uint8_t *bytes, size_t len, struct secret_table *ret,
		      struct err *e) MUST_USE;
