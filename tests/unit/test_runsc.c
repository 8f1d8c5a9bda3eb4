/* test_runsc.c - finding runsc, and refusing one that is too old. */
#include "cell/cellctl/runsc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "support.h"

/* This program is the runsc that is too old: it prints a version if it is started under that name.
 */
__attribute__((constructor)) static void pretend(void)
{
	static const char text[] = "runsc version 0.0~20221219.0\nspec: 1.0.2-dev\n";

	if (strcmp(program_invocation_name, "runsc") == 0)
		_exit(write(1, text, sizeof(text) - 1) < 0);
}

static void reads_releases(void)
{
	static const struct {
		const char *text;
		uint32_t want;
	} cases[] = {
		{ "runsc version 0.0~20240729.0\nspec: 1.0.2-dev\n", 20240729 },
		{ "runsc version release-20250113.0\nspec: 1.1.0-rc.1\n", 20250113 },
		{ "runsc version 0.0~20221219.0-2+b3\n", 20221219 },
		{ "runsc version 123456789\n", 0 },
		{ "runsc version 1.2.3\nspec: 20240729\n", 0 },
		{ "other 20240729\n", 0 },
		{ "", 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK_CASE(cases[i].text, runsc_release_of(cases[i].text) == cases[i].want);
}

static void refuses_an_old_one(void)
{
	struct err e = { 0 };
	uint32_t release = 0;
	int fd = -1;

	CHECK(runsc_open("/proc/self/exe", &fd, &e) == 0);
	CHECK(runsc_check(fd, &release, &e) < 0);
	CHECK(release == 20221219 && e.code == ERR_UNSUPPORTED);
	CHECK_HAS("text", e.msg, "20240729 or later");
	CHECK_HAS("text", e.msg, "`cordon level install gvisor` gets it");
	(void)close(fd);
}

static void refuses_what_is_none(void)
{
	char path[] = "/tmp/cordon-runsc-XXXXXX";
	struct err e = { 0 };
	uint32_t release = 0;
	int fd = -1, file = mkstemp(path);

	CHECK(file >= 0);
	CHECK(runsc_open("/nonexistent/runsc", &fd, &e) < 0 && fd == -1);
	CHECK(runsc_open("/tmp", &fd, &e) < 0 && e.code == ERR_UNSUPPORTED);
	CHECK(runsc_open(path, &fd, &e) < 0 && e.code == ERR_UNSUPPORTED);
	CHECK(fchmod(file, 0775) == 0);
	CHECK(runsc_open(path, &fd, &e) < 0 && e.code == ERR_DENIED);
	CHECK(fchmod(file, 0755) == 0);
	CHECK(runsc_open(path, &fd, &e) == 0);
	CHECK(runsc_check(fd, &release, &e) < 0 && e.code == ERR_UNSUPPORTED);
	CHECK(unlink(path) == 0 && close(fd) == 0 && close(file) == 0);
}

TEST_MAIN({ "reads releases", reads_releases }, { "refuses an old one", refuses_an_old_one },
	  { "refuses what is none", refuses_what_is_none })
