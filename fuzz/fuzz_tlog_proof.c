/* Proofs that a stranger gives. The input: two sizes (or an index and a size), then hashes. Sizes
 * below 64 are those of a real tree: no proof but its own may hold there. */
#include "fuzz.h"

#include "lib/tlog/tlog.h"

unsigned long fuzz_accepted;

#define LEAVES 64

static struct tlog_hash leaves[LEAVES], roots[LEAVES + 1];

static int on_node(void *arg, unsigned level, uint64_t index, struct tlog_hash *ret, struct err *e)
{
	struct tlog_range r = { 0 };

	for (uint64_t i = index << level; i < (index + 1) << level; i++)
		if (!tlog_range_add(&r, 0, &leaves[i]))
			return -1;
	tlog_range_root(&r, ret);
	return 0;
}

static void make_tree(void)
{
	struct tlog_range r = { 0 };

	tlog_empty(&roots[0]);
	for (unsigned i = 0; i < LEAVES; i++) {
		tlog_leaf(&i, sizeof(i), &leaves[i]);
		assert(tlog_range_add(&r, 0, &leaves[i]));
		tlog_range_root(&r, &roots[i + 1]);
	}
}

static void check_same(const struct tlog_proof *got, const struct tlog_proof *own)
{
	fuzz_accepted++;
	assert(got->n == own->n);
	assert(memcmp(got->hashes, own->hashes, got->n * sizeof(got->hashes[0])) == 0);
}

/* The input's proof, and the tree's own. */
static void check_tree(uint64_t a, uint64_t b, const struct tlog_proof *p)
{
	struct tlog_proof own;
	struct err e;

	if (b > LEAVES || a > b)
		return;
	if (tlog_prove_consistency(a, b, on_node, NULL, &own, &e) == 0) {
		assert(tlog_consistency_holds(a, b, &roots[a], &roots[b], &own));
		if (tlog_consistency_holds(a, b, &roots[a], &roots[b], p))
			check_same(p, &own);
	}
	if (tlog_prove_inclusion(a, b, on_node, NULL, &own, &e) == 0) {
		assert(tlog_inclusion_holds(a, b, &leaves[a], &roots[b], &own));
		if (tlog_inclusion_holds(a, b, &leaves[a], &roots[b], p))
			check_same(p, &own);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tlog_proof p = { 0 };
	struct tlog_hash first, second;
	uint64_t sizes[2];

	if (roots[1].bytes[0] == 0 && roots[2].bytes[0] == 0)
		make_tree();
	if (size < sizeof(sizes) + 2 * TLOG_HASH)
		return 0;
	memcpy(sizes, data, sizeof(sizes));
	memcpy(first.bytes, data + 16, TLOG_HASH);
	memcpy(second.bytes, data + 48, TLOG_HASH);
	for (size_t at = 80; at + TLOG_HASH <= size && p.n < TLOG_PROOF_MAX; at += TLOG_HASH)
		memcpy(p.hashes[p.n++].bytes, data + at, TLOG_HASH);
	if (tlog_consistency_holds(sizes[0], sizes[1], &first, &second, &p) ||
	    tlog_inclusion_holds(sizes[0], sizes[1], &first, &second, &p))
		assert(sizes[0] <= sizes[1] && sizes[1] <= TLOG_SIZE_MAX);
	check_tree(sizes[0], sizes[1], &p);
	return 0;
}
