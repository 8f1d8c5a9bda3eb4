/* digest.c - see digest.h. One table of algorithms. lib/base reads the digits, and accepts a single
 * base64 encoding of each value. */
#include "lib/packages/digest.h"

#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/hex.h"

/* Indexed by enum digest_alg. The names are those of SRI and of OCI. */
static const struct {
	const char *name;
	size_t size;
} algs[DIGEST_ALGS] = {
	[DIGEST_NONE] = { "", 0 },	    [DIGEST_SHA1] = { "sha1", 20 },
	[DIGEST_SHA256] = { "sha256", 32 }, [DIGEST_SHA384] = { "sha384", 48 },
	[DIGEST_SHA512] = { "sha512", 64 }, [DIGEST_H1] = { "h1", 32 },
};

size_t digest_size(enum digest_alg alg)
{
	return algs[alg].size;
}

const char *digest_alg_name(enum digest_alg alg)
{
	return algs[alg].name;
}

/* DIGEST_NONE: unknown. */
static enum digest_alg find_alg(const char *name, size_t n)
{
	for (unsigned i = 1; i < DIGEST_ALGS; i++) {
		if (strlen(algs[i].name) == n && memcmp(algs[i].name, name, n) == 0)
			return (enum digest_alg)i;
	}
	return DIGEST_NONE;
}

/* The length must be exact, so that a digest has one spelling. */
static bool read_base64(enum digest_alg alg, const char *text, size_t n, struct digest *ret)
{
	uint8_t bytes[BASE64_BYTES(BASE64_LENGTH(DIGEST_SIZE_MAX))];
	size_t size = digest_size(alg);

	if (n != BASE64_LENGTH(size) || base64_decode(text, n, bytes) != (ssize_t)size)
		return false;
	ret->alg = alg;
	memcpy(ret->bytes, bytes, size);
	return true;
}

/* Digits of another length are refused, so a digest of one algorithm is never taken for another. */
bool digest_read_hex(enum digest_alg alg, const char *text, size_t n, struct digest *ret)
{
	struct err e;

	*ret = (struct digest){ .alg = DIGEST_NONE };
	if (alg == DIGEST_NONE || hex_decode(text, n, ret->bytes, digest_size(alg), &e) < 0)
		return false;
	ret->alg = alg;
	return true;
}

/* No name of an algorithm has 8 bytes, so the search for its end stops there. */
bool digest_read(const char *text, size_t n, struct digest *ret)
{
	size_t name = 0;
	enum digest_alg alg;

	*ret = (struct digest){ .alg = DIGEST_NONE };
	while (name < n && name < 8 && strchr("-:=", text[name]) == NULL)
		name++;
	if (name == n || name == 8)
		return false;
	alg = find_alg(text, name);
	if (alg == DIGEST_NONE)
		return false;
	if (alg == DIGEST_H1)
		return text[name] == ':' && read_base64(alg, text + name + 1, n - name - 1, ret);
	if (text[name] == '-')
		return read_base64(alg, text + name + 1, n - name - 1, ret);
	return digest_read_hex(alg, text + name + 1, n - name - 1, ret);
}

bool digest_read_sri(const char *text, size_t n, struct digest *ret)
{
	*ret = (struct digest){ .alg = DIGEST_NONE };
	for (size_t at = 0, end; at < n; at = end + 1) {
		struct digest d;
		size_t hash;

		for (end = at; end < n && strchr(" \t\r\n", text[end]) == NULL; end++) {
		}
		for (hash = at; hash < end && text[hash] != '?'; hash++) {
		}
		if (memchr(text + at, '-', hash - at) != NULL &&
		    digest_read(text + at, hash - at, &d) && d.alg != DIGEST_H1 && d.alg > ret->alg)
			*ret = d;
	}
	return ret->alg != DIGEST_NONE;
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
	return a->alg != DIGEST_NONE && a->alg == b->alg &&
	       memcmp(a->bytes, b->bytes, digest_size(a->alg)) == 0;
}

/* H1 counts as strong, because it is made of SHA-256. */
bool digest_is_strong(const struct digest *d)
{
	return d->alg >= DIGEST_SHA256 && d->alg < DIGEST_ALGS;
}

/* The buffer holds the longest algorithm and its digits. */
void digest_write(const struct digest *d, char ret[DIGEST_TEXT_MAX])
{
	size_t n = strlen(algs[d->alg].name);

	ret[0] = '\0';
	if (d->alg == DIGEST_NONE)
		return;
	memcpy(ret, algs[d->alg].name, n);
	ret[n] = ':';
	if (d->alg == DIGEST_H1)
		base64_encode(d->bytes, digest_size(d->alg), ret + n + 1);
	else
		hex_encode(d->bytes, digest_size(d->alg), ret + n + 1);
}
