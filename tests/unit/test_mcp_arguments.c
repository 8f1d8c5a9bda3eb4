/* Goal: arguments of a tool are taken exactly if the schema allows them, and errors name the member
 * and what it should be. Digests do not depend on how a value is written. */
#include "lib/mcp/server/mcp_arguments.h"

#include "lib/mcp/server/mcp_digest.h"
#include "support.h"

static const char schema[] =
	"{\"type\":\"object\",\"properties\":{"
	"\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4},"
	"\"n\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":60},"
	"\"x\":{\"type\":\"number\"},\"on\":{\"type\":\"boolean\"},"
	"\"how\":{\"type\":\"string\",\"enum\":[\"list\",\"patch\"]},"
	"\"net\":{\"oneOf\":[{\"type\":\"string\",\"enum\":[\"none\",\"all\"]},"
	"{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":2}]},"
	"\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
	"\"maxProperties\":2},"
	"\"edits\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\","
	"\"properties\":{"
	"\"old\":{\"type\":\"string\"},\"new\":{\"type\":[\"string\",\"null\"]}},"
	"\"required\":[\"old\"]}}},\"required\":[\"path\"]}";

/* NULL: fine; else the error. */
static const char *check(const char *text, struct err *e)
{
	struct json_tree t;
	int result;

	CHECK(json_tree_read(&t, text, strlen(text), &json_tree_default, e) == 0);
	result = mcp_arguments_check(schema, json_tree_root(&t), e);
	json_tree_release(&t);
	return result == 0 ? NULL : e->msg;
}

static void good_arguments_are_taken(void)
{
	static const char *const good[] = {
		"{\"path\":\"a\"}",
		"{\"path\":\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\",\"n\":0,\"x\":1.5,\"on\":false}",
		"{\"path\":\"a\",\"n\":6e1,\"how\":\"patch\",\"net\":\"none\"}",
		"{\"path\":\"a\",\"net\":[\"a.example\",\"b.example\"]}",
		"{\"path\":\"a\",\"env\":{\"A\":\"1\"},\"edits\":[{\"old\":\"x\",\"new\":null}]}",
	};
	struct err e;

	for (size_t i = 0; i < COUNT(good); i++) {
		if (check(good[i], &e) != NULL)
			FAIL(e.msg);
	}
}

static void errors_name_the_member(void)
{
	static const char *const rows[][2] = {
		{ "{}", "path is required" },
		{ "[]", "arguments must be of type object" },
		{ "{\"path\":5}", "path must be of type string" },
		{ "{\"path\":\"\"}", "path must have a length of at least 1" },
		{ "{\"path\":\"abcde\"}", "path must have a length of at most 4" },
		{ "{\"path\":\"a\\u0000\"}", "path must not have a NUL character" },
		{ "{\"path\":\"a\",\"Path\":\"b\"}", "there is no argument Path" },
		{ "{\"path\":\"a\",\"n\":61}", "n must be at most 60" },
		{ "{\"path\":\"a\",\"n\":-1}", "n must be at least 0" },
		{ "{\"path\":\"a\",\"n\":1.5}", "n must be of type integer" },
		{ "{\"path\":\"a\",\"n\":\"1\"}", "n must be of type integer" },
		{ "{\"path\":\"a\",\"x\":1e999}", "x is not a usable number" },
		{ "{\"path\":\"a\",\"on\":1}", "on must be of type boolean" },
		{ "{\"path\":\"a\",\"how\":\"List\"}", "how must be one of [\"list\",\"patch\"]" },
		{ "{\"path\":\"a\",\"net\":[1]}", "net[0] must be of type string" },
		{ "{\"path\":\"a\",\"net\":[\"a\",\"b\",\"c\"]}", "net must have at most 2" },
		{ "{\"path\":\"a\",\"env\":{\"A\":1}}", "env.A must be of type string" },
		{ "{\"path\":\"a\",\"env\":{\"A\":\"\",\"B\":\"\",\"C\":\"\"}}",
		  "env must have a number of members of at most 2" },
		{ "{\"path\":\"a\",\"edits\":[]}", "edits must have at least 1" },
		{ "{\"path\":\"a\",\"edits\":[{\"old\":\"\"},{\"new\":\"\"}]}",
		  "edits[1].old is required" },
		{ "{\"path\":\"a\",\"edits\":[{\"old\":\"\",\"new\":7}]}",
		  "edits[0].new must be of one of the types [\"string\",\"null\"]" },
		{ "{\"path\":null}", "path must be of type string" },
	};
	struct err e;

	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *said = check(rows[i][0], &e);

		CHECK(said != NULL && e.code == ERR_INVALID);
		CHECK_STR(said, rows[i][1]);
	}
}

static void no_arguments_are_an_empty_object(void)
{
	struct err e;

	CHECK(mcp_arguments_check("{\"type\":\"object\"}", NULL, &e) == 0);
	CHECK(mcp_arguments_check(schema, NULL, &e) < 0 && e.code == ERR_INVALID);
	CHECK(mcp_arguments_check("{\"type\":", NULL, &e) < 0 && e.code == ERR_SYSTEM);
	CHECK(mcp_arguments_check("{\"$ref\":\"#\"}", NULL, &e) < 0 && e.code == ERR_SYSTEM);
}

static void digest(const char *text, char ret[MCP_DIGEST_MAX])
{
	struct json_tree t;
	struct err e;

	CHECK(json_tree_read(&t, text, strlen(text), &json_tree_default, &e) == 0);
	CHECK(mcp_digest(json_tree_root(&t), ret, &e) == 0);
	json_tree_release(&t);
}

static void digests_see_values_only(void)
{
	static const char *const same[] = { "{\"a\":[1,\"x\"],\"b\":{}}",
					    " { \"b\" : { } , \"a\" : [ 1 , \"\\u0078\" ] } " };
	static const char *const other[] = { "{\"a\":[\"x\",1],\"b\":{}}", "{\"a\":[1,\"x\",{}]}",
					     "{\"a\":[1,\"x\"],\"b\":[]}",
					     "[\"a\",[1,\"x\"],\"b\",{}]",
					     "{\"a\":[\"1\",\"x\"],\"b\":{}}" };
	char one[MCP_DIGEST_MAX], two[MCP_DIGEST_MAX];
	struct err e;

	digest(same[0], one);
	digest(same[1], two);
	CHECK_STR(one, two);
	for (size_t i = 0; i < COUNT(other); i++) {
		digest(other[i], two);
		CHECK(strcmp(one, two) != 0);
	}
	digest("{}", one);
	CHECK(mcp_digest(NULL, two, &e) == 0);
	CHECK_STR(one, two);
}

TEST_MAIN({ "good_arguments_are_taken", good_arguments_are_taken },
	  { "errors_name_the_member", errors_name_the_member },
	  { "no_arguments_are_an_empty_object", no_arguments_are_an_empty_object },
	  { "digests_see_values_only", digests_see_values_only })
