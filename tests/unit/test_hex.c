#include "lib/base/hex.h"

#include "support.h"

static void there_and_back(void)
{
	uint8_t all[256], again[256];
	char text[513];
	struct err e;

	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	hex_encode(all, 256, text);
	CHECK(strlen(text) == 512 && strncmp(text, "000102", 6) == 0);
	CHECK_STR(text + 506, "fdfeff");
	CHECK(hex_decode(text, 512, again, 256, &e) == 0 && memcmp(all, again, 256) == 0);
	CHECK(hex_decode("aBCd", 4, again, 2, &e) == 0 && again[0] == 0xab && again[1] == 0xcd);
	hex_encode(all, 0, text);
	CHECK_STR(text, "");
	CHECK(hex_decode("", 0, again, 0, &e) == 0);
}

static void refuses(void)
{
	static const char *const bad[] = { "",	   "0",	   "000",  "00000", "0g00", "0 00", "/000",
					   ":000", "@000", "G000", "`000",  "00-0", "0x00" };
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++) {
		uint8_t out[2] = { 1, 2 };

		CHECK_CASE(bad[i], hex_decode(bad[i], strlen(bad[i]), out, 2, &e) < 0);
		CHECK_CASE(bad[i], e.code == ERR_INVALID && out[0] == 1 && out[1] == 2);
		CHECK_STR(e.msg, "not 4 hexadecimal digits");
	}
}

TEST_MAIN({ "every byte, there and back", there_and_back },
	  { "anything else is refused and nothing written", refuses })
