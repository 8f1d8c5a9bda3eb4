/* Goal: RFC 4648, and one form only for each value. */
#include "lib/base/base64.h"

#include "support.h"

static const struct {
	const char *bytes, *text;
} pairs[] = {
	{ "", "" },
	{ "f", "Zg==" },
	{ "fo", "Zm8=" },
	{ "foo", "Zm9v" },
	{ "foob", "Zm9vYg==" },
	{ "fooba", "Zm9vYmE=" },
	{ "foobar", "Zm9vYmFy" },
	{ "\xfb\xff\xfe", "+//+" },
};

static void codes_the_examples(void)
{
	for (size_t i = 0; i < COUNT(pairs); i++) {
		size_t n = strlen(pairs[i].bytes), len = strlen(pairs[i].text);
		char *text = malloc(BASE64_LENGTH(n) + 1), *exact = exact_copy(pairs[i].text, len);
		uint8_t *bytes = malloc(BASE64_BYTES(len) + 1);

		CHECK(text != NULL && bytes != NULL);
		base64_encode(pairs[i].bytes, n, text);
		CHECK_STR(text, pairs[i].text);
		CHECK(base64_decode(exact, len, bytes) == (ssize_t)n);
		CHECK(memcmp(bytes, pairs[i].bytes, n) == 0);
		free(text);
		free(exact);
		free(bytes);
	}
}

static void codes_everything(void)
{
	uint8_t all[256], again[258];
	char text[BASE64_LENGTH(256) + 1];

	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)(i * 167);
	for (size_t n = 0; n <= sizeof(all); n++) {
		base64_encode(all, n, text);
		CHECK(strlen(text) == BASE64_LENGTH(n));
		CHECK(base64_decode(text, strlen(text), again) == (ssize_t)n);
		CHECK(memcmp(all, again, n) == 0);
	}
}

static const char *const refused[] = {
	"Z",	"Zg",	"Zg=",	  "Zm8",   "Zg==Zg==", "Z===", "====",	  "=",
	"Zh==", "Zm9=", "Zm9v\n", "Zm 9v", "Zm9v====", "Zm-_", "Zm9\x80", "Z=m9",
};

static void refuses_the_rest(void)
{
	uint8_t bytes[16];

	for (size_t i = 0; i < COUNT(refused); i++)
		CHECK_CASE(refused[i], base64_decode(refused[i], strlen(refused[i]), bytes) == -1);
}

/* Written by peers who have other habits. */
static const struct {
	const char *bytes, *text;
} loose[] = {
	{ "", "" },
	{ "f", "Zg" },
	{ "f", "Zg=" },
	{ "fo", "Zm8" },
	{ "fo", "Zm8==" },
	{ "foo", "Zm9v=" },
	{ "foobar", "Zm9vYmFy" },
	{ "\xfb\xff\xfe", "-__-" },
	{ "\xfb\xff", "-_8" },
	{ "\xfb\xff\xfe", "+_/-" },
};
static const char *const never[] = { "Z",   "=",    "Z===", "Zg===", "Zh",
				     "Zm9", "Zm=v", "Zm 9", "Zm9v\n" };

static void reads_any_form(void)
{
	for (size_t i = 0; i < COUNT(loose); i++) {
		size_t len = strlen(loose[i].text), n = strlen(loose[i].bytes);
		char *exact = exact_copy(loose[i].text, len);
		uint8_t *bytes = malloc(BASE64_BYTES(len + 3) + 1);

		CHECK(bytes != NULL);
		CHECK_CASE(loose[i].text, base64_decode_any(exact, len, bytes) == (ssize_t)n);
		CHECK(memcmp(bytes, loose[i].bytes, n) == 0);
		free(exact);
		free(bytes);
	}
	for (size_t i = 0; i < COUNT(never); i++) {
		uint8_t bytes[16];

		CHECK_CASE(never[i], base64_decode_any(never[i], strlen(never[i]), bytes) == -1);
	}
}

TEST_MAIN({ "codes the examples", codes_the_examples }, { "codes everything", codes_everything },
	  { "refuses the rest", refuses_the_rest }, { "reads any form", reads_any_form })
