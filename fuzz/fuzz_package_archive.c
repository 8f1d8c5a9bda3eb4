/* Zips of Go modules and gzip, from servers that may be hostile. In slices and pieces of any size
 * the result is the same. Bytes: 0 zip or 1 gzip, the size of slices or pieces, the archive. */
#include "fuzz.h"

#include "lib/packages/go_h1.h"
#include "lib/packages/gunzip.h"
#include "lib/base/sha256.h"

unsigned long fuzz_accepted;

struct archive {
	const uint8_t *p;
	size_t n;
};

static int read_at(void *arg, uint64_t at, void *ret, size_t n, struct err *e)
{
	const struct archive *a = arg;

	assert(at <= a->n && n <= a->n - at);
	memcpy(ret, a->p + at, n);
	return 0;
}

static struct digest hash_zip(struct archive *a, size_t slice)
{
	struct go_h1_source source = { a->n, read_at, a };
	struct digest d = { .alg = DIGEST_NONE };
	struct err e;
	struct go_h1 *h = go_h1_new(&source, &e);
	int rc = h == NULL ? -1 : 1;

	while (rc > 0)
		rc = go_h1_step(h, slice, &e);
	if (rc == 0)
		go_h1_result(h, &d);
	go_h1_free(h);
	return d;
}

static int on_bytes(void *arg, const void *bytes, size_t n, struct err *e)
{
	sha256_add(arg, bytes, n);
	return 0;
}

static struct digest hash_gzip(struct archive *a, size_t piece)
{
	struct digest d = { .alg = DIGEST_NONE };
	struct err e;
	struct gunzip *g = gunzip_new(4U << 20, &e);
	struct sha256 s;
	int rc = 0;

	assert(g != NULL);
	sha256_init(&s);
	for (size_t at = 0; at < a->n && rc == 0; at += piece)
		rc = gunzip_feed(g, a->p + at, a->n - at < piece ? a->n - at : piece, on_bytes, &s,
				 &e);
	if (rc == 0 && gunzip_end(g, &e) == 0) {
		d.alg = DIGEST_SHA256;
		sha256_end(&s, d.bytes);
	}
	gunzip_free(g);
	return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct archive a;
	struct digest whole, cut;
	uint8_t *copy;

	if (size < 2)
		return 0;
	copy = fuzz_copy(data + 2, size - 2);
	a = (struct archive){ copy, size - 2 };
	if (data[0] % 2 == 0) {
		whole = hash_zip(&a, 1U << 30);
		cut = hash_zip(&a, (size_t)data[1] + 1);
		assert(whole.alg == cut.alg);
	} else {
		whole = hash_gzip(&a, size);
		cut = hash_gzip(&a, (size_t)data[1] + 1);
		/* a bomb is noticed sooner in small pieces */
		assert(whole.alg == cut.alg || whole.alg == DIGEST_NONE || cut.alg == DIGEST_NONE);
	}
	if (whole.alg != DIGEST_NONE && cut.alg != DIGEST_NONE) {
		fuzz_accepted++;
		assert(digest_equal(&whole, &cut));
	}
	free(copy);
	return 0;
}
