/* hash16.h - a hash of 16 bytes, for tables of addresses. The seed of a table is secret, so that
 * clients cannot choose addresses that collide. Not a cryptographic hash. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint64_t hash16(const uint8_t bytes[16], uint64_t seed)
{
	uint64_t half[2], h;

	memcpy(half, bytes, sizeof(half));
	h = (half[0] ^ seed) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 32;
	h = (h ^ half[1]) * 0xbf58476d1ce4e5b9ULL;
	h ^= h >> 32;
	h *= 0x94d049bb133111ebULL;
	return h ^ (h >> 29);
}
