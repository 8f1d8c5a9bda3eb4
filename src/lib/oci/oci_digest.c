#include "lib/oci/oci_digest.h"

#include <string.h>

#include "lib/base/hex.h"

#define PREFIX "sha256:"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

/* Upper case is refused, so that one digest has one text and one file name. */
int oci_digest_read(const char *text, size_t len, struct oci_digest *ret, struct err *e)
{
	size_t digits = len > PREFIX_LEN ? len - PREFIX_LEN : 0;

	if (len < PREFIX_LEN || memcmp(text, PREFIX, PREFIX_LEN) != 0)
		return err_set(e, ERR_INVALID, "digest: only sha256 is supported");
	if (digits != 2 * (size_t)SHA256_SIZE)
		return err_set(e, ERR_INVALID, "digest: must have 64 hexadecimal digits");
	for (size_t i = PREFIX_LEN; i < len; i++)
		if (text[i] >= 'A' && text[i] <= 'F')
			return err_set(e, ERR_INVALID, "digest: must be in lower case");
	return hex_decode(text + PREFIX_LEN, digits, ret->sha256, SHA256_SIZE, e) < 0
		       ? err_wrap(e, "digest")
		       : 0;
}

void oci_digest_text(const struct oci_digest *d, char ret[OCI_DIGEST_TEXT])
{
	memcpy(ret, PREFIX, PREFIX_LEN);
	hex_encode(d->sha256, SHA256_SIZE, ret + PREFIX_LEN);
}

void oci_digest_of(const void *bytes, size_t len, struct oci_digest *ret)
{
	sha256_of(bytes, len, ret->sha256);
}

/* Digests are public, so the comparison needs no constant time. */
bool oci_digest_same(const struct oci_digest *a, const struct oci_digest *b)
{
	return memcmp(a->sha256, b->sha256, SHA256_SIZE) == 0;
}

/* what: the blob's name in the message. */
int oci_digest_check(const struct oci_digest *want, const void *bytes, size_t len, const char *what,
		     struct err *e)
{
	char wanted[OCI_DIGEST_TEXT], found[OCI_DIGEST_TEXT];
	struct oci_digest got;

	oci_digest_of(bytes, len, &got);
	if (oci_digest_same(want, &got))
		return 0;
	oci_digest_text(want, wanted);
	oci_digest_text(&got, found);
	return err_set(e, ERR_INVALID, "%.40s: its digest is %s, not %s", what, found, wanted);
}
