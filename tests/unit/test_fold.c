/* Goal: spellings that lenient servers take for the same fold to the same. */
#include "lib/policy/fold.h"

#include "support.h"

static void folds_parameters(void)
{
	static const char *const same[] = { "mode",  "Mode",   "MODE",	     " mode",
					    "mode ", "mode[]", "mode[x][y]", "\tmode[" };
	static const char *const others[] = { "mod", "mode2", "[mode]", "m ode", "" };
	char text[32];

	for (size_t i = 0; i < COUNT(same); i++) {
		(void)snprintf(text, sizeof(text), "%s", same[i]);
		fold_parameter(text);
		CHECK_CASE(same[i], strcmp(text, "mode") == 0);
	}
	for (size_t i = 0; i < COUNT(others); i++) {
		(void)snprintf(text, sizeof(text), "%s", others[i]);
		fold_parameter(text);
		CHECK_CASE(others[i], strcmp(text, "mode") != 0);
	}
	(void)snprintf(text, sizeof(text), "%s", "a.b c");
	fold_parameter(text);
	CHECK_STR(text, "a_b_c");
}

static void folds_headers(void)
{
	CHECK(fold_same_header((struct http1_span){ "X_ROLE", 6 }, "x-role"));
	CHECK(fold_same_header((struct http1_span){ "x-role", 6 }, "X_Role"));
	CHECK(!fold_same_header((struct http1_span){ "x-rol", 5 }, "x-role"));
	CHECK(!fold_same_header((struct http1_span){ "x.role", 6 }, "x-role"));
	CHECK(fold_is_list((struct http1_span){ "X-Role", 6 }));
	CHECK(!fold_is_list((struct http1_span){ "User-Agent", 10 }));
}

static const struct {
	const char *path, *folded;
} paths[] = {
	{ "/", "/" },
	{ "/Admin", "/admin" },
	{ "/admin.", "/admin" },
	{ "/admin%20", "/admin" },
	{ "/admin%20.%20/x.", "/admin/x" },
	{ "//a//b", "/a/b" },
	{ "/a%2Fb;x/c", "/a/b/c" },
	{ "/a%3Bx", "/a" },
	{ "/.../a", "/a" },
	{ "/a.b/c", "/a.b/c" },
	{ "*", "*" },
};

static void folds_paths(void)
{
	for (size_t i = 0; i < COUNT(paths); i++) {
		char *ret = malloc(strlen(paths[i].path) + 1);

		CHECK_CASE(paths[i].path, fold_path(paths[i].path, ret) == strlen(paths[i].folded));
		CHECK_CASE(paths[i].path, strcmp(ret, paths[i].folded) == 0);
		free(ret);
	}
}

TEST_MAIN({ "folds parameters", folds_parameters }, { "folds headers", folds_headers },
	  { "folds paths", folds_paths })
