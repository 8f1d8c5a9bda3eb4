/* complete.c - see complete.h. Options and their values are those of the verb's table. Arguments
 * are read from the verb's usage: "ls | show NAME | rm NAME" has three forms, lower case stands for
 * itself, upper case for a kind of value. */
#include "cmd/base/complete.h"

#include <ctype.h>
#include <string.h>

#define FORMS_MAX 16
#define TOKENS_MAX 6

static const char *const names[COMPLETE_WANTS] = {
	[COMPLETE_NOTHING] = "@nothing",     [COMPLETE_FILES] = "@files",
	[COMPLETE_COMMAND] = "@command",     [COMPLETE_PRESETS] = "@presets",
	[COMPLETE_SESSIONS] = "@sessions",   [COMPLETE_EXECUTIONS] = "@executions",
	[COMPLETE_PLACES] = "@places",	     [COMPLETE_TEMPLATES] = "@templates",
	[COMPLETE_SNAPSHOTS] = "@snapshots", [COMPLETE_VOLUMES] = "@volumes",
	[COMPLETE_MOUNTS] = "@mounts",	     [COMPLETE_SECRETS] = "@secrets",
};

const char *complete_name(enum complete_want want)
{
	return names[want];
}

enum complete_want complete_find(const char *name)
{
	for (unsigned i = 0; i < COMPLETE_WANTS; i++)
		if (strcmp(names[i], name) == 0)
			return (enum complete_want)i;
	return COMPLETE_NOTHING;
}

void complete_print(const char *word, const char *description, FILE *to)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/@+-";

	if (*word != '\0' && word[strspn(word, safe)] == '\0')
		(void)fprintf(to, "%s\t%s\n", word, description);
}

void complete_ask_shell(enum complete_want want, FILE *to)
{
	if (want == COMPLETE_COMMAND)
		(void)fputs(":command\n", to);
	else if (want == COMPLETE_FILES || want == COMPLETE_PRESETS || want == COMPLETE_PLACES)
		(void)fputs(":files\n", to);
	if (want == COMPLETE_MOUNTS || want == COMPLETE_PLACES)
		(void)fputs(":nospace\n", to);
}

/* ---- the forms of a usage */

struct token {
	const char *p;
	size_t n;
};

/* One form of a usage: "show NAME" in "ls | show NAME". Completion compares the typed words with
 * its tokens. */
struct form {
	struct token tokens[TOKENS_MAX];
	size_t n;
	bool repeats;	  /* the last token */
	bool has_command; /* behind "--" */
};

static bool is_options(const char *p)
{
	return p[0] == '-' || strncmp(p, "options", 7) == 0 || strncmp(p, "OPTION", 6) == 0;
}

/* The length of the group "[...]" that begins here. */
static size_t group_length(const char *p)
{
	size_t n = 0;
	int depth = 0;

	do {
		depth += p[n] == '[' ? 1 : p[n] == ']' ? -1 : 0;
		n++;
	} while (depth > 0 && p[n] != '\0');
	return n;
}

/* Up to a space, or to the end of the group around it. NAME[:TAG] is one token. */
static size_t token_length(const char *p)
{
	size_t n = 0;

	while (p[n] != '\0' && p[n] != ' ' && p[n] != ']')
		n += p[n] == '[' ? group_length(p + n) : 1;
	return n;
}

/* "NAME..." means that the last token may stand again and again. */
static void add_token(struct form *f, const char *p, size_t n)
{
	if (n >= 3 && strncmp(p + n - 3, "...", 3) == 0) {
		f->repeats = true;
		n -= 3;
	}
	if (n > 0 && f->n < TOKENS_MAX)
		f->tokens[f->n++] = (struct token){ p, n };
}

/* Split a usage into its forms. Tokens beyond the bounds are dropped: completion then offers
 * less and never fails. */
static size_t read_forms(const char *usage, struct form forms[FORMS_MAX])
{
	size_t n = 0;

	memset(forms, 0, sizeof(struct form) * FORMS_MAX);
	for (const char *p = usage; *p != '\0' && n < FORMS_MAX;) {
		struct form *f = &forms[n];
		size_t length = token_length(p);

		if (*p == ' ' || *p == ']' || (*p == '[' && !is_options(p + 1))) {
			p++;
			continue;
		}
		if (*p == '[') {
			p += group_length(p);
			continue;
		}
		if (strncmp(p, "| ", 2) == 0)
			n++;
		else if (strncmp(p, "-- ", 3) == 0)
			f->has_command = true;
		else if (*p != '-' && !f->has_command)
			add_token(f, p, length);
		p += length;
	}
	return n < FORMS_MAX ? n + 1 : n;
}

/* Lower case stands for itself, upper case for a kind of value. */
static bool is_literal(const struct token *t)
{
	return islower((unsigned char)t->p[0]) != 0;
}

/* Is the word one of "a|b|c"? */
static bool is_one_of(const struct token *t, const char *word)
{
	size_t n = strlen(word), at = 0;

	while (at < t->n) {
		size_t part = strcspn(t->p + at, "| ]");

		if (part > t->n - at)
			part = t->n - at;
		if (part == n && strncmp(t->p + at, word, n) == 0)
			return true;
		at += part + 1;
	}
	return false;
}

static void print_literals(const struct token *t, FILE *to)
{
	char word[64];

	for (size_t at = 0; at < t->n;) {
		size_t part = strcspn(t->p + at, "| ]");

		if (part > t->n - at)
			part = t->n - at;
		(void)snprintf(word, sizeof(word), "%.*s", (int)part, t->p + at);
		complete_print(word, "", to);
		at += part + 1;
	}
}

/* The kind of value behind a placeholder. A name alone says it for every verb, except NAME,
 * which means another resource for each verb. */
static enum complete_want want_of(const struct verb *v, const struct token *t)
{
	static const struct {
		const char *verb, *token; /* verb NULL: any */
		enum complete_want want;
	} wants[] = {
		{ NULL, "SESSION", COMPLETE_SESSIONS },
		{ NULL, "EXECUTION", COMPLETE_EXECUTIONS },
		{ NULL, "FROM", COMPLETE_PLACES },
		{ NULL, "TO", COMPLETE_PLACES },
		{ NULL, "FILE", COMPLETE_FILES },
		{ NULL, "DIR", COMPLETE_FILES },
		{ NULL, "SNAPSHOT", COMPLETE_SNAPSHOTS },
		{ "template", "NAME", COMPLETE_TEMPLATES },
		{ "volume", "NAME", COMPLETE_VOLUMES },
		{ "secret", "NAME", COMPLETE_SECRETS },
		{ "policy", "NAME", COMPLETE_PRESETS },
	};
	size_t n = strcspn(t->p, "|[] .");

	for (size_t i = 0; i < COUNT(wants); i++)
		if ((wants[i].verb == NULL || strcmp(wants[i].verb, v->name) == 0) &&
		    strlen(wants[i].token) == n && strncmp(t->p, wants[i].token, n) == 0)
			return wants[i].want;
	return COMPLETE_NOTHING;
}

/* Do the words so far fit this form? Only by its own words, if literal. */
static bool complete_fits(const struct form *f, char **words, size_t n, bool literal)
{
	for (size_t i = 0; i < n; i++) {
		const struct token *t = i < f->n ? &f->tokens[i] : NULL;

		if (t == NULL && !(f->repeats || f->has_command))
			return false;
		if (t == NULL)
			return true;
		if (is_literal(t) ? !is_one_of(t, words[i]) : literal && i == 0)
			return false;
	}
	return true;
}

static bool is_same(const struct token *a, const struct token *b)
{
	return b != NULL && a->n == b->n && strncmp(a->p, b->p, a->n) == 0;
}

/* The argument behind n others. */
static enum complete_want complete_argument(const struct verb *v, char **words, size_t n, FILE *to)
{
	struct form forms[FORMS_MAX];
	size_t nforms = read_forms(v->usage, forms);
	enum complete_want want = COMPLETE_NOTHING;
	const struct token *last = NULL;
	bool literal = false;

	for (size_t i = 0; i < nforms && n > 0; i++)
		literal |= complete_fits(&forms[i], words, n, true);
	for (size_t i = 0; i < nforms; i++) {
		const struct form *f = &forms[i];
		const struct token *t = n < f->n ? &f->tokens[n] : NULL;

		if (!complete_fits(f, words, n, literal))
			continue;
		if (t == NULL && f->repeats && f->n > 0)
			t = &f->tokens[f->n - 1];
		if (t == NULL)
			want = f->has_command ? COMPLETE_COMMAND : want;
		else if (is_literal(t) && !is_same(t, last))
			print_literals(t, to);
		else if (want == COMPLETE_NOTHING)
			want = want_of(v, t);
		last = t;
	}
	return want;
}

/* ---- options */

/* Without values in the table, the placeholder of a file or folder is enough: the shell
 * completes paths itself. */
static enum complete_want complete_value(const struct option *o, FILE *to)
{
	char word[64];

	if (o->values == NULL)
		return o->argument != NULL && (strstr(o->argument, "FILE") != NULL ||
					       strstr(o->argument, "DIR") != NULL ||
					       strncmp(o->argument, "SRC", 3) == 0)
			       ? COMPLETE_FILES
			       : COMPLETE_NOTHING;
	if (o->values[0] == '@')
		return complete_find(o->values);
	for (const char *at = o->values; *at != '\0';) {
		size_t n = strcspn(at, " ");

		(void)snprintf(word, sizeof(word), "%.*s", (int)n, at);
		complete_print(word, "", to);
		at += n + (at[n] == ' ');
	}
	return COMPLETE_NOTHING;
}

static void print_options(const struct verb *v, FILE *to)
{
	char word[64];

	for (size_t i = 0; i < v->noptions; i++) {
		(void)snprintf(word, sizeof(word), "--%s", v->options[i].name);
		complete_print(word, v->options[i].help, to);
	}
}

enum complete_want complete_words(const struct verb *v, int argc, char **argv, FILE *to)
{
	const struct option *open = NULL; /* waits for its value */
	char *words[TOKENS_MAX + 1];
	size_t n = 0;

	for (int i = 0; i + 1 < argc; i++) {
		if (open != NULL)
			open = NULL;
		else if (strcmp(argv[i], "--") == 0)
			return COMPLETE_COMMAND;
		else if (argv[i][0] == '-' && argv[i][1] != '\0')
			open = options_open(v, argv[i]);
		else if (n < COUNT(words))
			words[n++] = argv[i];
	}
	if (open != NULL)
		return complete_value(open, to);
	if (argc > 0 && argv[argc - 1][0] == '-') {
		print_options(v, to);
		return COMPLETE_NOTHING;
	}
	return complete_argument(v, words, n, to);
}
