/* Goal: the record has the code that an interpreter runs. A body that interpreters could read in
 * different ways is refused. */
#include "front/e2b/code/code_body.h"

#include <string.h>

#include "test.h"

static struct code_body b;

/* Whole, then byte by byte. */
static bool reads(const char *text)
{
	bool whole;

	code_body_init(&b);
	code_body_feed(&b, (const uint8_t *)text, strlen(text));
	whole = code_body_is_whole(&b);
	code_body_init(&b);
	for (const char *p = text; *p != '\0'; p++)
		code_body_feed(&b, (const uint8_t *)p, 1);
	CHECK(code_body_is_whole(&b) == whole);
	return whole;
}

static bool has(const char *code)
{
	uint8_t got[SHA256_SIZE], want[SHA256_SIZE];
	struct sha256 s;

	code_body_hash(&b, got);
	sha256_init(&s);
	sha256_add(&s, code, strlen(code));
	sha256_end(&s, want);
	return code_body_has_code(&b) && memcmp(got, want, sizeof(got)) == 0;
}

static void the_code_is_found(void)
{
	CHECK(reads("{\"code\":\"print(1)\",\"language\":\"bash\",\"context_id\":null}"));
	CHECK(has("print(1)") && strcmp(code_body_language(&b), "bash") == 0);
	CHECK(reads(
		"{\"env_vars\":{\"code\":\"x\",\"\\u0063ode\":\"y\"},\"code\":\"\\u0070\\n\"}"));
	CHECK(has("p\n"));
	CHECK(reads("{\"a\":1,\"a\":2}") && !code_body_has_code(&b));
}

static void ambiguous_bodies_are_refused(void)
{
	CHECK(!reads("{\"code\":\"A\",\"code\":\"B\"}"));
	CHECK(!reads("{\"code\":5,\"code\":\"B\"}"));
	CHECK(!reads("{\"code\":\"A\",\"code\":null}"));
	CHECK(!reads("{\"code\":\"A\",\"language\":\"r\",\"language\":\"bash\"}"));
	CHECK(!reads("{\"\\u0063ode\":\"A\",\"code\":\"B\"}"));
	CHECK(!reads("{\"\\u0063ode\":\"A\"}"));
	CHECK(!reads("{\"code\\u0000x\":\"A\",\"code\":\"B\"}"));
	CHECK(!reads("{\"language\\u0000\":\"bash\",\"code\":\"A\"}"));
	CHECK(!reads("{\"code\":\"A\",\"context_name\":\"hidden\"}"));
	CHECK(!reads("{\"code\":\"A\",\"context_name\":null}"));
	CHECK(reads("{\"code\":\"A\",\"env_vars\":{\"context_name\":\"x\"}}"));
	CHECK(!reads("{\"code\":\"\\ud800\"}") && !reads("{\"code\":\"\\udc00\"}"));
	CHECK(!reads("{\"code\":\"\\ud800x\"}") && !reads("{\"code\":\"\\ud800\\ud800\"}"));
	CHECK(!reads("{\"code\":\"\\ud800\\n\"}") && !reads("{\"code\":\"\\udc00\\ud800\"}"));
	CHECK(reads("{\"code\":\"\\ud83d\\ude00\"}") && has("\xf0\x9f\x98\x80"));
}

TEST_MAIN({ "the code is found", the_code_is_found },
	  { "ambiguous bodies are refused", ambiguous_bodies_are_refused })
