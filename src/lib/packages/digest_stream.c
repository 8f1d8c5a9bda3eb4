/* digest_stream.c - hashes by libcrypto. Its SHA-512 is several times as fast as one in plain C. A
 * failure of libcrypto is remembered, and the digest then equals no other. */
#include <openssl/evp.h>

#include "lib/packages/digest.h"

struct digest_stream {
	EVP_MD_CTX *ctx; /* owned */
	enum digest_alg alg;
	bool failed;
};

/* NULL: no hash over bytes. H1 is over the files inside, see go_h1.h. */
static const EVP_MD *digest_stream_method(enum digest_alg alg)
{
	switch (alg) {
	case DIGEST_SHA1:
		return EVP_sha1();
	case DIGEST_SHA256:
		return EVP_sha256();
	case DIGEST_SHA384:
		return EVP_sha384();
	case DIGEST_SHA512:
		return EVP_sha512();
	case DIGEST_NONE:
	case DIGEST_H1:
	case DIGEST_ALGS:
		break;
	}
	return NULL;
}

struct digest_stream *digest_stream_new(enum digest_alg alg, struct err *e)
{
	const EVP_MD *md = digest_stream_method(alg);
	struct digest_stream *s;

	if (md == NULL) {
		(void)err_set(e, ERR_INVALID, "digest: %s cannot be computed from bytes alone",
			      digest_alg_name(alg));
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL) {
		(void)err_sys(e, "digest");
		return NULL;
	}
	s->alg = alg;
	s->ctx = EVP_MD_CTX_new();
	if (s->ctx == NULL || EVP_DigestInit_ex(s->ctx, md, NULL) != 1) {
		digest_stream_free(s);
		(void)err_set(e, ERR_SYSTEM, "digest: libcrypto has no %s", digest_alg_name(alg));
		return NULL;
	}
	return s;
}

void digest_stream_add(struct digest_stream *s, const void *bytes, size_t n)
{
	if (n > 0 && EVP_DigestUpdate(s->ctx, bytes, n) != 1)
		s->failed = true;
}

/* failed is set at the end, so a late byte cannot lead to a digest. */
void digest_stream_end(struct digest_stream *s, struct digest *ret)
{
	unsigned n = 0;

	*ret = (struct digest){ .alg = DIGEST_NONE };
	if (!s->failed && EVP_DigestFinal_ex(s->ctx, ret->bytes, &n) == 1 &&
	    n == digest_size(s->alg))
		ret->alg = s->alg;
	s->failed = true;
}

void digest_stream_free(struct digest_stream *s)
{
	if (s == NULL)
		return;
	EVP_MD_CTX_free(s->ctx);
	free(s);
}
