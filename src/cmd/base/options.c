#include "cmd/base/options.h"

#include <string.h>

#include "lib/base/similar.h"
#include "lib/base/units.h"

/* Find "--name" or "--name=value". *ret_value is what follows the '=', or NULL. */
static const struct option *options_match(const struct verb *v, const char *word,
					  const char **ret_value)
{
	const char *name = word + 2;
	size_t n = strcspn(name, "=");

	for (size_t i = 0; i < v->noptions; i++) {
		const struct option *o = &v->options[i];

		if (strlen(o->name) == n && strncmp(o->name, name, n) == 0) {
			*ret_value = name[n] == '=' ? name + n + 1 : NULL;
			return o;
		}
	}
	return NULL;
}

/* Check the value against the option's own bounds. The message of an error names the bounds, and
 * options_take() puts the option's name before it. */
static int set_number(const struct option *o, const char *value, uint64_t *field, struct err *e)
{
	switch (o->kind) {
	case OPTION_COUNT:
		return units_count(value, o->min, o->max, field, e);
	case OPTION_BYTES:
		return units_bytes(value, o->min, o->max, field, e);
	case OPTION_TIME:
		return units_time_ms(value, o->min, o->max, field, e);
	case OPTION_MILLIS:
		return units_millis(value, o->min, o->max, field, e);
	case OPTION_FLAG:
	case OPTION_TEXT:
	case OPTION_SPAN:
	case OPTION_JSON:
	case OPTION_WORD:
	case OPTION_LIST:
	case OPTION_PAIRS:
		break;
	}
	return err_set(e, ERR_SYSTEM, "option of unknown kind");
}

/* Store a value in the caller's structure. Texts and lists borrow the words of argv, so the
 * structure lives no longer than argv does. */
static int options_set(const struct option *o, const char *value, void *fields, struct err *e)
{
	void *field = (char *)fields + o->offset;
	struct option_list *list;

	switch (o->kind) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return 0;
	case OPTION_WORD:
		*(const char **)field = value == NULL ? "" : value;
		return 0;
	case OPTION_TEXT:
	case OPTION_SPAN:
	case OPTION_JSON:
		if (*value == '\0')
			return err_set(e, ERR_INVALID, "must not be empty");
		*(const char **)field = value;
		return 0;
	case OPTION_LIST:
	case OPTION_PAIRS:
		list = field;
		if (list->n == OPTION_LIST_MAX)
			return err_set(e, ERR_LIMIT, "given more than %d times", OPTION_LIST_MAX);
		list->items[list->n++] = value;
		return 0;
	case OPTION_COUNT:
	case OPTION_BYTES:
	case OPTION_TIME:
	case OPTION_MILLIS:
		break;
	}
	return set_number(o, value, field, e);
}

/* One walk over a command line. Bit i of `given` means that row i of the verb's table was given,
 * so a table has at most 64 rows. */
struct parse {
	const struct verb *v;
	int argc, at;
	char **argv;
	void *fields;
	uint64_t given;
};

/* One option. Its value, unless it is in the same word, is the next word. */
static int options_take(struct parse *p, const struct option *o, const char *value, struct err *e)
{
	if (o->kind == OPTION_FLAG && value != NULL)
		return err_set(e, ERR_INVALID, "--%s takes no value", o->name);
	if (o->kind != OPTION_FLAG && o->kind != OPTION_WORD && value == NULL) {
		if (p->at == p->argc)
			return err_set(e, ERR_INVALID, "--%s needs a value: %s", o->name,
				       o->argument);
		value = p->argv[p->at++];
	}
	if (options_set(o, value, p->fields, e) < 0)
		return err_wrap(e, "--%s", o->name);
	p->given |= 1ULL << (o - p->v->options);
	return 0;
}

/* The usual mistake is a misspelt name. So the message names the most similar option, if one is
 * near enough. */
static int options_unknown(const struct verb *v, const char *word, struct err *e)
{
	char name[SIMILAR_WORD_MAX + 1] = "";
	struct similar s = { .word = name };

	if (strncmp(word, "--", 2) == 0)
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (size_t i = 0; i < v->noptions; i++)
		similar_offer(&s, v->options[i].name);
	if (s.best != NULL)
		return err_set(e, ERR_INVALID, "unknown option '%.60s'; did you mean --%s?", word,
			       s.best);
	return err_set(e, ERR_INVALID, "unknown option '%.60s'; see cordon %s --help", word,
		       v->name);
}

/* -h is --help of every verb, unless the verb uses the letter itself. */
static const struct option *find_letter(const struct verb *v, char letter)
{
	const struct option *help = NULL;

	for (size_t i = 0; i < v->noptions; i++) {
		if (v->options[i].letter == letter)
			return &v->options[i];
		if (letter == 'h' && strcmp(v->options[i].name, "help") == 0)
			help = &v->options[i];
	}
	return help;
}

/* Letters may stand together, as in -it. The first one with a value takes the rest of the word,
 * or the next word. */
static int take_letters(struct parse *p, const char *word, struct err *e)
{
	for (const char *c = word + 1; *c != '\0'; c++) {
		const struct option *o = find_letter(p->v, *c);

		if (o == NULL)
			return options_unknown(p->v, word, e);
		if (o->kind != OPTION_FLAG)
			return options_take(p, o, c[1] == '\0' ? NULL : c + 1, e);
		if (options_take(p, o, NULL, e) < 0)
			return -1;
	}
	return 0;
}

int options_parse(const struct verb *v, int argc, char **argv, void *fields, uint64_t *ret_given,
		  struct err *e)
{
	struct parse p = { .v = v, .argc = argc, .argv = argv, .fields = fields };

	while (p.at < argc && argv[p.at][0] == '-' && argv[p.at][1] != '\0') {
		const char *word = argv[p.at++], *value = NULL;
		const struct option *o;

		if (strcmp(word, "--") == 0)
			break;
		if (word[1] != '-') {
			if (take_letters(&p, word, e) < 0)
				return -1;
			continue;
		}
		o = options_match(v, word, &value);
		if (o == NULL)
			return options_unknown(v, word, e);
		if (options_take(&p, o, value, e) < 0)
			return -1;
	}
	if (ret_given != NULL)
		*ret_given = p.given;
	return p.at;
}

const struct option *options_open(const struct verb *v, const char *word)
{
	const char *value = NULL;
	const struct option *o = NULL;

	if (word[1] == '-') {
		o = options_match(v, word, &value);
		return o == NULL || o->kind == OPTION_FLAG || o->kind == OPTION_WORD ||
				       value != NULL
			       ? NULL
			       : o;
	}
	for (const char *c = word + 1; *c != '\0'; c++) {
		o = find_letter(v, *c);
		if (o == NULL || o->kind != OPTION_FLAG)
			return o == NULL || c[1] != '\0' ? NULL : o;
	}
	return NULL;
}

const char *options_find(const struct verb *v, int argc, char **argv, const char *name)
{
	const char *found = NULL;

	for (int i = 0; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
		const char *value = NULL;
		const struct option *o =
			argv[i][1] == '-' ? options_match(v, argv[i], &value) : NULL;

		if (o == NULL || o->kind == OPTION_FLAG)
			continue;
		if (value == NULL && o->kind != OPTION_WORD && ++i < argc)
			value = argv[i];
		if (value != NULL && *value != '\0' && strcmp(o->name, name) == 0)
			found = value;
	}
	return found;
}

/* The text between an option's name and its argument in help and manual. A word's value is
 * optional and must stand in the same word. */
static const char *before_argument(const struct option *o)
{
	if (o->argument == NULL)
		return "";
	return o->kind == OPTION_WORD ? "[=" : " ";
}

static void help_option(const struct option *o, FILE *to)
{
	char left[64], letter[8] = "";

	if (o->letter != 0)
		(void)snprintf(letter, sizeof(letter), "-%c, ", (int)o->letter);
	(void)snprintf(left, sizeof(left), "%s--%s%s%s%s", letter, o->name, before_argument(o),
		       o->argument == NULL ? "" : o->argument, o->kind == OPTION_WORD ? "]" : "");
	(void)fprintf(to, "  %-30s %s\n", left, o->help);
}

static size_t count_global(const struct verb *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->noptions; i++)
		n += v->options[i].is_global;
	return n;
}

/* Their names only: the help of the program describes them. */
static void help_names(const struct verb *v, FILE *to)
{
	(void)fputs("\nglobal options, described by cordon --help:", to);
	for (size_t i = 0; i < v->noptions; i++)
		if (v->options[i].is_global)
			(void)fprintf(to, " --%s", v->options[i].name);
	(void)fputc('\n', to);
}

static void help_examples(const char *text, FILE *to)
{
	(void)fputs("\nexamples:\n", to);
	while (*text != '\0') {
		size_t n = strcspn(text, "\n");

		(void)fprintf(to, "  %.*s\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
}

/* One line for each form: "ls | show NAME" has two. */
static void help_usage(const struct verb *v, FILE *to)
{
	const char *form = v->usage;

	for (const char *end; form != NULL; form = end) {
		int n;

		end = strstr(form, " | ");
		n = end == NULL ? (int)strlen(form) : (int)(end - form);
		(void)fprintf(to, "%s cordon %s %.*s\n", form == v->usage ? "usage:" : "      ",
			      v->name, n, form);
		end = end == NULL ? NULL : end + 3;
	}
}

void options_help(const struct verb *v, FILE *to)
{
	size_t global = count_global(v);

	help_usage(v, to);
	(void)fprintf(to, "\n%s\n", v->summary);
	if (*v->text != '\0')
		(void)fprintf(to, "\n%s", v->text);
	if (v->examples != NULL)
		help_examples(v->examples, to);
	if (v->noptions > global)
		(void)fprintf(to, "\noptions:\n");
	for (size_t i = 0; i < v->noptions; i++)
		if (!v->options[i].is_global)
			help_option(&v->options[i], to);
	if (global > 0)
		help_names(v, to);
}

void options_help_global(const struct verb *v, FILE *to)
{
	for (size_t i = 0; i < v->noptions; i++)
		if (v->options[i].is_global)
			help_option(&v->options[i], to);
}

/* troff takes a line that begins with a dot or quote, and every backslash and dash, specially. */
static void man_text(const char *text, FILE *to)
{
	bool line_start = true;

	for (; *text != '\0'; text++) {
		if (line_start && (*text == '.' || *text == '\''))
			(void)fputs("\\&", to);
		if (*text == '\\')
			(void)fputs("\\e", to);
		else if (*text == '-')
			(void)fputs("\\-", to);
		else
			(void)fputc(*text, to);
		line_start = *text == '\n';
	}
}

/* One line for each verb. Help, manual page and completion read the same tables, so none of them
 * can differ from the parser. */
static void man_synopsis(const struct verb *const *verbs, size_t n, FILE *to)
{
	for (size_t i = 0; i < n; i++) {
		(void)fprintf(to, ".B cordon %s\n", verbs[i]->name);
		man_text(verbs[i]->usage, to);
		(void)fprintf(to, "\n.br\n");
	}
}

static void man_option(const struct option *o, FILE *to)
{
	(void)fprintf(to, ".TP\n.B ");
	if (o->letter != 0)
		(void)fprintf(to, "\\-%c, ", (int)o->letter);
	(void)fprintf(to, "\\-\\-");
	man_text(o->name, to);
	(void)fprintf(to, "%s%s%s\n", before_argument(o), o->argument == NULL ? "" : o->argument,
		      o->kind == OPTION_WORD ? "]" : "");
	man_text(o->help, to);
	(void)fprintf(to, "\n");
}

/* As it is, indented. */
static void man_lines(const char *text, FILE *to)
{
	(void)fprintf(to, ".RS 4\n.nf\n");
	man_text(text, to);
	(void)fprintf(to, ".fi\n.RE\n");
}

static void man_verb(const struct verb *v, FILE *to)
{
	(void)fprintf(to, ".SH CORDON %s\n", v->name);
	man_text(v->summary, to);
	(void)fprintf(to, "\n.PP\n.nf\n");
	man_text(v->text, to);
	(void)fprintf(to, ".fi\n");
	if (v->examples != NULL) {
		(void)fprintf(to, ".PP\nExamples:\n");
		man_lines(v->examples, to);
	}
	for (size_t k = 0; k < v->noptions; k++)
		if (!v->options[k].is_global)
			man_option(&v->options[k], to);
}

void options_man(const struct verb *const *verbs, size_t n, FILE *to)
{
	(void)fprintf(
		to, ".TH CORDON 1\n.SH NAME\ncordon \\- run code you do not trust\n.SH SYNOPSIS\n");
	man_synopsis(verbs, n, to);
	for (size_t i = 0; i < n; i++)
		man_verb(verbs[i], to);
}

void options_man_more(const char *title, const struct verb *const *verbs, size_t n, FILE *to)
{
	(void)fprintf(to, ".SH %s\n", title);
	man_synopsis(verbs, n, to);
	(void)fprintf(to, ".SH GLOBAL OPTIONS\nOf every verb that uses a server.\n");
	for (size_t k = 0; k < verbs[0]->noptions; k++)
		if (verbs[0]->options[k].is_global)
			man_option(&verbs[0]->options[k], to);
	for (size_t i = 0; i < n; i++)
		man_verb(verbs[i], to);
}

void options_man_section(const char *title, const char *const (*rows)[2], size_t n, FILE *to)
{
	(void)fprintf(to, ".SH %s\n", title);
	for (size_t i = 0; i < n; i++) {
		(void)fprintf(to, ".TP\n\\fB");
		man_text(rows[i][0], to);
		(void)fprintf(to, "\\fR\n");
		man_text(rows[i][1], to);
		(void)fputc('\n', to);
	}
}
