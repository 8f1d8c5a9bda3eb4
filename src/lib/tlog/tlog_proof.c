/* tlog_proof.c - proofs, as RFC 6962 (section 2.1) makes them and RFC 9162 (sections 2.1.3.2 and
 * 2.1.4.2) verifies them. */
#include <string.h>

#include "lib/tlog/tlog.h"

/* The largest power of two below n. n is 2 or more. */
static uint64_t tlog_proof_split(uint64_t n)
{
	return (uint64_t)1 << (63 - __builtin_clzll(n - 1));
}

/* The reader of one tree's nodes. */
struct tlog_proof_source {
	tlog_node_fn *node;
	void *arg;
};

/* The hash of the leaves from begin to end. All but the last of its complete subtrees have the
 * right neighbours that make them one: they are read from the left, and joined from the right. */
static int tlog_proof_subtree(const struct tlog_proof_source *s, uint64_t begin, uint64_t end,
			      struct tlog_hash *ret, struct err *e)
{
	struct tlog_hash parts[TLOG_LEVELS + 1];
	unsigned n = 0;

	while (begin < end) {
		unsigned level = (unsigned)(63 - __builtin_clzll(end - begin));

		if (n == COUNT(parts) || (begin & (((uint64_t)1 << level) - 1)) != 0)
			return err_set(e, ERR_INVALID, "no subtree begins at that leaf");
		if (s->node(s->arg, level, begin >> level, &parts[n], e) < 0)
			return -1;
		begin += (uint64_t)1 << level;
		n++;
	}
	if (n == 0) {
		tlog_empty(ret);
		return 0;
	}
	*ret = parts[--n];
	while (n > 0)
		tlog_node(&parts[--n], ret, ret);
	return 0;
}

int tlog_root(uint64_t size, tlog_node_fn *node, void *arg, struct tlog_hash *ret, struct err *e)
{
	const struct tlog_proof_source s = { node, arg };

	if (size > TLOG_SIZE_MAX)
		return err_set(e, ERR_INVALID, "no log is that large");
	return tlog_proof_subtree(&s, 0, size, ret, e);
}

/* Add the hash of a subtree. */
static int tlog_proof_prove(const struct tlog_proof_source *s, uint64_t begin, uint64_t end,
			    struct tlog_proof *ret, struct err *e)
{
	if (ret->n == COUNT(ret->hashes))
		return err_set(e, ERR_INVALID, "a proof of too many hashes");
	return tlog_proof_subtree(s, begin, end, &ret->hashes[ret->n++], e);
}

/* Hashes are found from the root down, and a proof begins with the lowest one. */
static void turn_over(struct tlog_proof *p)
{
	for (unsigned i = 0; i < p->n / 2; i++) {
		struct tlog_hash h = p->hashes[i];

		p->hashes[i] = p->hashes[p->n - 1 - i];
		p->hashes[p->n - 1 - i] = h;
	}
}

int tlog_prove_inclusion(uint64_t index, uint64_t size, tlog_node_fn *node, void *arg,
			 struct tlog_proof *ret, struct err *e)
{
	const struct tlog_proof_source s = { node, arg };
	uint64_t begin = 0, end = size;

	ret->n = 0;
	if (index >= size || size > TLOG_SIZE_MAX)
		return err_set(e, ERR_INVALID, "the log has no such leaf");
	while (end - begin > 1) {
		uint64_t middle = begin + tlog_proof_split(end - begin);
		bool is_left = index < middle;

		if (tlog_proof_prove(&s, is_left ? middle : begin, is_left ? end : middle, ret, e) <
		    0)
			return -1;
		if (is_left)
			end = middle;
		else
			begin = middle;
	}
	turn_over(ret);
	return 0;
}

int tlog_prove_consistency(uint64_t old_size, uint64_t size, tlog_node_fn *node, void *arg,
			   struct tlog_proof *ret, struct err *e)
{
	const struct tlog_proof_source s = { node, arg };
	uint64_t begin = 0, end = size;

	ret->n = 0;
	if (old_size > size || size > TLOG_SIZE_MAX)
		return err_set(e, ERR_INVALID, "the log is smaller than before");
	if (old_size == 0)
		return 0;
	while (end != old_size) {
		uint64_t middle = begin + tlog_proof_split(end - begin);
		bool is_left = old_size <= middle;

		if (tlog_proof_prove(&s, is_left ? middle : begin, is_left ? end : middle, ret, e) <
		    0)
			return -1;
		if (is_left)
			end = middle;
		else
			begin = middle;
	}
	/* A complete subtree that begins at leaf 0 is the whole old tree, whose root is known. */
	if (begin != 0 && tlog_proof_prove(&s, begin, end, ret, e) < 0)
		return -1;
	turn_over(ret);
	return 0;
}

/* ---- verified: from the bottom up. `at` is the number of a node in its row, `last` that of the
 * row's last one. */

struct climb {
	uint64_t at, last;
};

/* Whether the next hash of the proof is the left neighbour. Then moves to the row above it. */
static bool climb_step(struct climb *c)
{
	bool is_right = (c->at & 1) != 0 || c->at == c->last;

	/* The last of a row without a right neighbour is itself in the rows above. */
	while (is_right && c->at != 0 && (c->at & 1) == 0) {
		c->at >>= 1;
		c->last >>= 1;
	}
	c->at >>= 1;
	c->last >>= 1;
	return is_right;
}

bool tlog_inclusion_holds(uint64_t index, uint64_t size, const struct tlog_hash *leaf,
			  const struct tlog_hash *root, const struct tlog_proof *proof)
{
	struct climb c = { index, size - 1 };
	struct tlog_hash sum = *leaf;

	if (index >= size || size > TLOG_SIZE_MAX || proof->n > TLOG_PROOF_MAX)
		return false;
	for (unsigned i = 0; i < proof->n; i++) {
		const struct tlog_hash *p = &proof->hashes[i];

		if (c.last == 0)
			return false;
		if (climb_step(&c))
			tlog_node(p, &sum, &sum);
		else
			tlog_node(&sum, p, &sum);
	}
	return c.last == 0 && tlog_hash_equal(&sum, root);
}

/* The proof without its first hash, which both sums begin with. */
static bool climb_both(struct climb c, const struct tlog_hash *first, const struct tlog_hash *rest,
		       unsigned n, const struct tlog_hash *old_root, const struct tlog_hash *root)
{
	struct tlog_hash old_sum = *first, sum = *first;

	for (unsigned i = 0; i < n; i++) {
		if (c.last == 0)
			return false;
		if (climb_step(&c)) {
			tlog_node(&rest[i], &old_sum, &old_sum);
			tlog_node(&rest[i], &sum, &sum);
		} else {
			tlog_node(&sum, &rest[i], &sum);
		}
	}
	return c.last == 0 && tlog_hash_equal(&old_sum, old_root) && tlog_hash_equal(&sum, root);
}

bool tlog_consistency_holds(uint64_t old_size, uint64_t size, const struct tlog_hash *old_root,
			    const struct tlog_hash *root, const struct tlog_proof *proof)
{
	struct climb c = { old_size - 1, size - 1 };

	if (old_size > size || size > TLOG_SIZE_MAX || proof->n > TLOG_PROOF_MAX)
		return false;
	if (old_size == 0 || old_size == size)
		return proof->n == 0 && (old_size == 0 || tlog_hash_equal(old_root, root));
	while ((c.at & 1) != 0) {
		c.at >>= 1;
		c.last >>= 1;
	}
	if ((old_size & (old_size - 1)) == 0)
		return climb_both(c, old_root, proof->hashes, proof->n, old_root, root);
	return proof->n > 0 &&
	       climb_both(c, &proof->hashes[0], &proof->hashes[1], proof->n - 1, old_root, root);
}
