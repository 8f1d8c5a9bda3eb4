/* oci_digest.h - digests of blobs: "sha256:" and 64 lower-case hexadecimal digits. Other algorithms
 * are refused. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/base/sha256.h"

#define OCI_JSON_MAX (1U << 20)			  /* bytes of a document: manifest, index, config */
#define OCI_DIGEST_TEXT (7 + 2 * SHA256_SIZE + 1) /* with NUL */

struct oci_digest {
	uint8_t sha256[SHA256_SIZE];
};

/* Read all len bytes of the text. */
int oci_digest_read(const char *text, size_t len, struct oci_digest *ret, struct err *e) MUST_USE;
void oci_digest_text(const struct oci_digest *d, char ret[OCI_DIGEST_TEXT]);
/* The digest of those bytes. */
void oci_digest_of(const void *bytes, size_t len, struct oci_digest *ret);
bool oci_digest_same(const struct oci_digest *a, const struct oci_digest *b);

/* ERR_INVALID, with both digests in the message, if the bytes have another digest. */
int oci_digest_check(const struct oci_digest *want, const void *bytes, size_t len, const char *what,
		     struct err *e) MUST_USE;
