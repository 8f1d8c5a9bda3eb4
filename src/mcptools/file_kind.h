/* file_kind.h - what the first bytes of a file tell about it. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "image/png", jpeg, gif or webp; NULL: none of them. */
const char *file_kind_image(const uint8_t *bytes, size_t n);
/* Is it no text? A NUL, or many bytes that are not UTF-8. */
bool file_kind_is_binary(const uint8_t *bytes, size_t n);
