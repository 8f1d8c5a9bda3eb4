/* utf8.h - is this text? Strict: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The length of the character at p, 1 to 4, or 0 if the bytes there are not UTF-8. n > 0. */
size_t utf8_length(const uint8_t *p, size_t n);
