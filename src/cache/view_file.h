/* view_file.h - the file of a view: its subject, the server's headers, and the object it names.
 * Written and read by cordon-cache only, but read strictly: a file may be torn by a crash. Its name
 * is a hash of scope, registry and path, which stand in it in clear. Pure, fuzzed. */
#pragma once

#include "lib/wire/cache_msg.h"

#define VIEW_FILE_MAX 4096

struct view {
	struct cache_key key;
	struct cache_meta meta;
	uint64_t fetched_ms, size;
	uint8_t sha256[32];
};

/* The name of a view. */
void view_name(const struct cache_key *key, uint8_t ret[32]);

/* Return the length. -1: a field is too long. */
int view_file_write(const struct view *v, uint8_t ret[VIEW_FILE_MAX]) MUST_USE;
/* Strings point into the bytes. False: it is not a whole file of this form. */
bool view_file_read(const uint8_t *bytes, size_t len, struct view *ret);
