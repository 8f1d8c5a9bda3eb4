#include "lib/base/sha256.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/hex.h"
#include "test.h"

/* FIPS 180-4, and the borders of padding. */
static const struct {
	const char *text;
	size_t times;
	const char *want;
} cases[] = {
	{ "", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	{ "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
	{ "a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318" },
	{ "a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a" },
	{ "a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb" },
};

static void knows_the_answers(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sha256 s;
		uint8_t hash[SHA256_SIZE];
		char text[2 * SHA256_SIZE + 1];

		sha256_init(&s);
		for (size_t n = 0; n < cases[i].times; n++)
			sha256_add(&s, cases[i].text, strlen(cases[i].text));
		sha256_end(&s, hash);
		hex_encode(hash, sizeof(hash), text);
		if (strcmp(text, cases[i].want) != 0)
			printf("# %s x %zu: %s\n", cases[i].text, cases[i].times, text);
		CHECK(strcmp(text, cases[i].want) == 0);
	}
}

static void pieces_do_not_matter(void)
{
	uint8_t bytes[300], whole[SHA256_SIZE], parts[SHA256_SIZE];
	struct sha256 s;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	sha256_of(bytes, sizeof(bytes), whole);
	for (size_t step = 1; step < 130; step++) {
		sha256_init(&s);
		for (size_t at = 0; at < sizeof(bytes); at += step)
			sha256_add(&s, bytes + at,
				   sizeof(bytes) - at < step ? sizeof(bytes) - at : step);
		sha256_end(&s, parts);
		CHECK(memcmp(whole, parts, sizeof(whole)) == 0);
	}
}

/* The two ways are the same function. */
static void the_processor_agrees(void)
{
	uint8_t bytes[64 * 9];
	struct sha256 a, b;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * i + 3);
	for (size_t n = 0; n <= 9 && sha256_ni_is_there(); n++) {
		sha256_init(&a);
		sha256_init(&b);
		sha256_ni_blocks(a.state, bytes, n);
		sha256_portable_blocks(b.state, bytes, n);
		CHECK(memcmp(a.state, b.state, sizeof(a.state)) == 0);
	}
}

TEST_MAIN({ "the processor agrees", the_processor_agrees },
	  { "knows the answers", knows_the_answers },
	  { "pieces do not matter", pieces_do_not_matter })
