/* Goal: what a client chooses for a session's network becomes the document it means, or is refused
 * by name; "none" is known from everything else; nobody is shown a password. */
#include "choice.h"

#include "support.h"

static struct err e;
static char *text;

static int take(const char *json, enum policy_layer layer)
{
	free(text);
	e = (struct err){ 0 };
	return choice_read(json, strlen(json), layer, &text, &e);
}

static const char *name_of(const char *json)
{
	static char name[CHOICE_NAME_MAX];

	if (take(json, POLICY_SESSION) < 0)
		return e.msg;
	choice_name(text, name);
	return name;
}

static void words(void)
{
	CHECK(take("\"pypi\"", POLICY_SESSION) == 0);
	CHECK_STR(text, "{\"version\":1,\"extends\":[\"pypi\"]}");
	CHECK(take("[\"pypi\",\"npm\"]", POLICY_SESSION) == 0);
	CHECK_STR(text, "{\"version\":1,\"extends\":[\"pypi\",\"npm\"]}");
	CHECK(take("{\"version\":1,\"extends\":\"pypi\"}", POLICY_SESSION) == 0);
	CHECK_STR(text, "{\"version\":1,\"extends\":[\"pypi\"]}");
	free(text);
	text = NULL;
	CHECK(choice_presets("pypi,npm", &text, &e) == 0);
	CHECK_STR(text, "{\"version\":1,\"extends\":[\"pypi\",\"npm\"]}");
	CHECK_STR(name_of("\"pypi\""), "pypi");
	CHECK_STR(name_of("[\"pypi\",\"npm\"]"), "pypi+npm");
	CHECK_STR(name_of("{\"version\":1,\"rules\":[\"a.example\"]}"), "custom");
	CHECK_STR(name_of("{\"version\":1,\"extends\":[\"pypi\"],\"rules\":[\"a.example\"]}"),
		  "pypi+custom");
}

static void refused(void)
{
	static const char *const bad[] = { "",
					   "null",
					   "5",
					   "[]",
					   "[5]",
					   "\"nothing-of-that-name\"",
					   "[\"pypi\",\"\"]",
					   "{\"version\":2}",
					   "{\"version\":1,\"version\":1}",
					   "{\"version\":1,\"unheard\":1}",
					   "{\"version\":1,\"private\":[\"10.0.0.0/8\"]}",
					   "{\"version\":1,\"rules\":[{\"host\":\"a b\"}]}" };

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], take(bad[i], POLICY_SESSION) < 0 && text == NULL &&
					   e.code == ERR_INVALID && e.msg[0] != '\0');
	CHECK(take("{\"version\":1,\"private\":[\"10.0.0.0/8\"]}", POLICY_NODE) == 0);
	free(text);
	text = NULL;
	CHECK(choice_presets("", &text, &e) < 0);
	CHECK(choice_presets("pypi,,npm", &text, &e) < 0);
}

static void too_long(void)
{
	static char long_one[CHOICE_SESSION_MAX + 64];

	memset(long_one, ' ', sizeof(long_one) - 1);
	memcpy(long_one, "{\"version\":1}", 13);
	CHECK(take(long_one, POLICY_SESSION) < 0 && strstr(e.msg, "longer than") != NULL);
	CHECK(take(long_one, POLICY_TENANT) == 0);
	free(text);
	text = NULL;
}

static void none(void)
{
	CHECK(take("\"none\"", POLICY_SESSION) == 0 && choice_is_none(text));
	CHECK(take("{\"version\":1,\"extends\":[\"none\"]}", POLICY_SESSION) == 0);
	CHECK(choice_is_none(text));
	CHECK(take("\"deny\"", POLICY_SESSION) == 0 && !choice_is_none(text));
	CHECK(take("[\"none\",\"pypi\"]", POLICY_SESSION) == 0 && !choice_is_none(text));
	CHECK(take("{\"version\":1,\"extends\":[\"none\"],\"rules\":[\"a.example\"]}",
		   POLICY_SESSION) == 0);
	CHECK(!choice_is_none(text));
	CHECK(take("{\"version\":1,\"extends\":[\"none\"],\"default\":\"allow\"}",
		   POLICY_SESSION) == 0);
	CHECK(!choice_is_none(text));
	CHECK(!choice_is_none("") && !choice_is_none("{}"));
}

static void shown(void)
{
	OWN_MEM char *seen = NULL, *all = NULL, *less = NULL;

	CHECK(take("{\"version\":1,\"proxy\":{\"address\":\"p.example:1080\",\"username\":\"u\","
		   "\"password\":\"hunter2\"}}",
		   POLICY_SESSION) == 0);
	seen = choice_shown(text, true);
	CHECK(seen != NULL && strstr(seen, "hunter2") == NULL && strstr(seen, "p.example") != NULL);
	CHECK(strstr(text, "hunter2") != NULL);
	all = choice_shown("{\"private\":[\"10.0.0.0/8\"]}", true);
	less = choice_shown("{\"private\":[\"10.0.0.0/8\"]}", false);
	CHECK_STR(all, "{\"private\":[\"10.0.0.0/8\"]}");
	CHECK_STR(less, "{}");
	free(less);
	less = choice_shown("{\"rules\":[{\"layer\":\"node\",\"set_headers\":{\"A\":\"hunter2\"}},"
			    "{\"layer\":\"session\",\"set_headers\":{\"A\":\"own\"}}]}",
			    false);
	CHECK_STR(less, "{\"rules\":[{\"layer\":\"node\",\"set_headers\":{\"A\":\"(not shown)\"}},"
			"{\"layer\":\"session\",\"set_headers\":{\"A\":\"own\"}}]}");
	free(text);
	text = NULL;
}

TEST_MAIN({ "presets by name", words }, { "what is wrong is refused", refused },
	  { "a session's is not long", too_long }, { "none is nothing else", none },
	  { "passwords and private addresses stay here", shown })
