/* str.h - strings copied into arrays of a fixed size. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Fails to compile if its argument is a pointer: then sizeof gives no capacity. */
#define STR_ARRAY_(array)                                                                     \
	(sizeof(char[__builtin_types_compatible_p(__typeof__(array), __typeof__(&(array)[0])) \
			     ? -1                                                             \
			     : 1]))

/* Copy the string src into the array dst. A string that does not fit is cut. Return whether it
 * fitted. */
#define str_copy(dst, src) str_copy_to((dst), sizeof(dst) * STR_ARRAY_(dst), (src))
/* Has it characters that end a line or a field? */
bool str_has_control(const char *s);
/* Copies the string src into the cap bytes at dst. */
bool str_copy_to(char *dst, size_t cap, const char *src);
