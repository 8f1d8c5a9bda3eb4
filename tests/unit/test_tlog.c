/* Merkle trees: published roots, and every proof of every tree of up to SIZES leaves beside a model
 * that follows the words of RFC 6962, recursive and without shortcuts. */
#include "test.h"

#include <stdint.h>

#include "lib/base/hex.h"
#include "lib/tlog/tlog_tile.h"

#define SIZES 300

static struct tlog_hash leaves[SIZES];

static void make_leaves(void)
{
	for (unsigned i = 0; i < SIZES; i++)
		tlog_leaf(&i, sizeof(i), &leaves[i]);
}

/* ---- the model: section 2.1 of RFC 6962 */

static unsigned model_split(unsigned n)
{
	unsigned k = 1;

	while (2 * k < n)
		k *= 2;
	return k;
}

static struct tlog_hash model_root(const struct tlog_hash *d, unsigned n)
{
	struct tlog_hash left, right, sum;
	unsigned k = model_split(n);

	if (n == 1)
		return d[0];
	left = model_root(d, k);
	right = model_root(d + k, n - k);
	tlog_node(&left, &right, &sum);
	return sum;
}

static void model_path(unsigned m, const struct tlog_hash *d, unsigned n, struct tlog_proof *p)
{
	unsigned k = model_split(n);

	if (n == 1)
		return;
	if (m < k) {
		model_path(m, d, k, p);
		p->hashes[p->n++] = model_root(d + k, n - k);
	} else {
		model_path(m - k, d + k, n - k, p);
		p->hashes[p->n++] = model_root(d, k);
	}
}

static void model_subproof(unsigned m, const struct tlog_hash *d, unsigned n, bool b,
			   struct tlog_proof *p)
{
	unsigned k = model_split(n);

	if (m == n) {
		if (!b)
			p->hashes[p->n++] = model_root(d, n);
	} else if (m <= k) {
		model_subproof(m, d, k, b, p);
		p->hashes[p->n++] = model_root(d + k, n - k);
	} else {
		model_subproof(m - k, d + k, n - k, false, p);
		p->hashes[p->n++] = model_root(d, k);
	}
}

static int on_node(void *arg, unsigned level, uint64_t index, struct tlog_hash *ret, struct err *e)
{
	const unsigned *size = arg;

	if (level > 8 || (index + 1) << level > *size)
		return err_set(e, ERR_INVALID, "the tree has no such node");
	*ret = model_root(leaves + (index << level), 1U << level);
	return 0;
}

static bool is_same(const struct tlog_proof *a, const struct tlog_proof *b)
{
	return a->n == b->n && memcmp(a->hashes, b->hashes, a->n * sizeof(a->hashes[0])) == 0;
}

/* ---- tests */

static void published_roots(void)
{
	static const struct {
		const char *leaf, *root;
	} rows[] = {
		{ "", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d" },
		{ "00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125" },
		{ "10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77" },
		{ "2021", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7" },
		{ "3031", "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4" },
		{ "40414243", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef" },
		{ "5051525354555657",
		  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c" },
		{ "606162636465666768696a6b6c6d6e6f",
		  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328" },
	};
	struct tlog_range r = { 0 };
	struct tlog_hash sum;
	char text[65];
	struct err e;

	tlog_range_root(&r, &sum);
	hex_encode(sum.bytes, 32, text);
	CHECK_STR(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	for (size_t i = 0; i < COUNT(rows); i++) {
		uint8_t leaf[16];
		size_t n = strlen(rows[i].leaf) / 2;

		CHECK(hex_decode(rows[i].leaf, 2 * n, leaf, n, &e) == 0);
		tlog_leaf(leaf, n, &sum);
		CHECK(tlog_range_add(&r, 0, &sum));
		tlog_range_root(&r, &sum);
		hex_encode(sum.bytes, 32, text);
		CHECK_STR(text, rows[i].root);
	}
}

static void a_growing_tree_has_the_models_roots(void)
{
	struct tlog_hash sum, want, stored[TLOG_LEVELS];
	struct tlog_range r = { 0 }, again;

	for (unsigned n = 1; n <= SIZES; n++) {
		unsigned parts;
		struct err e;

		CHECK(tlog_range_add(&r, 0, &leaves[n - 1]) && r.size == n);
		want = model_root(leaves, n);
		tlog_range_root(&r, &sum);
		CHECK(tlog_hash_equal(&sum, &want));
		CHECK(tlog_root(n, on_node, &n, &sum, &e) == 0 && tlog_hash_equal(&sum, &want));
		parts = tlog_range_write(&r, stored);
		CHECK(tlog_range_read(n, stored, parts, &again));
		CHECK(!tlog_range_read(n, stored, parts + 1, &again) &&
		      !tlog_range_read(n, stored, parts - 1, &again));
		CHECK(tlog_range_read(n, stored, parts, &again));
		tlog_range_root(&again, &sum);
		CHECK(tlog_hash_equal(&sum, &want));
	}
}

static void subtrees_are_added_only_where_they_begin(void)
{
	struct tlog_hash part = model_root(leaves, 4), want = model_root(leaves, 8), sum;
	struct tlog_range r = { 0 };

	CHECK(tlog_range_add(&r, 2, &part));
	part = model_root(leaves + 4, 4);
	CHECK(!tlog_range_add(&r, 3, &part) && r.size == 4);
	CHECK(tlog_range_add(&r, 2, &part) && r.size == 8);
	tlog_range_root(&r, &sum);
	CHECK(tlog_hash_equal(&sum, &want));
	CHECK(!tlog_range_add(&r, TLOG_LEVELS, &part));
	r = (struct tlog_range){ .size = TLOG_SIZE_MAX };
	CHECK(!tlog_range_add(&r, 0, &part));
}

static void every_inclusion_proof_is_the_models(void)
{
	for (unsigned n = 1; n <= SIZES; n += n < 70 ? 1 : 23) {
		struct tlog_hash root = model_root(leaves, n);

		for (unsigned i = 0; i < n; i++) {
			struct tlog_proof p, want = { 0 };
			struct err e;

			model_path(i, leaves, n, &want);
			CHECK(tlog_prove_inclusion(i, n, on_node, &n, &p, &e) == 0);
			CHECK(is_same(&p, &want));
			CHECK(tlog_inclusion_holds(i, n, &leaves[i], &root, &p));
			CHECK(!tlog_inclusion_holds(i, n, &leaves[(i + 1) % SIZES], &root, &p));
			CHECK(!tlog_inclusion_holds(n, n, &leaves[i], &root, &p));
			CHECK(n == 1 ||
			      !tlog_inclusion_holds((i + 1) % n, n, &leaves[i], &root, &p));
			p.n++;
			CHECK(!tlog_inclusion_holds(i, n, &leaves[i], &root, &p));
			p.n -= 2;
			CHECK(n == 1 || !tlog_inclusion_holds(i, n, &leaves[i], &root, &p));
		}
	}
}

static void each_changed_hash_breaks(struct tlog_proof *p, unsigned m, unsigned n,
				     const struct tlog_hash *old_root, const struct tlog_hash *root)
{
	for (unsigned i = 0; i < p->n; i++) {
		p->hashes[i].bytes[i % 32] ^= 1;
		CHECK(!tlog_consistency_holds(m, n, old_root, root, p));
		p->hashes[i].bytes[i % 32] ^= 1;
	}
	p->n++;
	CHECK(!tlog_consistency_holds(m, n, old_root, root, p));
	p->n--;
	CHECK(m == n || !tlog_consistency_holds(m, n, root, root, p));
	CHECK(m == n || !tlog_consistency_holds(m, n, old_root, old_root, p));
	CHECK(m == n || !tlog_consistency_holds(n, m, old_root, root, p));
}

static void every_consistency_proof_is_the_models(void)
{
	struct tlog_hash roots[SIZES + 1];

	for (unsigned n = 1; n <= SIZES; n++)
		roots[n] = model_root(leaves, n);
	for (unsigned n = 1; n <= SIZES; n += n < 70 ? 1 : 23) {
		for (unsigned m = 1; m <= n; m++) {
			struct tlog_proof p, want = { 0 };
			struct err e;

			model_subproof(m, leaves, n, true, &want);
			CHECK(tlog_prove_consistency(m, n, on_node, &n, &p, &e) == 0);
			CHECK(is_same(&p, &want));
			CHECK(tlog_consistency_holds(m, n, &roots[m], &roots[n], &p));
			each_changed_hash_breaks(&p, m, n, &roots[m], &roots[n]);
			if (m > 1)
				CHECK(!tlog_consistency_holds(m - 1, n, &roots[m - 1], &roots[n],
							      &p));
		}
	}
}

static void trees_without_leaves_and_sizes_beyond_all(void)
{
	struct tlog_hash root = model_root(leaves, 5), none;
	struct tlog_proof p = { .n = 0 };
	struct err e;
	unsigned n = 5;

	tlog_empty(&none);
	CHECK(tlog_prove_consistency(0, 5, on_node, &n, &p, &e) == 0 && p.n == 0);
	CHECK(tlog_consistency_holds(0, 5, &none, &root, &p));
	CHECK(tlog_consistency_holds(0, 0, &none, &none, &p));
	p.n = 1;
	CHECK(!tlog_consistency_holds(0, 5, &none, &root, &p));
	CHECK(tlog_prove_consistency(6, 5, on_node, &n, &p, &e) < 0);
	CHECK(tlog_prove_inclusion(5, 5, on_node, &n, &p, &e) < 0);
	p.n = 0;
	CHECK(!tlog_consistency_holds(5, UINT64_MAX, &root, &root, &p));
	CHECK(!tlog_inclusion_holds(0, 0, &root, &root, &p));
	CHECK(!tlog_inclusion_holds(0, UINT64_MAX, &root, &root, &p));
	p.n = TLOG_PROOF_MAX + 1;
	CHECK(!tlog_consistency_holds(5, 6, &root, &root, &p));
	CHECK(!tlog_inclusion_holds(0, 6, &root, &root, &p));
	/* A proof of the largest log fits. */
	p.n = 0;
	CHECK(tlog_root(TLOG_SIZE_MAX + 1, on_node, &n, &none, &e) < 0);
}

/* ---- tiles */

static void paths_of_tiles(void)
{
	static const struct {
		const char *path;
		struct tlog_tile tile;
	} good[] = {
		{ "tile/0/000", { false, 0, 0, 256 } },
		{ "tile/0/x001/x234/067", { false, 0, 1234067, 256 } },
		{ "tile/1/x001/067.p/8", { false, 1, 1067, 8 } },
		{ "tile/entries/999.p/255", { true, 0, 999, 255 } },
		{ "tile/7/x036/x028/x797/x018/x963/967", { false, 7, 36028797018963967, 256 } },
	};
	static const char *const bad[] = {
		"",
		"tile/",
		"tile/0",
		"tile/0/",
		"tile/0/00",
		"tile/0/0000",
		"tile/0/1",
		"tile/00/000",
		"tile/8/000",
		"tile/-1/000",
		"tile/0/x000/001",
		"tile/0/001/002",
		"tile/0/x001",
		"tile/0/x001/x002",
		"tile/0/000.p/0",
		"tile/0/000.p/256",
		"tile/0/000.p/01",
		"tile/0/000.p/",
		"tile/0/000.p/1/",
		"tile/0/000/",
		"tile//000",
		"/tile/0/000",
		"tile/0/000.p/999",
		"tile/entries/",
		"tile/0/x036/x028/x797/x018/x963/968",
		"tile/0/x999/x999/x999/x999/x999/x999/x999/999",
	};
	char path[TLOG_TILE_PATH_MAX];
	struct tlog_tile t;
	struct err e;

	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK(tlog_tile_path(&good[i].tile, path) == strlen(good[i].path));
		CHECK_STR(path, good[i].path);
		CHECK(tlog_tile_parse(path, strlen(path), &t, &e) == 0);
		CHECK(t.is_entries == good[i].tile.is_entries && t.level == good[i].tile.level);
		CHECK(t.index == good[i].tile.index && t.width == good[i].tile.width);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(tlog_tile_parse(bad[i], strlen(bad[i]), &t, &e) < 0);
}

static void widths_of_tiles(void)
{
	CHECK(tlog_tile_width(0, 0, 0) == 0 && tlog_tile_width(1, 0, 0) == 1);
	CHECK(tlog_tile_width(256, 0, 0) == 256 && tlog_tile_width(256, 0, 1) == 0);
	CHECK(tlog_tile_width(300, 0, 1) == 44 && tlog_tile_width(300, 1, 0) == 1);
	CHECK(tlog_tile_width(70000, 1, 1) == 17 && tlog_tile_width(70000, 2, 0) == 1);
	CHECK(tlog_tile_width(TLOG_SIZE_MAX, 7, 0) == 127 &&
	      tlog_tile_width(TLOG_SIZE_MAX, 8, 0) == 0);
	CHECK(tlog_tile_width(TLOG_SIZE_MAX, 0, TLOG_TILE_INDEX_MAX) == 255 &&
	      tlog_tile_width(TLOG_SIZE_MAX, 0, TLOG_TILE_INDEX_MAX + 1) == 0);
}

/* A log of many leaves, of which only tiles exist. */
#define MANY 70000

static struct tlog_hash *rows[3];
static unsigned reads;

static int on_tile(void *arg, unsigned level, uint64_t index, unsigned width,
		   const struct tlog_hash **ret, struct err *e)
{
	reads++;
	CHECK(level < 3 && width == tlog_tile_width(MANY, level, index) && width > 0);
	*ret = rows[level] + index * TLOG_TILE;
	return 0;
}

static void proofs_are_made_from_tiles(void)
{
	struct tlog_tiles tiles = { .size = MANY, .read = on_tile };
	struct tlog_range r = { 0 }, old = { 0 };
	struct tlog_hash root, old_root, sum;
	struct tlog_proof p;
	struct err e;

	for (unsigned level = 0, n = MANY; level < 3; level++, n /= TLOG_TILE) {
		rows[level] = calloc(n, sizeof(struct tlog_hash));
		CHECK(rows[level] != NULL);
		for (unsigned i = 0; i < n; i++) {
			if (level == 0) {
				tlog_leaf(&i, sizeof(i), &rows[0][i]);
				CHECK(tlog_range_add(&r, 0, &rows[0][i]));
				if (i < 65537)
					CHECK(tlog_range_add(&old, 0, &rows[0][i]));
			} else {
				tlog_tile_sum(rows[level - 1] + (size_t)i * TLOG_TILE, TLOG_TILE,
					      &rows[level][i]);
			}
		}
	}
	tlog_range_root(&r, &root);
	tlog_range_root(&old, &old_root);
	CHECK(tlog_root(MANY, tlog_tiles_node, &tiles, &sum, &e) == 0 &&
	      tlog_hash_equal(&sum, &root));
	reads = 0;
	CHECK(tlog_prove_consistency(65537, MANY, tlog_tiles_node, &tiles, &p, &e) == 0);
	CHECK(tlog_consistency_holds(65537, MANY, &old_root, &root, &p) && reads < 60);
	for (unsigned i = 0; i < MANY; i += 997) {
		CHECK(tlog_prove_inclusion(i, MANY, tlog_tiles_node, &tiles, &p, &e) == 0);
		CHECK(tlog_inclusion_holds(i, MANY, &rows[0][i], &root, &p));
	}
	CHECK(tlog_tiles_node(&tiles, 16, 1, &sum, &e) < 0);
	CHECK(tlog_tiles_node(&tiles, 63, 0, &sum, &e) < 0);
	for (unsigned level = 0; level < 3; level++)
		free(rows[level]);
}

int main(void)
{
	static const struct test tests[] = {
		{ "published roots", published_roots },
		{ "a growing tree has the model's roots", a_growing_tree_has_the_models_roots },
		{ "subtrees are added only where they begin",
		  subtrees_are_added_only_where_they_begin },
		{ "every inclusion proof is the model's", every_inclusion_proof_is_the_models },
		{ "every consistency proof is the model's", every_consistency_proof_is_the_models },
		{ "trees without leaves, and sizes beyond all",
		  trees_without_leaves_and_sizes_beyond_all },
		{ "paths of tiles", paths_of_tiles },
		{ "widths of tiles", widths_of_tiles },
		{ "proofs are made from tiles", proofs_are_made_from_tiles },
	};

	make_leaves();
	return test_run_all(tests, COUNT(tests));
}
