/* base64.h - RFC 4648 base64, with padding, strictly; or as generously as peers must be read. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "own.h"

/* Characters for n bytes, without the NUL; and the most bytes that n characters can hold. */
#define BASE64_LENGTH(n) (((n) + 2) / 3 * 4)
#define BASE64_BYTES(n) ((n) / 4 * 3)

/* ret has room for BASE64_LENGTH(n) + 1; NUL-terminated. */
void base64_encode(const void *bytes, size_t n, char *ret);
/* ret has room for BASE64_BYTES(n). Returns how many bytes there are, or -1: a foreign character,
 * missing padding, bits in the padding that are not zero. Each value has one form only. */
ssize_t base64_decode(const char *text, size_t n, uint8_t *ret) MUST_USE;
/* The same for either alphabet (that of URLs, too), with padding or without. ret has room for
 * BASE64_BYTES(n + 3). */
ssize_t base64_decode_any(const char *text, size_t n, uint8_t *ret) MUST_USE;
