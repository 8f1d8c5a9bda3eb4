/* Goal: options are read as the table says, and every mistake names the option it is in. */
#include "cmd/base/options.h"

#include "support.h"

struct fields {
	bool flag, other;
	const char *text;
	struct option_list list;
	uint64_t count, bytes, time, millis;
};

#define FIELD(name) offsetof(struct fields, name)

static const struct option table[] = {
	{ "flag", NULL, OPTION_FLAG, FIELD(flag), 0, 0, "a flag" },
	{ "text", "WORD", OPTION_TEXT, FIELD(text), 0, 0, "a text" },
	{ "list", "ITEM", OPTION_LIST, FIELD(list), 0, 0, "a list" },
	{ "count", "N", OPTION_COUNT, FIELD(count), 1, 100, "a count" },
	{ "bytes", "SIZE", OPTION_BYTES, FIELD(bytes), 1024, 1 << 20, "a size" },
	{ "time", "TIME", OPTION_TIME, FIELD(time), 1, 60000, "a time" },
	{ "millis", "NUMBER", OPTION_MILLIS, FIELD(millis), 10, 10000, "a number" },
	{ "flag-too", NULL, OPTION_FLAG, FIELD(other), 0, 0,
	  "'-. \\ another, whose name begins alike" },
};

static const struct verb verb = {
	.name = "test",
	.usage = "[options] -- word",
	.summary = "Tests.",
	.text = ".first line\n'second line\nwith \\ and -\n",
	.options = table,
	.noptions = COUNT(table),
};

static struct fields f;
static uint64_t given;
static struct err e;

/* Words are separated by one space; "_" is the empty word. */
static int parse(const char *line)
{
	static char copy[4096];
	static char *argv[300];
	int argc = 0;

	(void)snprintf(copy, sizeof(copy), "%s", line);
	for (char *at = copy; *at != '\0';) {
		size_t n = strcspn(at, " ");
		bool last = at[n] == '\0';

		at[n] = '\0';
		argv[argc++] = strcmp(at, "_") == 0 ? at + 1 : at;
		at += n + !last;
	}
	argv[argc] = NULL;
	memset(&f, 0, sizeof(f));
	given = 0x77;
	memset(&e, 0, sizeof(e));
	return options_parse(&verb, argc, argv, &f, &given, &e);
}

static void takes_words(void)
{
	static const struct {
		const char *line;
		int want;
	} cases[] = {
		{ "", 0 },
		{ "word", 0 },
		{ "word --flag", 0 }, /* the command's own */
		{ "--", 1 },
		{ "-- --flag", 1 },
		{ "-- --", 1 },
		{ "- --flag", 0 }, /* a lone dash is a word */
		{ "_ --flag", 0 },
		{ "--flag", 1 },
		{ "--flag --", 2 },
		{ "--flag word", 1 },
		{ "--flag --flag --flag-too word", 3 },
		{ "--text x", 2 },
		{ "--text=x", 1 },
		{ "--text=x word", 1 },
		{ "--text x -- word", 3 },
		{ "--text -- --flag", 3 }, /* "--" is a value here */
		{ "--text=-- -- x", 2 },
		{ "--list=a --list b --list=", 4 },
		{ "--count 5 --bytes 2K --time 1.5 --millis 0.5", 8 },
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK_CASE(cases[i].line, parse(cases[i].line) == cases[i].want);
}

static void fills_the_fields(void)
{
	CHECK(parse("--flag --text a=b --list=x --list y=z --count=007 --bytes 1.5K --time 2s "
		    "--millis=1.25 cmd") == 12);
	CHECK(f.flag && !f.other);
	CHECK_STR(f.text, "a=b");
	CHECK(f.list.n == 2);
	CHECK_STR(f.list.items[0], "x");
	CHECK_STR(f.list.items[1], "y=z");
	CHECK(f.count == 7 && f.bytes == 1536 && f.time == 2000 && f.millis == 1250);
	CHECK(given == 0x7f);
	CHECK(parse("--text=first --text=second --count 1 --count 2 --flag-too") == 7);
	CHECK_STR(f.text, "second"); /* the last one counts */
	CHECK(f.count == 2 && f.other && !f.flag);
	CHECK(given == (1U << 1 | 1U << 3 | 1U << 7));
	CHECK(parse("--text==") == 1);
	CHECK_STR(f.text, "=");
	CHECK(parse("--list _ --list=") == 3 && f.list.n == 2 && *f.list.items[0] == '\0');
}

static void leaves_other_fields_alone(void)
{
	char word[] = "--flag";
	char *argv[] = { word, NULL };
	struct fields before = { .text = "kept", .count = 42, .list = { .n = 1 } };

	CHECK(options_parse(&verb, 1, argv, &before, NULL, &e) ==
	      1); /* nobody asks what was given */
	CHECK_STR(before.text, "kept");
	CHECK(before.count == 42 && before.flag && !before.other && before.list.n == 1);
}

static const struct {
	const char *line, *want;
} mistakes[] = {
	{ "--unknown", "unknown option '--unknown'; see cordon test --help" },
	{ "--fla", "unknown option '--fla'" }, /* no abbreviations */
	{ "--flag-to", "unknown option" },
	{ "--flag-tool", "unknown option" },
	{ "--Flag", "unknown option" },
	{ "---flag", "unknown option '---flag'" },
	{ "--=x", "unknown option '--=x'" },
	{ "-f", "unknown option '-f'" },
	{ "-flag", "unknown option '-flag'" },
	{ "--flag=", "--flag takes no value" },
	{ "--flag=1", "--flag takes no value" },
	{ "--text", "--text needs a value: WORD" },
	{ "--flag --list", "--list needs a value: ITEM" },
	{ "--text=", "--text: must not be empty" },
	{ "--text _", "--text: must not be empty" },
	{ "--count=", "--count: '' is not a whole number" },
	{ "--count x", "--count: 'x' is not a whole number" },
	{ "--count 0", "--count: '0' is out of range (1 to 100)" },
	{ "--count 101", "--count: '101' is out of range" },
	{ "--count --flag", "--count: '--flag' is not a whole number" },
	{ "--bytes 1023", "--bytes: '1023' is out of range (1K to 1M)" },
	{ "--bytes lots", "--bytes: 'lots' is not a size" },
	{ "--time 61", "--time: '61' is out of range" },
	{ "--time never", "--time: 'never' is not a time" },
	{ "--millis 0", "--millis: '0' is out of range" },
	{ "--millis 1/2", "--millis: '1/2' is not a number" },
	{ "--flag --count 1 --text=a --unknown", "unknown option '--unknown'" },
};

static void mistakes_name_their_option(void)
{
	for (size_t i = 0; i < COUNT(mistakes); i++) {
		CHECK_CASE(mistakes[i].line, parse(mistakes[i].line) == -1);
		CHECK_CASE(mistakes[i].line, e.code == ERR_INVALID);
		CHECK_HAS(mistakes[i].line, e.msg, mistakes[i].want);
		CHECK_CASE(mistakes[i].line, given == 0x77); /* written on success only */
	}
}

static void lists_are_bounded(void)
{
	char item[] = "--list=x";
	char *argv[OPTION_LIST_MAX + 2];
	struct fields *exact = calloc(1, sizeof(*exact));

	CHECK(exact != NULL);
	for (size_t i = 0; i <= OPTION_LIST_MAX; i++)
		argv[i] = item;
	argv[OPTION_LIST_MAX + 1] = NULL;
	CHECK(options_parse(&verb, OPTION_LIST_MAX, argv, exact, NULL, &e) == OPTION_LIST_MAX);
	CHECK(exact->list.n == OPTION_LIST_MAX);
	memset(exact, 0, sizeof(*exact));
	CHECK(options_parse(&verb, OPTION_LIST_MAX + 1, argv, exact, NULL, &e) == -1);
	CHECK(e.code == ERR_LIMIT);
	CHECK_HAS("list", e.msg, "--list: given more than 256 times");
	free(exact);
}

static void long_words_are_cut(void)
{
	char line[2000] = "--";

	memset(line + 2, 'x', sizeof(line) - 3);
	line[sizeof(line) - 1] = '\0';
	CHECK(parse(line) == -1);
	CHECK(strlen(e.msg) < 150);
	CHECK_HAS("long", e.msg, "cordon test --help");
}

/* What a function prints, as a string. */
static char *printed(void (*print)(FILE *to))
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);

	CHECK(to != NULL);
	print(to);
	CHECK(fclose(to) == 0 && text != NULL);
	return text;
}

static void print_help(FILE *to)
{
	options_help(&verb, to);
}

static void print_man(FILE *to)
{
	const struct verb bare = {
		.name = "bare", .usage = "", .summary = "Does little.", .text = ""
	};
	const struct verb *const verbs[] = { &verb, &bare };

	options_man(verbs, 2, to);
}

static void help_has_every_option(void)
{
	OWN_MEM char *text = printed(print_help);

	CHECK(strncmp(text, "usage: cordon test [options] -- word\n", 37) == 0);
	CHECK_HAS("summary", text, "\nTests.\n");
	for (size_t i = 0; i < COUNT(table); i++) {
		char want[64];

		(void)snprintf(want, sizeof(want), "\n  --%s%s%s ", table[i].name,
			       table[i].argument == NULL ? "" : " ",
			       table[i].argument == NULL ? "" : table[i].argument);
		CHECK_HAS(table[i].name, text, want);
		CHECK_HAS(table[i].name, text, table[i].help);
	}
}

/* troff must not take a line of ours for a request, nor drop a backslash or a dash. */
static void the_manual_is_troff(void)
{
	OWN_MEM char *text = printed(print_man);

	CHECK(strncmp(text, ".TH CORDON 1\n", 13) == 0);
	CHECK_HAS("first", text, "\n\\&.first line\n");
	CHECK_HAS("second", text, "\n\\&'second line\n");
	CHECK_HAS("third", text, "\nwith \\e and \\-\n");
	CHECK_HAS("help", text, "\n\\&'\\-. \\e another");
	CHECK_HAS("option", text, "\n.B \\-\\-flag\\-too");
	CHECK_HAS("option", text, "\n.B \\-\\-text WORD\n");
	CHECK_HAS("bare", text, "cordon bare");
	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		static const char *const requests[] = { ".TH ",	 ".SH ",  ".B ",   ".br\n",
							".PP\n", ".nf\n", ".fi\n", ".TP\n" };
		bool known = false;

		line += *line == '\n';
		if (*line != '.' && *line != '\'')
			continue;
		for (size_t i = 0; i < COUNT(requests); i++)
			known |= strncmp(line, requests[i], strlen(requests[i])) == 0;
		CHECK_CASE(line, known);
	}
}

static void letters(void)
{
	static const struct option lettered[] = {
		{ "all", NULL, OPTION_FLAG, FIELD(flag), 0, 0, "a flag", 'a' },
		{ "both", NULL, OPTION_FLAG, FIELD(other), 0, 0, "another", 'b' },
		{ "text", "WORD", OPTION_TEXT, FIELD(text), 0, 0, "a text", 't' },
		{ "count", "N", OPTION_COUNT, FIELD(count), 1, 100, "no letter" },
	};
	static const struct verb v = { .name = "test",
				       .usage = "",
				       .summary = "",
				       .text = "",
				       .options = lettered,
				       .noptions = COUNT(lettered) };
	static const struct {
		const char *words[4];
		int want;
		const char *text;
		bool a, b;
	} cases[] = {
		{ { "-a", "x" }, 1, NULL, true, false },
		{ { "-ab" }, 1, NULL, true, true },
		{ { "-b", "-a", "--" }, 3, NULL, true, true },
		{ { "-t", "x", "y" }, 2, "x", false, false },
		{ { "-tx" }, 1, "x", false, false },
		{ { "-abtab" }, 1, "ab", true, true },
		{ { "-at", "-b" }, 2, "-b", true, false },
		{ { "--all", "-t", "x" }, 3, "x", true, false },
		{ { "-t" }, -1, NULL, false, false },
		{ { "-ax" }, -1, NULL, true, false },
		{ { "-a=1" }, -1, NULL, true, false },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char words[4][8], *argv[5] = { NULL };
		int argc = 0;

		for (; argc < 4 && cases[i].words[argc] != NULL; argc++) {
			(void)snprintf(words[argc], sizeof(words[argc]), "%s",
				       cases[i].words[argc]);
			argv[argc] = words[argc];
		}
		memset(&f, 0, sizeof(f));
		CHECK_CASE(cases[i].words[0],
			   options_parse(&v, argc, argv, &f, NULL, &e) == cases[i].want);
		if (cases[i].want < 0)
			continue;
		CHECK_CASE(cases[i].words[0], f.flag == cases[i].a && f.other == cases[i].b);
		CHECK_STR(f.text == NULL ? "-" : f.text,
			  cases[i].text == NULL ? "-" : cases[i].text);
	}
}

TEST_MAIN({ "takes words", takes_words }, { "fills the fields", fills_the_fields },
	  { "leaves other fields alone", leaves_other_fields_alone },
	  { "mistakes name their option", mistakes_name_their_option },
	  { "lists are bounded", lists_are_bounded }, { "long words are cut", long_words_are_cut },
	  { "help has every option", help_has_every_option },
	  { "the manual is troff", the_manual_is_troff }, { "letters", letters })
