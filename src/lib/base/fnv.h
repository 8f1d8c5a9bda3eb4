/* fnv.h - the hash FNV-1a of 64 bits: fast, and not safe against inputs chosen to collide: for
 * fingerprints, never for tables that others fill (text_hash.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FNV_START 0xcbf29ce484222325ULL

/* Add bytes to a hash that began as FNV_START. */
static inline uint64_t fnv_add(uint64_t hash, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): of numbers */
		hash = (hash ^ p[i]) * 0x100000001b3ULL;
	return hash;
}
