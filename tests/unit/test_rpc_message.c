/* Goal: messages, envelopes and errors of the Connect protocol are read as the contract says, in
 * every form that proto3 JSON allows, and nothing else is. */
#include "front/e2b/base/rpc_message.h"

#include "support.h"

static struct err e;

static json_t *parsed(const char *text)
{
	json_t *m = rpc_parse(text, strlen(text), &e);

	CHECK(m != NULL);
	return m;
}

static void names_in_both_spellings(void)
{
	json_t *m = parsed("{\"exitCode\":1,\"include_entry\":true,\"tag\":null,\"extra\":[]}");
	bool on = false;
	const char *tag = "unchanged";
	uint32_t n = 9;

	CHECK(rpc_uint32(m, "exitCode", &n, &e) == 0 && n == 1);
	CHECK(rpc_bool(m, "includeEntry", &on, &e) == 0 && on);
	CHECK(rpc_text(m, "tag", &tag, &e) == 0);
	CHECK_STR(tag, "unchanged");
	CHECK(rpc_uint32(m, "absent", &n, &e) == 0 && n == 1);
	CHECK(rpc_uint32(NULL, "absent", &n, &e) == 0 && n == 1);
	json_decref(m);
}

static void whole_numbers(void)
{
	static const struct {
		const char *text;
		int64_t want; /* -1: refused */
	} cases[] = {
		{ "0", 0 },
		{ "4294967295", 4294967295 },
		{ "12.0", 12 },
		{ "\"12\"", 12 },
		{ "1e3", 1000 },
		{ "-1", -1 },
		{ "4294967296", -1 },
		{ "1.5", -1 },
		{ "\"\"", -1 },
		{ "\"-1\"", -1 },
		{ "\"99999999999\"", -1 },
		{ "\"4294967296\"", -1 },
		{ "true", -1 },
		{ "{}", -1 },
		{ "1e300", -1 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[64];
		uint32_t n = 77;
		json_t *m;

		(void)snprintf(text, sizeof(text), "{\"pid\":%s}", cases[i].text);
		m = parsed(text);
		CHECK((rpc_uint32(m, "pid", &n, &e) == 0) == (cases[i].want >= 0));
		CHECK(n == (cases[i].want < 0 ? 77 : cases[i].want));
		json_decref(m);
	}
}

static void bytes_of_both_alphabets(void)
{
	static const struct {
		const char *text, *want; /* NULL: refused */
	} cases[] = {
		{ "\"\"", "" },	       { "\"aGkK\"", "hi\n" },	 { "\"aA==\"", "h" },
		{ "\"aA\"", "h" },     { "\"Pz8_\"", "???" },	 { "\"Pz8/\"", "???" },
		{ "\"Pj4-\"", ">>>" }, { "\"a\"", NULL },	 { "\"a*==\"", NULL },
		{ "\"aB==\"", NULL },  { "\"aA==aA==\"", NULL }, { "\"====\"", NULL },
		{ "12", NULL },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		OWN_MEM uint8_t *bytes = NULL;
		char text[64];
		size_t n = 0;
		json_t *m;

		(void)snprintf(text, sizeof(text), "{\"stdin\":%s}", cases[i].text);
		m = parsed(text);
		CHECK((rpc_bytes(m, "stdin", &bytes, &n, &e) == 0) == (cases[i].want != NULL));
		if (cases[i].want != NULL)
			CHECK(n == strlen(cases[i].want) && memcmp(bytes, cases[i].want, n) == 0);
		else
			CHECK(e.code == ERR_INVALID && strstr(e.msg, "stdin") != NULL);
		json_decref(m);
	}
}

static void other_kinds_name_the_member(void)
{
	json_t *m = parsed("{\"cmd\":1,\"envs\":[],\"stdin\":\"true\"}"), *object = NULL;
	const char *text = NULL;
	bool on = false;

	CHECK(rpc_text(m, "cmd", &text, &e) < 0 && strstr(e.msg, "cmd") != NULL);
	CHECK(rpc_object(m, "envs", &object, &e) < 0 && strstr(e.msg, "envs") != NULL);
	CHECK(rpc_bool(m, "stdin", &on, &e) < 0 && strstr(e.msg, "stdin") != NULL);
	CHECK(e.code == ERR_INVALID && text == NULL && object == NULL && !on);
	json_decref(m);
}

static void what_is_no_message(void)
{
	static const char *const bad[] = { "[]",
					   "1",
					   "\"x\"",
					   "{",
					   "{}x",
					   "nul",
					   "{\"a\":1,\"a\":2}",
					   "{\"a\":\"\\u0000\"}",
					   "{\"a\":\"\xff\"}" };
	json_t *m = rpc_parse("", 0, &e);

	CHECK(json_is_object(m) && json_object_size(m) == 0);
	json_decref(m);
	for (size_t i = 0; i < COUNT(bad); i++) {
		memset(&e, 0, sizeof(e));
		CHECK(rpc_parse(bad[i], strlen(bad[i]), &e) == NULL);
		CHECK(e.code == ERR_INVALID && e.msg[0] != '\0');
	}
}

static void deep_messages(void)
{
	static char text[200000];

	memset(text, '[', sizeof(text) - 1);
	CHECK(rpc_parse(text, sizeof(text) - 1, &e) == NULL); /* and the stack is still there */
}

/* Each takes much memory in the parser, however short it is. */
static void many_values(void)
{
	static char text[400000];
	size_t n = 0;
	json_t *m;

	text[n++] = '{';
	n += (size_t)snprintf(text + n, 8, "\"a\":[");
	while (n < 3 * 12000)
		n += (size_t)snprintf(text + n, 4, "{},");
	(void)snprintf(text + n, 8, "0]}");
	CHECK(rpc_parse(text, strlen(text), &e) == NULL && e.code == ERR_INVALID);
	CHECK(strstr(e.msg, "values") != NULL);
	for (size_t i = 0; i < 3 * 11000; i += 3)
		memcpy(text + 6 + i, "\"\",", 3); /* an argument each */
	(void)snprintf(text + 6 + 3 * 11000, 8, "0]}");
	m = parsed(text);
	CHECK(json_array_size(json_object_get(m, "a")) == 11001);
	json_decref(m);
	memset(text, ',', sizeof(text) - 1); /* in a text they are no values */
	memcpy(text, "{\"a\":\"\\\"", 8);
	memcpy(text + sizeof(text) - 4, "\"}", 3);
	json_decref(parsed(text));
}

static void envelopes(void)
{
	uint8_t bytes[RPC_ENVELOPE_HEAD + 300] = { 0 };
	const uint8_t *payload = NULL;
	size_t n = 0;

	rpc_envelope_write(bytes, 0, 300);
	CHECK(bytes[3] == 1 && bytes[4] == 44);
	for (size_t len = 0; len < sizeof(bytes); len++)
		CHECK(rpc_envelope_read(bytes, len, 300, &payload, &n, &e) == 0);
	CHECK(rpc_envelope_read(bytes, sizeof(bytes), 300, &payload, &n, &e) == 1);
	CHECK(payload == bytes + RPC_ENVELOPE_HEAD && n == 300);
	CHECK(rpc_envelope_read(bytes, RPC_ENVELOPE_HEAD, 299, &payload, &n, &e) == -1);
	CHECK(e.code == ERR_LIMIT);
	bytes[0] = RPC_FLAG_COMPRESSED;
	CHECK(rpc_envelope_read(bytes, 1, 300, &payload, &n, &e) == -1);
	CHECK(e.code == ERR_UNSUPPORTED);
	bytes[0] = RPC_FLAG_END;
	CHECK(rpc_envelope_read(bytes, 1, 300, &payload, &n, &e) == -1 && e.code == ERR_INVALID);
	rpc_envelope_write(bytes, 0, UINT32_MAX);
	CHECK(rpc_envelope_read(bytes, sizeof(bytes), SIZE_MAX, &payload, &n, &e) == 0);
}

static void codes(void)
{
	CHECK_STR(rpc_code_name(RPC_NOT_FOUND), "not_found");
	CHECK_STR(rpc_code_name(RPC_UNAUTHENTICATED), "unauthenticated");
	CHECK(rpc_code_status(RPC_NOT_FOUND) == 404 && rpc_code_status(RPC_CANCELED) == 499);
	CHECK(rpc_code_status(RPC_DEADLINE_EXCEEDED) == 504);
	CHECK(rpc_code_status(RPC_UNIMPLEMENTED) == 501);
	for (unsigned i = 1; i < RPC_CODES; i++)
		CHECK(rpc_code_status((enum rpc_code)i) >= 400);
	CHECK(rpc_code_of_status(404) == RPC_NOT_FOUND &&
	      rpc_code_of_status(400) == RPC_INVALID_ARGUMENT);
	CHECK(rpc_code_of_status(429) == RPC_RESOURCE_EXHAUSTED);
	CHECK(rpc_code_of_status(500) == RPC_INTERNAL && rpc_code_of_status(599) == RPC_INTERNAL);
}

static void timeouts(void)
{
	uint64_t ms = 7;

	CHECK(rpc_timeout_parse("60000", 5, &ms, &e) == 0 && ms == 60000);
	CHECK(rpc_timeout_parse("9999999999", 10, &ms, &e) == 0 && ms == 9999999999);
	CHECK(rpc_timeout_parse("99999999999", 11, &ms, &e) < 0);
	CHECK(rpc_timeout_parse("", 0, &ms, &e) < 0 && rpc_timeout_parse("-1", 2, &ms, &e) < 0);
	CHECK(rpc_timeout_parse("1s", 2, &ms, &e) < 0 && ms == 9999999999);
}

static void errors(void)
{
	char text[256];
	struct json j;

	json_init(&j, text, sizeof(text));
	rpc_error_write(&j, NULL, RPC_NOT_FOUND, "no \"x\"");
	CHECK_STR(text, "{\"code\":\"not_found\",\"message\":\"no \\\"x\\\"\"}");
	json_init(&j, text, sizeof(text));
	rpc_end_write(&j, RPC_ABORTED, "x");
	CHECK_STR(text, "{\"error\":{\"code\":\"aborted\",\"message\":\"x\"}}");
	json_init(&j, text, sizeof(text));
	rpc_end_write(&j, RPC_OK, NULL);
	CHECK_STR(text, "{}");
}

TEST_MAIN({ "names in lowerCamelCase and snake_case", names_in_both_spellings },
	  { "whole numbers in each form", whole_numbers },
	  { "bytes in both alphabets, padded or not", bytes_of_both_alphabets },
	  { "a member of another kind is named", other_kinds_name_the_member },
	  { "what is no message", what_is_no_message },
	  { "messages that are too deep", deep_messages },
	  { "messages of too many values", many_values },
	  { "envelopes, whole and in pieces", envelopes }, { "codes and statuses", codes },
	  { "errors, and the end of a stream", errors }, { "Connect-Timeout-Ms", timeouts })
