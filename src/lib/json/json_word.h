/* json_word.h - the bytes of JSON's words: numbers, true, false, null. For its readers. */
#pragma once

#include <stdbool.h>

static inline bool json_word_has(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' ||
	       c == '.' || c == 'E';
}
