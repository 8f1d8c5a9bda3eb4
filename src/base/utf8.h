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

/* Returns true if the character at p, n bytes long (utf8_length()), controls a terminal or the
 * direction of text: C0 and C1 controls, separators of lines and paragraphs (U+2028, U+2029), and
 * the marks that change the direction of text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to
 * U+2069), with which one file name can look like another. */
bool utf8_is_control(const uint8_t *p, size_t n);
