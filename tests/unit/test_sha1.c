/* Goal: the digests of FIPS 180 and RFC 3174, at every length around a block. */
#include "lib/base/sha1.h"

#include "support.h"

static void digest(const void *bytes, size_t n, char ret[41])
{
	uint8_t hash[SHA1_SIZE];
	void *exact = exact_copy(bytes, n);

	sha1_digest(exact, n, hash);
	free(exact);
	for (size_t i = 0; i < sizeof(hash); i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", (unsigned)hash[i]);
}

static const struct {
	const char *text, *want;
} cases[] = {
	{ "", "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
	{ "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	  "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
	{ "The quick brown fox jumps over the lazy dog",
	  "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12" },
};

static void digests_the_examples(void)
{
	char got[41];

	for (size_t i = 0; i < COUNT(cases); i++) {
		digest(cases[i].text, strlen(cases[i].text), got);
		CHECK_STR(got, cases[i].want);
	}
}

static void digests_a_million(void)
{
	char *text = malloc(1000000), got[41];

	CHECK(text != NULL);
	memset(text, 'a', 1000000);
	digest(text, 1000000, got);
	free(text);
	CHECK_STR(got, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

/* The digest of the 130 digests of "a" times n; by sha1sum. */
static void digests_every_length(void)
{
	char text[130], all[130 * 40 + 1], got[41];

	memset(text, 'a', sizeof(text));
	for (size_t n = 0; n < sizeof(text); n++)
		digest(text, n, all + 40 * n);
	digest(all, 130 * 40, got);
	CHECK_STR(got, "020e571fd23e2a086018fa9bfa2fb3269f35017a");
}

TEST_MAIN({ "digests the examples", digests_the_examples },
	  { "digests a million", digests_a_million },
	  { "digests every length", digests_every_length })
