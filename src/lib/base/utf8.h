/* utf8.h - checks UTF-8. Strict: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character at p, 1 to 4, or 0 if the bytes there are not UTF-8. n > 0. */
size_t utf8_length(const uint8_t *p, size_t n);

/* The code point of the character at p, n bytes long (utf8_length()). */
unsigned utf8_code(const uint8_t *p, size_t n);

/* Where the first n bytes of all, n < all, can be cut off so that no character is cut in two: n or
 * up to 3 less. */
size_t utf8_cut(const uint8_t *p, size_t n, size_t all);

/* Return true if the character at p, n bytes long (utf8_length()), controls a terminal or the
 * direction of text, or cannot be seen: C0 and C1 controls, separators of lines and paragraphs, all
 * characters of the category Cf (marks of direction, joiners, tags), fillers, and selectors of
 * variants but for U+FE0F, which stands behind many emoji. With them one file name can look like
 * another, and a text has words that only a program reads. */
bool utf8_is_control(const uint8_t *p, size_t n);
