#include "options.h"

#include <string.h>

#include "units.h"

/* Finds "--name" or "--name=value"; *ret_value is what follows the '=', or NULL. */
static const struct option *find(const struct verb *v, const char *word, const char **ret_value)
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
	case OPTION_LIST:
		break;
	}
	return err_set(e, ERR_SYSTEM, "option of unknown kind");
}

static int set(const struct option *o, const char *value, void *fields, struct err *e)
{
	void *field = (char *)fields + o->offset;
	struct option_list *list;

	switch (o->kind) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return 0;
	case OPTION_TEXT:
		if (*value == '\0')
			return err_set(e, ERR_INVALID, "must not be empty");
		*(const char **)field = value;
		return 0;
	case OPTION_LIST:
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

int options_parse(const struct verb *v, int argc, char **argv, void *fields, uint64_t *ret_given,
		  struct err *e)
{
	uint64_t given = 0;
	int i = 0;

	while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0') {
		const char *word = argv[i++], *value = NULL;
		const struct option *o = NULL;

		if (strcmp(word, "--") == 0)
			break;
		if (word[1] == '-')
			o = find(v, word, &value);
		if (o == NULL)
			return err_set(e, ERR_INVALID,
				       "unknown option '%.60s'; see cordon %s --help", word,
				       v->name);
		if (o->kind == OPTION_FLAG && value != NULL)
			return err_set(e, ERR_INVALID, "--%s takes no value", o->name);
		if (o->kind != OPTION_FLAG && value == NULL) {
			if (i == argc)
				return err_set(e, ERR_INVALID, "--%s needs a value: %s", o->name,
					       o->argument);
			value = argv[i++];
		}
		if (set(o, value, fields, e) < 0)
			return err_wrap(e, "--%s", o->name);
		given |= 1ULL << (o - v->options);
	}
	if (ret_given != NULL)
		*ret_given = given;
	return i;
}

const char *options_find(const struct verb *v, int argc, char **argv, const char *name)
{
	const char *found = NULL;

	for (int i = 0; i < argc && strncmp(argv[i], "--", 2) == 0 && argv[i][2] != '\0'; i++) {
		const char *value = NULL;
		const struct option *o = find(v, argv[i], &value);

		if (o == NULL || o->kind == OPTION_FLAG)
			continue;
		if (value == NULL && ++i < argc)
			value = argv[i];
		if (value != NULL && *value != '\0' && strcmp(o->name, name) == 0)
			found = value;
	}
	return found;
}

void options_help(const struct verb *v, FILE *to)
{
	(void)fprintf(to, "usage: cordon %s %s\n\n%s\n\n%s", v->name, v->usage, v->summary,
		      v->text);
	if (v->noptions > 0)
		(void)fprintf(to, "\noptions:\n");
	for (size_t i = 0; i < v->noptions; i++) {
		char left[64];

		(void)snprintf(left, sizeof(left), "--%s%s%s", v->options[i].name,
			       v->options[i].argument == NULL ? "" : " ",
			       v->options[i].argument == NULL ? "" : v->options[i].argument);
		(void)fprintf(to, "  %-30s %s\n", left, v->options[i].help);
	}
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

void options_man(const struct verb *const *verbs, size_t n, FILE *to)
{
	(void)fprintf(
		to, ".TH CORDON 1\n.SH NAME\ncordon \\- run code you do not trust\n.SH SYNOPSIS\n");
	for (size_t i = 0; i < n; i++) {
		(void)fprintf(to, ".B cordon %s\n", verbs[i]->name);
		man_text(verbs[i]->usage, to);
		(void)fprintf(to, "\n.br\n");
	}
	for (size_t i = 0; i < n; i++) {
		(void)fprintf(to, ".SH CORDON %s\n", verbs[i]->name);
		man_text(verbs[i]->summary, to);
		(void)fprintf(to, "\n.PP\n.nf\n");
		man_text(verbs[i]->text, to);
		(void)fprintf(to, ".fi\n");
		for (size_t k = 0; k < verbs[i]->noptions; k++) {
			const struct option *o = &verbs[i]->options[k];

			(void)fprintf(to, ".TP\n.B \\-\\-");
			man_text(o->name, to);
			(void)fprintf(to, " %s\n", o->argument == NULL ? "" : o->argument);
			man_text(o->help, to);
			(void)fprintf(to, "\n");
		}
	}
}
