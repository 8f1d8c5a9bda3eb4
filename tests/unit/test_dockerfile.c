/* Goal: a Dockerfile becomes the recipe that Docker's rules mean, and what is not supported is said
 * with its line; .dockerignore and the patterns of COPY choose the files that Docker would. */
#include "cmd/client/dockerfile.h"
#include "cmd/client/dockerignore.h"

#include "test.h"

static int read_text(const char *text, struct dockerfile *d, struct err *e)
{
	static const char *const args[] = { "VERSION=9" };

	return dockerfile_read(text, strlen(text), args, 1, d, e);
}

/* "TYPE a|b" for each step. */
static void show(const struct dockerfile *d, char *ret, size_t cap)
{
	size_t n = 0;

	ret[0] = '\0';
	for (unsigned i = 0; i < d->nsteps; i++) {
		n += (size_t)snprintf(ret + n, cap - n, "%s ", d->steps[i].type);
		for (unsigned k = 0; k < d->steps[i].argc; k++)
			n += (size_t)snprintf(ret + n, cap - n, "%s%s", k == 0 ? "" : "|",
					      d->steps[i].args[k]);
		n += (size_t)snprintf(ret + n, cap - n, "\n");
	}
}

static const struct {
	const char *text, *from, *steps, *start;
} good[] = {
	{ "FROM debian\n", "debian", "", NULL },
	{ "# syntax=x\n\n from debian:13 AS base\n", "debian:13", "", NULL },
	{ "ARG V=13\nFROM debian:$V", "debian:13", "", NULL },
	{ "FROM --platform=linux/amd64 a", "a", "", NULL },
	{ "FROM a\nRUN apt-get update && \\\n  # a comment\n  apt-get install -y x\n", "a",
	  "RUN apt-get update &&   apt-get install -y x\n", NULL },
	{ "FROM a\nRUN [\"echo\", \"it's\"]", "a", "RUN 'echo' 'it'\\''s'\n", NULL },
	{ "FROM a\nCOPY --chown=u:g --chmod=0755 x y /d/", "a",
	  "COPY x|/d/|u:g|0755\nCOPY y|/d/|u:g|0755\n", NULL },
	{ "FROM a\nADD \"a b\" .", "a", "COPY a b|.||\n", NULL },
	{ "FROM a\nENV A=1 B=\"two words\" C='$A'\nENV OLD a b\nCOPY $A /x", "a",
	  "ENV A|1|B|two words|C|$A\nENV OLD|a b\nCOPY 1|/x||\n", NULL },
	{ "FROM a\nARG VERSION=1\nARG NONE\nWORKDIR /v$VERSION", "a",
	  "ENV VERSION|9\nWORKDIR /v9\n", NULL },
	{ "FROM a\nUSER me\nLABEL a=b\nEXPOSE 80\nHEALTHCHECK NONE\n", "a", "USER me\n", NULL },
	{ "FROM a\nENTRYPOINT [\"serve\"]\nCMD [\"--port\",\"80\"]", "a", "",
	  "'serve' '--port' '80'" },
	{ "FROM a\nCMD one\nCMD two three", "a", "", "two three" },
};

static void good_files(void)
{
	char got[1024];
	struct dockerfile d;
	struct err e;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (read_text(good[i].text, &d, &e) < 0)
			FAIL(e.msg);
		CHECK_STR(d.from, good[i].from);
		show(&d, got, sizeof(got));
		CHECK_STR(got, good[i].steps);
		CHECK((d.start == NULL) == (good[i].start == NULL));
		if (d.start != NULL)
			CHECK_STR(d.start, good[i].start);
		dockerfile_release(&d);
	}
}

/* Each stage has its own steps, variables and start command; ARG before the first FROM is for all.
 */
static void stages(void)
{
	static const char text[] = "ARG G=g\nFROM $G AS One\nENV A=a G=other\nCMD x\nRUN 1\n"
				   "FROM one AS two\nCOPY --from=0 /s /d\nFROM $G$A\n"
				   "COPY --from=TWO --chown=u s d\nWORKDIR /w\n";
	struct dockerfile d;
	struct err e;

	if (read_text(text, &d, &e) < 0)
		FAIL(e.msg);
	CHECK(d.number == 2 && d.before->number == 1 && d.before->before->number == 0 &&
	      d.before->before->before == NULL);
	CHECK_STR(d.from, "g");
	CHECK(d.start == NULL && d.name == NULL && d.from_stage == NULL && d.nsteps == 2);
	CHECK(d.steps[0].stage == d.before && strcmp(d.steps[0].args[2], "u") == 0);
	CHECK_STR(d.before->name, "two");
	CHECK(d.before->from_stage == d.before->before && d.before->nsteps == 1 &&
	      d.before->steps[0].stage == d.before->before);
	CHECK_STR(d.before->before->from, "g");
	CHECK_STR(d.before->before->name, "One");
	CHECK(d.before->before->nsteps == 2);
	dockerfile_release(&d);
}

static void bad_files(void)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "", "no FROM" },
		{ "RUN x", "Dockerfile:1: FROM must come first" },
		{ "FROM a\n\nFROM b AS", "Dockerfile:3: what follows the image" },
		{ "FROM a AS 1", "Dockerfile:1: not the name of a stage" },
		{ "FROM a AS b c", "Dockerfile:1: not the name of a stage" },
		{ "FROM a\nCOPY --from=b x y", "Dockerfile:2: there is no such stage before: b" },
		{ "FROM a AS b\nCOPY --from=b x y", "Dockerfile:2: there is no such stage" },
		{ "FROM a\nFROM b\nCOPY --from=1 x y", "Dockerfile:3: there is no such stage" },
		{ "FROM a\nFROM b\nCOPY --from=0 *.c y", "Dockerfile:3: patterns" },
		{ "FROM scratch", "scratch" },
		{ "FROM a\nCOPY --link x y", "Dockerfile:2: this option" },
		{ "FROM a\nCOPY x", "source and a destination" },
		{ "FROM a\nADD https://example.com/x /x", "only files" },
		{ "FROM a\nENV =x", "NAME=value" },
		{ "FROM a\nRUN --mount=type=cache x", "options of RUN" },
		{ "FROM a\nRUN <<EOF\nx\nEOF", "here-documents" },
		{ "FROM a\nWORKDIR", "missing" },
		{ "FROM a\nCMD [\"x\"", "JSON" },
		{ "FROM a\nONBUILD RUN x", "not known" },
	};
	struct dockerfile d;
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(read_text(bad[i].text, &d, &e) < 0);
		if (strstr(e.msg, bad[i].why) == NULL)
			FAIL(e.msg);
		dockerfile_release(&d);
	}
}

/* A word has 64 KiB with its variables, and is refused beyond, not cut. */
static void words_at_their_bound(void)
{
	static char text[200000], half[32769];
	struct dockerfile d;
	struct err e;

	memset(half, 'x', sizeof(half) - 1);
	for (unsigned more = 0; more < 2; more++) {
		(void)snprintf(text, sizeof(text), "FROM a\nENV H=%s\nWORKDIR /${H}%.*s\n", half,
			       (int)(32767 + more), half);
		if (more == 0) {
			CHECK(read_text(text, &d, &e) == 0);
		} else {
			CHECK(read_text(text, &d, &e) < 0);
			CHECK(strstr(e.msg, "Dockerfile:3: a word with its variables") != NULL);
		}
		dockerfile_release(&d);
	}
}

static void ignored_files(void)
{
	static const char text[] = "# comment\n*.log\n/build/\n**/tmp\nsecret*\n!secret.pub\n";
	static const struct {
		const char *path;
		bool excluded;
	} table[] = { { "a.log", true },     { "x/a.log", false },   { "build", true },
		      { "build/x", true },   { "src/build", false }, { "tmp", true },
		      { "a/b/tmp/c", true }, { "secret.key", true }, { "secret.pub", false },
		      { "a", false } };
	static struct dockerignore d;

	CHECK(dockerignore_read(text, strlen(text), &d));
	CHECK(dockerignore_may_keep(&d));
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (dockerignore_excludes(&d, table[i].path) != table[i].excluded)
			FAIL(table[i].path);
}

static void sources_of_copy(void)
{
	static const struct {
		const char *pattern, *path;
		enum dockerignore_fit want;
	} table[] = {
		{ ".", "a/b", DOCKERIGNORE_YES },
		{ "a", "a", DOCKERIGNORE_YES },
		{ "a", "a/b", DOCKERIGNORE_YES },
		{ "a/b", "a", DOCKERIGNORE_ANCESTOR },
		{ "a/b", "c", DOCKERIGNORE_NO },
		{ "./a/", "a/x", DOCKERIGNORE_YES },
		{ "*.txt", "x.txt", DOCKERIGNORE_YES },
		{ "*.txt", "d/x.txt", DOCKERIGNORE_NO },
		{ "d/*.txt", "d", DOCKERIGNORE_ANCESTOR },
		{ "d/?.[a-c]", "d/x.b", DOCKERIGNORE_YES },
		{ "d/?.[a-c]", "d/x.d", DOCKERIGNORE_NO },
		{ "**/x", "a/b/x", DOCKERIGNORE_YES },
		{ "**/x", "a", DOCKERIGNORE_ANCESTOR },
		{ "a*a*a*b", "aaaaaaaaaaaaaaaaac", DOCKERIGNORE_NO },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (dockerignore_fits(table[i].pattern, table[i].path) != table[i].want)
			FAIL(table[i].pattern);
}

TEST_MAIN({ "good files", good_files }, { "stages", stages }, { "bad files", bad_files },
	  { "words at their bound", words_at_their_bound }, { "ignored files", ignored_files },
	  { "sources of COPY", sources_of_copy })
