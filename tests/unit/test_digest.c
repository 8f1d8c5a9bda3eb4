/* Digests in the forms of registries and lockfiles. */
#include "test.h"

#include "lib/packages/digest.h"

#define ABC_256 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ABC_512_SRI                                                  \
	"sha512-3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/" \
	"BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw=="
#define ABC_512                                                                                  \
	"ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c" \
	"23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
#define ABC_1 "a9993e364706816aba3e25717850c26c9cd0d89d"

static bool reads(const char *text, const char *want)
{
	struct digest d;
	char got[DIGEST_TEXT_MAX];

	if (!digest_read(text, strlen(text), &d)) {
		CHECK(d.alg == DIGEST_NONE);
		return false;
	}
	digest_write(&d, got);
	CHECK_STR(got, want);
	return true;
}

static void reads_every_form(void)
{
	CHECK(reads("sha256:" ABC_256, "sha256:" ABC_256));
	CHECK(reads("sha256=" ABC_256, "sha256:" ABC_256));
	CHECK(reads("sha1:A9993E364706816ABA3E25717850C26C9CD0D89D", "sha1:" ABC_1));
	CHECK(reads(ABC_512_SRI, "sha512:" ABC_512));
	CHECK(reads("h1:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
		    "h1:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="));
}

static void refuses_what_is_no_digest(void)
{
	CHECK(!reads("", ""));
	CHECK(!reads("sha256", ""));
	CHECK(!reads("sha256:", ""));
	CHECK(!reads("sha256:" ABC_1, ""));
	CHECK(!reads("sha256:" ABC_256 "0", ""));
	CHECK(!reads("md5:900150983cd24fb0d6963f7d28e17f72", ""));
	CHECK(!reads("sha512-3a81", ""));
	CHECK(!reads("h1:" ABC_256, ""));
	CHECK(!reads("h1-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=", ""));
	/* bits behind the last byte: a second encoding of the same value */
	CHECK(!reads("h1:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa1=", ""));
}

static void takes_the_strongest_of_a_list(void)
{
	static const char list[] =
		"sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0= " ABC_512_SRI "?opt  sha999-abc sha256-xx";
	struct digest d;
	char text[DIGEST_TEXT_MAX];

	CHECK(digest_read_sri(list, sizeof(list) - 1, &d));
	digest_write(&d, text);
	CHECK_STR(text, "sha512:" ABC_512);
	CHECK(!digest_read_sri("sha999-abc", 10, &d) && d.alg == DIGEST_NONE);
	/* SRI is base64: digits behind a colon are not one */
	CHECK(!digest_read_sri("sha256:" ABC_256, 71, &d));
}

static void compares(void)
{
	struct digest a, b, none = { .alg = DIGEST_NONE };

	CHECK(digest_read_hex(DIGEST_SHA256, ABC_256, 64, &a));
	b = a;
	CHECK(digest_equal(&a, &b) && digest_is_strong(&a));
	b.bytes[31] ^= 1;
	CHECK(!digest_equal(&a, &b));
	b = a;
	b.alg = DIGEST_H1;
	CHECK(!digest_equal(&a, &b));
	CHECK(!digest_equal(&none, &none) && !digest_is_strong(&none));
	CHECK(digest_read_hex(DIGEST_SHA1, ABC_1, 40, &b) && !digest_is_strong(&b));
}

static void hashes_a_stream(void)
{
	static const enum digest_alg algs[] = { DIGEST_SHA1, DIGEST_SHA256, DIGEST_SHA512 };
	static const char *const want[] = { "sha1:" ABC_1, "sha256:" ABC_256, "sha512:" ABC_512 };
	struct err e;

	for (size_t i = 0; i < 3; i++) {
		struct digest_stream *s = digest_stream_new(algs[i], &e);
		struct digest d;
		char text[DIGEST_TEXT_MAX];

		CHECK(s != NULL);
		digest_stream_add(s, "a", 1);
		digest_stream_add(s, "", 0);
		digest_stream_add(s, "bc", 2);
		digest_stream_end(s, &d);
		digest_write(&d, text);
		CHECK_STR(text, want[i]);
		digest_stream_end(s, &d); /* a second end is no digest */
		CHECK(d.alg == DIGEST_NONE);
		digest_stream_free(s);
	}
	CHECK(digest_stream_new(DIGEST_H1, &e) == NULL);
	CHECK(digest_stream_new(DIGEST_NONE, &e) == NULL);
}

TEST_MAIN({ "reads every form", reads_every_form },
	  { "refuses what is no digest", refuses_what_is_no_digest },
	  { "takes the strongest of a list", takes_the_strongest_of_a_list },
	  { "compares", compares }, { "hashes a stream", hashes_a_stream })
