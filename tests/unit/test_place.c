/* Goal: SESSION:PATH and local names are told apart, and names taken from paths are names. */
#include "cmd/client/target.h"

#include "support.h"

static void splits(void)
{
	static const struct {
		const char *word, *id, *path; /* id NULL: local */
	} cases[] = {
		{ "ses_1:/etc/passwd", "ses_1", "/etc/passwd" },
		{ "ses_1:rel/a:b", "ses_1", "rel/a:b" },
		{ "ses_1:", "ses_1", "." },
		{ "a:b", "a", "b" },
		{ "./a:b", NULL, NULL },
		{ "/a:b", NULL, NULL },
		{ "dir/ses:x", NULL, NULL },
		{ "plain", NULL, NULL },
		{ ":x", NULL, NULL },
		{ "", NULL, NULL },
		{ "-", NULL, NULL },
		{ "a b:c", NULL, NULL },
		{ "0123456789012345678901234567890123456789:x", NULL, NULL }, /* too long */
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *path = NULL;
		char id[32] = "";
		bool remote = session_path_split(cases[i].word, id, sizeof(id), &path);

		CHECK_CASE(cases[i].word, remote == (cases[i].id != NULL));
		if (!remote)
			continue;
		CHECK_STR(id, cases[i].id);
		CHECK_STR(path, cases[i].path);
	}
}

static void names(void)
{
	static const struct {
		const char *path, *want;
	} cases[] = { { "a", "a" },	{ "/a/b", "b" },  { "a/b///", "b" }, { "a/.b", ".b" },
		      { "/", NULL },	{ "", NULL },	  { ".", NULL },     { "a/..", NULL },
		      { "a/./", NULL }, { "...", "..." }, { "//", NULL } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		char name[16];
		bool found = session_path_name(cases[i].path, name, sizeof(name));

		CHECK_CASE(cases[i].path, found == (cases[i].want != NULL));
		if (found)
			CHECK_STR(name, cases[i].want);
	}
}

TEST_MAIN({ "splits", splits }, { "names", names })
