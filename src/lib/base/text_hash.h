/* text_hash.h - a hash for tables that others fill: texts of servers, cells or clients. Without its
 * seed no texts can be found that collide, and each process makes its own seed: a hash must not
 * leave it. The function is SipHash-2-4. Pure but for the seed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct text_hash_seed {
	uint64_t k[2];
};

uint64_t text_hash_seeded(const struct text_hash_seed *seed, const void *bytes, size_t n);
/* With the seed of this process. */
uint64_t text_hash(const char *text);
uint64_t text_hash_part(const char *text, size_t n);
