/* bench_plan.c - reads a plan: one contestant a line. An error in it ends the program. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list ap;

	fputs("bench: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

void *zalloc(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		die("out of memory");
	return p;
}

char *copy_string(const char *s)
{
	char *p = strdup(s);

	if (!p)
		die("out of memory");
	return p;
}

uint32_t parse_number(const char *what, const char *text, uint32_t max)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value > max)
		die("%s: \"%s\" is not a number from 0 to %" PRIu32, what, text, max);
	return (uint32_t)value;
}

static char *trim(char *s)
{
	size_t len;

	s += strspn(s, " \t\r\n");
	len = strlen(s);
	while (len && strchr(" \t\r\n", s[len - 1]))
		s[--len] = '\0';
	return s;
}

/* The next blank-separated word at *cursor, or NULL. Writes a terminator behind it. */
static char *next_word(char **cursor)
{
	char *word = *cursor + strspn(*cursor, " \t");
	size_t len = strcspn(word, " \t");

	if (!len)
		return NULL;
	*cursor = word + len;
	if (**cursor)
		*(*cursor)++ = '\0';
	return word;
}

static void parse_option(struct row *row, const char *word)
{
	if (!strncmp(word, "every=", 6)) {
		row->every = parse_number("every", word + 6, ROUNDS_MAX);
		if (!row->every)
			die("%s: every=0 would never run", row->name);
	} else if (!strncmp(word, "user=", 5)) {
		row->user = parse_number("user", word + 5, INT32_MAX);
	} else if (!strncmp(word, "mntns=", 6)) {
		row->mntns = open(word + 6, O_RDONLY | O_CLOEXEC);
		if (row->mntns < 0)
			die("%s: %s: %s", row->name, word + 6, strerror(errno));
	} else {
		die("%s: unknown option \"%s\"", row->name, word);
	}
}

static void add_word(struct row *row, const char *word)
{
	size_t i = row->nwords;

	if (i == WORDS_MAX)
		die("%s: more than %d words", row->name, WORDS_MAX);
	row->words[i] = copy_string(word);
	row->args[i] = row->words[i];
	if (strstr(word, "%d")) {
		row->arg_sizes[i] = strlen(word) + ID_DIGITS;
		row->args[i] = zalloc(row->arg_sizes[i], 1);
	}
	row->nwords++;
}

static void parse_line(struct plan *plan, char *line, unsigned lineno)
{
	char *options = strchr(line, '|');
	char *command = options ? strchr(options + 1, '|') : NULL;
	struct row *row = &plan->rows[plan->nrows];
	char *word;

	if (!options || !command)
		die("line %u: want \"name | options | command\"", lineno);
	if (plan->nrows == ROWS_MAX)
		die("line %u: more than %d contestants", lineno, ROWS_MAX);
	*options++ = '\0';
	*command++ = '\0';

	*row = (struct row){ .name = copy_string(trim(line)), .every = 1, .user = -1, .mntns = -1 };
	options = trim(options);
	while ((word = next_word(&options)))
		parse_option(row, word);
	command = trim(command);
	while ((word = next_word(&command)))
		add_word(row, word);
	/* No search in PATH: it would be timed, and differently for everyone. */
	if (!row->nwords || row->words[0][0] != '/')
		die("line %u: the command must be an absolute path", lineno);
	plan->nrows++;
}

void read_plan(struct plan *plan, const char *path)
{
	FILE *in = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char line[LINE_MAX_BYTES];
	unsigned lineno = 0;

	if (!in)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), in)) {
		char *text;

		lineno++;
		if (strlen(line) == sizeof(line) - 1)
			die("line %u: too long", lineno);
		text = trim(line);
		if (*text && *text != '#')
			parse_line(plan, text, lineno);
	}
	if (ferror(in))
		die("%s: read error", path);
	fclose(in);
	if (!plan->nrows)
		die("%s: no contestants", path);
}

const struct row *find_row(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->nrows; i++)
		if (!strcmp(plan->rows[i].name, name))
			return &plan->rows[i];
	return NULL;
}

int name_width(const struct plan *plan)
{
	size_t width = strlen("cycles per second");

	for (size_t i = 0; i < plan->nrows; i++)
		if (strlen(plan->rows[i].name) > width)
			width = strlen(plan->rows[i].name);
	return (int)width;
}
