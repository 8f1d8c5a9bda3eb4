#include "lib/base/rand.h"

#include "support.h"

static void ids_look_right(void)
{
	char id[RAND_ID_MAX], before[RAND_ID_MAX] = "";

	for (int i = 0; i < 1000; i++) {
		rand_id("ses_", id, sizeof(id));
		CHECK(strlen(id) == 20 && strncmp(id, "ses_", 4) == 0);
		CHECK(strspn(id + 4, "abcdefghijklmnopqrstuvwxyz0123456789") == 16);
		CHECK(strcmp(id, before) != 0);
		memcpy(before, id, sizeof(id));
	}
}

/* 36 letters, 160,000 of them: each 4,444 times give or take; six sigma are 395. */
static void letters_come_evenly(void)
{
	unsigned seen[256] = { 0 };
	char id[RAND_ID_MAX];

	for (int i = 0; i < 10000; i++) {
		rand_id("", id, sizeof(id));
		for (int k = 0; k < 16; k++)
			seen[(unsigned char)id[k]]++;
	}
	for (const char *c = "abcdefghijklmnopqrstuvwxyz0123456789"; *c != '\0'; c++)
		CHECK(seen[(unsigned char)*c] > 4444 - 395 && seen[(unsigned char)*c] < 4444 + 395);
}

static void numbers_come_evenly(void)
{
	unsigned seen[3] = { 0 };
	uint8_t bytes[64] = { 0 };
	unsigned zero = 0;

	for (int i = 0; i < 30000; i++)
		seen[rand_below(3)]++;
	for (int i = 0; i < 3; i++)
		CHECK(seen[i] > 9500 && seen[i] < 10500);
	CHECK(rand_below(1) == 0);
	rand_bytes(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		zero += bytes[i] == 0;
	CHECK(zero < 8);
}

TEST_MAIN({ "ids have their form", ids_look_right }, { "letters come evenly", letters_come_evenly },
	  { "numbers come evenly", numbers_come_evenly })
