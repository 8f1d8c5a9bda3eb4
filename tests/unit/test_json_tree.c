/* Goal: json_tree_read() accepts exactly JSON whose meaning no two readers can see differently, and
 * stays within its limits. */
#include "lib/json/json_tree.h"

#include "lib/json/json.h"
#include "json_check.h"
#include "support.h"

static struct json_tree tree(const char *text)
{
	struct json_tree t;
	struct err e;

	CHECK(json_tree_read(&t, text, strlen(text), &json_tree_default, &e) == 0);
	return t;
}

static enum err_code verdict(const char *text, size_t n, const struct json_tree_limits *limits)
{
	struct json_tree t;
	struct err e = { 0 };

	if (json_tree_read(&t, text, n, limits, &e) == 0) {
		json_tree_release(&t);
		return ERR_NONE;
	}
	CHECK(t.nodes == NULL && t.strings.data == NULL);
	return e.code;
}

static void malformed_texts_are_refused(void)
{
	static const char *const bad[] = {
		"",	     " ",
		"{",	     "}",
		"[1,]",	     "[,1]",
		"{\"a\"}",   "{\"a\":}",
		"{a:1}",     "{\"a\":1,}",
		"01",	     "1.",
		".5",	     "+1",
		"1e",	     "-",
		"tru",	     "nul",
		"truex",     "1 2",
		"\"",	     "\"\\x\"",
		"\"\\u12\"", "\"\n\"",
		"\"\xff\"",  "\"\\",
		"\"\\\"",    "[\"a\"",
		"'a'",	     "{}{}",
		"NaN",	     "[1}",
		"{\"a\":1]", "\"\xc0\x80\"",
		"{1:2}",     "[1 2]",
		"{\"a\" 1}", "\xef\xbb\xbf{}",
	};
	static const char *const good[] = { "{}",
					    " [ ] ",
					    "-0.5e+3",
					    "true",
					    "\"\\u00e9\"",
					    "{\"a\":[1,{\"b\":null}],\"c\":\"\xc3\xa9\"}",
					    "\"\\ud83d\\ude00\"",
					    "\"\\u0000\"",
					    "0" };

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(verdict(bad[i], strlen(bad[i]), &json_tree_default) == ERR_INVALID);
	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK(json_check_valid(good[i], strlen(good[i])));
		CHECK(verdict(good[i], strlen(good[i]), &json_tree_default) == ERR_NONE);
	}
	CHECK(verdict("[\0]", 3, &json_tree_default) == ERR_INVALID);
}

static void a_name_twice_is_refused(void)
{
	static const char *const bad[] = { "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}",
					   "[{\"x\":{\"b\":1,\"c\":2,\"b\":3}}]",
					   /* Both halves are read as U+FFFD. */
					   "{\"\\ud800\":1,\"\\udc00\":2}" };
	struct json j;

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(verdict(bad[i], strlen(bad[i]), &json_tree_default) == ERR_INVALID);
	CHECK(verdict("{\"a\":{\"a\":1}}", 13, &json_tree_default) == ERR_NONE);
	for (int twice = 0; twice < 2; twice++) {
		json_init_heap(&j, 1U << 20);
		json_open(&j, NULL, '{');
		for (int i = 0; i < 10000; i++) {
			char name[16];

			(void)snprintf(name, sizeof(name), "k%d", i * 7919 % 10007);
			json_int(&j, name, i);
		}
		if (twice)
			json_int(&j, "k5", 1);
		json_close(&j, '}');
		CHECK(json_ok(&j));
		CHECK(verdict(j.text, j.len, &json_tree_default) ==
		      (twice ? ERR_INVALID : ERR_NONE));
		json_release(&j);
	}
}

static void limits_hold(void)
{
	struct json_tree_limits few = { .bytes = 100, .values = 4, .depth = 2 };
	size_t deep = 100000;
	char *text = malloc(2 * deep);

	CHECK(verdict("[1,2,3]", 7, &few) == ERR_NONE);
	CHECK(verdict("[1,2,3,4]", 9, &few) == ERR_LIMIT);
	CHECK(verdict("[[1]]", 5, &few) == ERR_NONE);
	CHECK(verdict("[[[]]]", 6, &few) == ERR_LIMIT);
	memset(text, '[', deep);
	memset(text + deep, ']', deep);
	CHECK(verdict(text, 101, &few) == ERR_LIMIT);
	CHECK(verdict(text, 2 * deep, &json_tree_default) == ERR_LIMIT);
	CHECK(verdict(text + deep - 64, 128, &json_tree_default) == ERR_NONE);
	CHECK(verdict(text + deep - 65, 130, &json_tree_default) == ERR_LIMIT);
	free(text);
}

static void values_are_found(void)
{
	struct json_tree t =
		tree(" {\"a\": {\"x\":[1, 2.0,-7,1e2,1.5,99999999999999999999]},\n"
		     "\"s\":\"a\\u00e9\\n\\ud83d\\ude00\\u0000z\", \"t\":true, \"p\":\"plain\"}");
	const struct json_node *root = json_tree_root(&t);
	const struct json_node *x = json_tree_get(json_tree_get(root, "a"), "x");
	static const int64_t whole[] = { 1, 2, -7, 100 };
	const struct json_node *v = json_tree_first(x);
	int64_t n;
	double d;

	for (size_t i = 0; i < COUNT(whole); i++, v = json_tree_next(x, v))
		CHECK(json_tree_int(v, &n) && n == whole[i]);
	CHECK(!json_tree_int(v, &n) && json_tree_number(v, &d) && d == 1.5);
	v = json_tree_next(x, v);
	CHECK(!json_tree_int(v, &n) && json_tree_next(x, v) == NULL && x->size == 6);
	CHECK(json_span_is(json_tree_get_text(root, "p"), "plain"));
	v = json_tree_get(root, "s");
	CHECK(v->text.n == 10 && memcmp(v->text.p, "a\xc3\xa9\n\xf0\x9f\x98\x80\0z", 10) == 0);
	CHECK(json_span_dup(v->text) == NULL);
	CHECK(json_tree_get_bool(root, "t", false) && json_tree_get_bool(root, "no", true));
	CHECK(json_tree_get(root, "x") == NULL && json_tree_get(x, "a") == NULL);
	json_tree_release(&t);
}

static void a_node_is_written_on_one_line(void)
{
	struct json_tree t = tree("{\n \"a b\" : [ 1 ,\t\"x \\\" y\" ],\r\n\"c\":{ } }");
	char text[100];
	struct json j;

	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '[');
	json_int(&j, NULL, 1);
	json_tree_write(&j, NULL, json_tree_root(&t));
	json_int(&j, NULL, 2);
	json_close(&j, ']');
	CHECK_STR(text, "[1,{\"a b\":[1,\"x \\\" y\"],\"c\":{}},2]");
	json_tree_release(&t);
}

TEST_MAIN({ "malformed_texts_are_refused", malformed_texts_are_refused },
	  { "a_name_twice_is_refused", a_name_twice_is_refused }, { "limits_hold", limits_hold },
	  { "values_are_found", values_are_found },
	  { "a_node_is_written_on_one_line", a_node_is_written_on_one_line })
