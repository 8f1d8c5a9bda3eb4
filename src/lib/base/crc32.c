#include "lib/base/crc32.h"

static uint32_t table[256]; /* table[1] is not 0 once it is made */

static void crc32_make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t v = i;

		for (int k = 0; k < 8; k++)
			v = (v & 1) != 0 ? 0xedb88320U ^ v >> 1 : v >> 1;
		table[i] = v;
	}
}

uint32_t crc32_add(uint32_t crc, const uint8_t *bytes, size_t len)
{
	if (table[1] == 0)
		crc32_make_table();
	crc = ~crc;
	for (size_t i = 0; i < len; i++)
		crc = table[(crc ^ bytes[i]) & 0xff] ^ crc >> 8;
	return ~crc;
}
