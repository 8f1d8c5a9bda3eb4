/* base64.h - RFC 4648 base64: strict with padding, or lenient for input of peers that vary. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/own.h"

/* Characters for n bytes, without the NUL, and the most bytes that n characters can hold. */
#define BASE64_LENGTH(n) (((n) + 2) / 3 * 4)
#define BASE64_BYTES(n) ((n) / 4 * 3)

/* ret has room for BASE64_LENGTH(n) + 1. NUL-terminated. */
void base64_encode(const void *bytes, size_t n, char *ret);
/* ret has room for BASE64_BYTES(n). Return the number of bytes, or -1: a character outside of the
 * alphabet, missing padding, nonzero bits in the padding. Each value has one encoding only. */
ssize_t base64_decode(const char *text, size_t n, uint8_t *ret) MUST_USE;
/* As above, for either alphabet (that of URLs, too), with padding or without. ret has room for
 * BASE64_BYTES(n + 3). */
ssize_t base64_decode_any(const char *text, size_t n, uint8_t *ret) MUST_USE;
