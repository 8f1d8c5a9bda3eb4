#include "lib/tlog/tlog.h"

#include <string.h>

void tlog_leaf(const void *data, size_t len, struct tlog_hash *ret)
{
	static const uint8_t kind = 0;
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, &kind, 1);
	sha256_add(&s, data, len);
	sha256_end(&s, ret->bytes);
}

void tlog_node(const struct tlog_hash *left, const struct tlog_hash *right, struct tlog_hash *ret)
{
	uint8_t bytes[1 + 2 * TLOG_HASH] = { 1 };

	memcpy(bytes + 1, left->bytes, TLOG_HASH);
	memcpy(bytes + 1 + TLOG_HASH, right->bytes, TLOG_HASH);
	sha256_of(bytes, sizeof(bytes), ret->bytes);
}

void tlog_empty(struct tlog_hash *ret)
{
	sha256_of("", 0, ret->bytes);
}

/* ---- a tree that grows */

bool tlog_range_add(struct tlog_range *r, unsigned level, const struct tlog_hash *hash)
{
	struct tlog_hash sum = *hash;
	uint64_t leaves;

	if (level >= TLOG_LEVELS)
		return false;
	leaves = (uint64_t)1 << level;
	if ((r->size & (leaves - 1)) != 0 || leaves > TLOG_SIZE_MAX - r->size)
		return false;
	for (; (r->size >> level & 1) != 0; level++)
		tlog_node(&r->nodes[level], &sum, &sum);
	r->nodes[level] = sum;
	r->size += leaves;
	return true;
}

void tlog_range_root(const struct tlog_range *r, struct tlog_hash *ret)
{
	bool begun = false;

	tlog_empty(ret);
	for (unsigned level = 0; level < TLOG_LEVELS; level++) {
		if ((r->size >> level & 1) == 0)
			continue;
		if (begun)
			tlog_node(&r->nodes[level], ret, ret);
		else
			*ret = r->nodes[level];
		begun = true;
	}
}

unsigned tlog_range_write(const struct tlog_range *r, struct tlog_hash *ret)
{
	unsigned n = 0;

	for (unsigned level = TLOG_LEVELS; level-- > 0;)
		if ((r->size >> level & 1) != 0)
			ret[n++] = r->nodes[level];
	return n;
}

bool tlog_range_read(uint64_t size, const struct tlog_hash *hashes, size_t n,
		     struct tlog_range *ret)
{
	size_t at = 0;

	if (size > TLOG_SIZE_MAX || n != (size_t)__builtin_popcountll(size))
		return false;
	*ret = (struct tlog_range){ .size = size };
	for (unsigned level = TLOG_LEVELS; level-- > 0;)
		if ((size >> level & 1) != 0)
			ret->nodes[level] = hashes[at++];
	return true;
}
