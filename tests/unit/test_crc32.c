/* Goal: the checksum is the one that zlib.crc32() gives, in one piece or in several. */
#include "lib/base/crc32.h"

#include "support.h"

static uint32_t of(const char *text)
{
	return crc32_add(0, (const uint8_t *)text, strlen(text));
}

static void known(void)
{
	uint8_t all[256];

	for (unsigned i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)i;
	CHECK(of("") == 0);
	CHECK(of("a") == 0xe8b7be43U);
	CHECK(of("123456789") == 0xcbf43926U);
	CHECK(crc32_add(0, all, sizeof(all)) == 0x29058c73U);
}

static void in_pieces(void)
{
	static const uint8_t bytes[] = "123456789";

	for (size_t n = 0; n <= 9; n++)
		CHECK(crc32_add(crc32_add(0, bytes, n), bytes + n, 9 - n) == 0xcbf43926U);
}

TEST_MAIN({ "known checksums", known }, { "in pieces", in_pieces })
