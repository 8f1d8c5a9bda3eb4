/* Goal: a path is joined and cleaned as text, never leaves the root, and never its buffer. */
#include "cell/init/files/file_path.h"

#include "support.h"

static void joins(void)
{
	static const struct {
		const char *base, *path, *want;
	} cases[] = {
		{ "/home/user", "x", "/home/user/x" },
		{ "/home/user", "", "/home/user" },
		{ "/home/user/", "./x//y/", "/home/user/x/y" },
		{ "/home/user", "..", "/home" },
		{ "/home/user", "../../../..", "/" },
		{ "/home/user", "../../etc/passwd", "/etc/passwd" },
		{ "/home/user", "/etc", "/etc" },
		{ "/home/user", "//etc//", "/etc" },
		{ "/home/user", "/", "/" },
		{ "/home/user", "/..", "/" },
		{ "/home/user", "/../a/./b/../c", "/a/c" },
		{ "/home/user", "a/../../b", "/home/b" },
		{ "/home/user", "...", "/home/user/..." },
		{ "/home/user", "..a/.b", "/home/user/..a/.b" },
		{ "/home/user", "a\nb", "/home/user/a\nb" },
		{ "", "", "/" },
		{ "", "x", "/x" },
		{ "relative/home", "x", "/relative/home/x" },
		{ "/../a/..", "x", "/x" },
		{ ".", ".", "/" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char ret[32] = "untouched";

		CHECK_CASE(cases[i].path,
			   file_path_join(cases[i].base, cases[i].path, ret, sizeof(ret)));
		CHECK_STR(ret, cases[i].want);
		CHECK(file_path_join("/elsewhere", cases[i].want, ret, sizeof(ret)));
		CHECK_STR(ret, cases[i].want); /* clean stays clean */
	}
}

static void fits_or_not(void)
{
	for (size_t cap = 0; cap < 12; cap++) {
		char *ret = exact_copy("abcdefghijkl", cap);

		CHECK(file_path_join("/abc", "def", ret, cap) == (cap >= sizeof("/abc/def")));
		CHECK(file_path_join("/", "", ret, cap) == (cap >= 2));
		CHECK(file_path_join("/abc", "/d", ret, cap) == (cap >= 3));
		free(ret);
	}
}

TEST_MAIN({ "joins and cleans", joins }, { "fits or does not", fits_or_not })
