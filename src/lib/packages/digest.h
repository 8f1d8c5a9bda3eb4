/* digest.h - digests of package files: read in the forms of registries and lockfiles, compared,
 * written in one form, and computed while bytes pass. Used by readers of metadata, by the policy of
 * packages (pins) and by cordon-egress, which trusts a file by its digest only.
 *
 * Reading, comparing and writing are pure. The streams at the end use libcrypto. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Weakest first. H1 is Go's: SHA-256 over the hashes of the files in a module's zip (go_h1.h),
 * never over the zip itself. */
enum digest_alg {
	DIGEST_NONE,
	DIGEST_SHA1,
	DIGEST_SHA256,
	DIGEST_SHA384,
	DIGEST_SHA512,
	DIGEST_H1,
	DIGEST_ALGS
};

#define DIGEST_SIZE_MAX 64
#define DIGEST_TEXT_MAX 144 /* "sha512:" and 128 digits, with a NUL */

struct digest {
	enum digest_alg alg; /* DIGEST_NONE: no digest */
	uint8_t bytes[DIGEST_SIZE_MAX];
};

size_t digest_size(enum digest_alg alg);	  /* in bytes, 0 for none */
const char *digest_alg_name(enum digest_alg alg); /* "sha256", "h1", "" for none */

/* Read "sha512-BASE64" (one hash of SRI), "sha256:HEX", "sha256=HEX" or "h1:BASE64". False, with
 * *ret none: any other form. */
bool digest_read(const char *text, size_t n, struct digest *ret);
/* Read exactly the digits of one algorithm, in either case. */
bool digest_read_hex(enum digest_alg alg, const char *text, size_t n, struct digest *ret);
/* Read a list of SRI as npm writes it ("sha1-... sha512-..."), and take the strongest hash, or the
 * first of equally strong hashes. Options ("?...") and unknown algorithms are skipped. */
bool digest_read_sri(const char *text, size_t n, struct digest *ret);

/* Are both the same digest? False if either is none. */
bool digest_equal(const struct digest *a, const struct digest *b);
/* Can bytes be trusted by it? SHA-1 is too weak. */
bool digest_is_strong(const struct digest *d);
/* Write "sha256:HEX" or "h1:BASE64", "" for none. */
void digest_write(const struct digest *d, char ret[DIGEST_TEXT_MAX]);

/* Hashes bytes as they pass. Not for H1. */
struct digest_stream;
struct digest_stream *digest_stream_new(enum digest_alg alg, struct err *e) MUST_USE;
void digest_stream_add(struct digest_stream *s, const void *bytes, size_t n);
/* End the hash. Afterwards only digest_stream_free() may be called. If libcrypto failed at any
 * time, *ret is none, and equals no digest. */
void digest_stream_end(struct digest_stream *s, struct digest *ret);
void digest_stream_free(struct digest_stream *s); /* s may be NULL */
