/* zeros.h - are there only zeros? By words, as memcmp(3) of musl compares single bytes: pages of
 * guests and files are looked at while a session stands still. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool zeros_only(const uint8_t *bytes, size_t n)
{
	uint64_t word[8];

	for (; n >= sizeof(word); n -= sizeof(word), bytes += sizeof(word)) {
		memcpy(word, bytes, sizeof(word));
		if ((word[0] | word[1] | word[2] | word[3] | word[4] | word[5] | word[6] |
		     word[7]) != 0)
			return false;
	}
	for (; n > 0; n--, bytes++)
		if (*bytes != 0)
			return false;
	return true;
}
