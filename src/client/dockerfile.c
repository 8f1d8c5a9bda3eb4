#include "dockerfile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "dockerfile_stage.h"
#include "dockerfile_words.h"
#include "own.h"

#define LINE_MAX_BYTES ((size_t)64 * 1024)

/* The state of reading. */
struct reader {
	struct dockerfile *to;
	unsigned line; /* of the instruction */
	char *entrypoint, *command;
	struct dockerfile_words variables; /* for FROM, COPY, WORKDIR and USER */
	struct dockerfile_words globals;   /* those of ARG before the first FROM */
	const char *const *build_args;
	size_t nargs;
	struct err *e;
};

static int fail(struct reader *r, const char *why, const char *what)
{
	(void)err_set(r->e, ERR_INVALID, "Dockerfile:%u: %s%s%.100s", r->line, why,
		      what == NULL ? "" : ": ", what == NULL ? "" : what);
	err_sanitize(r->e);
	return -1;
}

static char *copy(const char *text, size_t n)
{
	return dockerfile_words_copy(text, n);
}

static char *expand(const struct reader *r, const char *text, size_t len, bool variables)
{
	return dockerfile_words_expand(&r->variables, text, len, variables);
}

static int set_variable(struct reader *r, const char *name, const char *value)
{
	return dockerfile_words_set(&r->variables, name, value)
		       ? 0
		       : fail(r, "too many variables", NULL);
}

static char *read_json(struct reader *r, const char *text)
{
	char *made = dockerfile_words_json(text);

	if (made == NULL)
		IGNORED(fail(r, "not a list of texts in JSON", NULL), "reported by NULL");
	return made;
}

/* ---- steps */

static struct dockerfile_step *add_step(struct reader *r, const char *type)
{
	struct dockerfile *d = r->to;

	if (d->nsteps == DOCKERFILE_STEPS_MAX) {
		IGNORED(fail(r, "too many instructions", NULL), "reported by NULL");
		return NULL;
	}
	d->steps[d->nsteps] = (struct dockerfile_step){ .type = type, .line = r->line };
	return &d->steps[d->nsteps++];
}

static int add_arg(struct reader *r, struct dockerfile_step *s, char *arg)
{
	if (s->argc == DOCKERFILE_ARGS_MAX) {
		free(arg);
		return fail(r, "too many arguments", NULL);
	}
	s->args[s->argc++] = arg;
	return 0;
}

/* ---- instructions */

/* Another FROM: what was read becomes the stage before. Its variables and its start command are not
 * those of the next one. */
static int next_stage(struct reader *r)
{
	struct dockerfile *done;

	if (r->to->number + 1 == DOCKERFILE_STAGES_MAX)
		return fail(r, "too many stages", NULL);
	done = malloc(sizeof(*done));
	if (done == NULL)
		return err_sys(r->e, "allocate");
	*done = *r->to;
	*r->to = (struct dockerfile){ .before = done, .number = done->number + 1 };
	free(r->entrypoint);
	free(r->command);
	r->entrypoint = r->command = NULL;
	dockerfile_words_release(&r->variables);
	r->variables = (struct dockerfile_words){ 0 };
	for (size_t i = 0; i < r->globals.n; i++) {
		const char *text = r->globals.texts[i], *eq = strchr(text, '=');
		OWN_MEM char *name = copy(text, (size_t)(eq - text));

		if (set_variable(r, name, eq + 1) < 0)
			return -1;
	}
	return dockerfile_stage_begin(r->to, r->e);
}

/* "AS name", or nothing. */
static int read_stage_name(struct reader *r, const char *text)
{
	size_t n;

	if (*text == '\0')
		return 0;
	if (strncasecmp(text, "AS ", 3) != 0)
		return fail(r, "what follows the image is not understood", text);
	text += 3 + strspn(text + 3, " \t");
	n = strcspn(text, " \t");
	if (n == 0 || text[n] != '\0' || isdigit((unsigned char)text[0]))
		return fail(r, "not the name of a stage", text);
	r->to->name = copy(text, n);
	return 0;
}

static int do_from(struct reader *r, const char *text)
{
	size_t n;

	if (r->to->from != NULL && next_stage(r) < 0)
		return -1;
	if (strncasecmp(text, "--platform", 10) == 0) {
		text += dockerfile_words_length(text);
		text += strspn(text, " \t");
	}
	n = dockerfile_words_length(text);
	if (n == 0)
		return fail(r, "FROM needs an image", NULL);
	r->to->from = expand(r, text, n, true);
	if (strcmp(r->to->from, "scratch") == 0)
		return fail(r, "FROM scratch is not supported", NULL);
	r->to->from_stage = dockerfile_stage_find(r->to, r->to->from);
	return read_stage_name(r, text + n + strspn(text + n, " \t"));
}

static int do_run(struct reader *r, const char *text)
{
	struct dockerfile_step *s = add_step(r, "RUN");
	char *command;

	if (s == NULL)
		return -1;
	if (strncmp(text, "--", 2) == 0)
		return fail(r, "options of RUN are not supported", text);
	if (strncmp(text, "<<", 2) == 0)
		return fail(r, "here-documents are not supported", NULL);
	command = text[0] == '[' ? read_json(r, text) : copy(text, strlen(text));
	return command == NULL ? -1 : add_arg(r, s, command);
}

struct copy_options {
	char owner[128], mode[8];
	const struct dockerfile *stage;
};

/* "--chown=a:b", "--chmod=0755", "--from=stage"; others are errors. */
static int read_option(struct reader *r, const char *word, struct copy_options *o)
{
	if (strncmp(word, "--chown=", 8) == 0 && strlen(word + 8) < sizeof(o->owner))
		(void)snprintf(o->owner, sizeof(o->owner), "%s", word + 8);
	else if (strncmp(word, "--chmod=", 8) == 0 && strlen(word + 8) < sizeof(o->mode))
		(void)snprintf(o->mode, sizeof(o->mode), "%s", word + 8);
	else if (strncmp(word, "--from=", 7) == 0) {
		o->stage = dockerfile_stage_find(r->to, word + 7);
		return o->stage != NULL ? 0 : fail(r, "there is no such stage before", word + 7);
	} else
		return fail(r, "this option of COPY is not supported", word);
	return 0;
}

static bool is_remote(const char *source)
{
	return strncmp(source, "http://", 7) == 0 || strncmp(source, "https://", 8) == 0 ||
	       strncmp(source, "git@", 4) == 0;
}

/* A step for each source. */
static int add_copies(struct reader *r, char **words, unsigned n, const struct copy_options *o)
{
	if (n < 2)
		return fail(r, "COPY needs a source and a destination", NULL);
	for (unsigned i = 0; i + 1 < n; i++) {
		struct dockerfile_step *s = add_step(r, "COPY");

		if (s == NULL)
			return -1;
		if (is_remote(words[i]))
			return fail(r, "only files of the directory can be copied", words[i]);
		if (o->stage != NULL && strpbrk(words[i], "*?[") != NULL)
			return fail(r, "patterns are not supported with --from", words[i]);
		s->stage = o->stage;
		if (add_arg(r, s, copy(words[i], strlen(words[i]))) < 0 ||
		    add_arg(r, s, copy(words[n - 1], strlen(words[n - 1]))) < 0 ||
		    add_arg(r, s, copy(o->owner, strlen(o->owner))) < 0 ||
		    add_arg(r, s, copy(o->mode, strlen(o->mode))) < 0)
			return -1;
	}
	return 0;
}

static int do_copy(struct reader *r, const char *text)
{
	char *words[DOCKERFILE_ARGS_MAX];
	struct copy_options o = { 0 };
	unsigned n = 0;
	int rc = 0;

	if (text[0] == '[')
		return fail(r, "COPY with a list in JSON is not supported", NULL);
	while (rc == 0 && *text != '\0') {
		size_t len = dockerfile_words_length(text);
		char *word = expand(r, text, len, true);

		if (strncmp(word, "--", 2) == 0 && n == 0) {
			rc = read_option(r, word, &o);
			free(word);
		} else if (n == DOCKERFILE_ARGS_MAX) {
			free(word);
			rc = fail(r, "too many sources", NULL);
		} else {
			words[n++] = word;
		}
		text += len;
		text += strspn(text, " \t");
	}
	if (rc == 0)
		rc = add_copies(r, words, n, &o);
	while (n > 0)
		free(words[--n]);
	return rc;
}

/* "NAME=value NAME=value", or "NAME value" in the old form. */
static int do_env(struct reader *r, const char *text)
{
	struct dockerfile_step *s = add_step(r, "ENV");
	size_t n = dockerfile_words_name(text);

	if (s == NULL)
		return -1;
	if (n > 0 && isspace((unsigned char)text[n])) {
		const char *value = text + n + strspn(text + n, " \t");

		if (add_arg(r, s, copy(text, n)) < 0 ||
		    add_arg(r, s, expand(r, value, strlen(value), false)) < 0)
			return -1;
		return set_variable(r, s->args[0], s->args[1]);
	}
	while (*text != '\0') {
		size_t len = dockerfile_words_length(text);

		n = dockerfile_words_name(text);
		if (n == 0 || text[n] != '=')
			return fail(r, "ENV needs NAME=value", text);
		if (add_arg(r, s, copy(text, n)) < 0 ||
		    add_arg(r, s, expand(r, text + n + 1, len - n - 1, false)) < 0)
			return -1;
		OWN_MEM char *known = expand(r, text + n + 1, len - n - 1, true);

		if (set_variable(r, s->args[s->argc - 2], known) < 0)
			return -1;
		text += len;
		text += strspn(text, " \t");
	}
	return s->argc == 0 ? fail(r, "ENV needs NAME=value", NULL) : 0;
}

/* A value of the command line wins over that of the file. Steps see it as a variable. */
static int do_arg(struct reader *r, const char *text)
{
	size_t n = dockerfile_words_name(text);
	OWN_MEM char *name = copy(text, n);
	OWN_MEM char *value = NULL;
	struct dockerfile_step *s;

	if (n == 0 || (text[n] != '\0' && text[n] != '='))
		return fail(r, "ARG needs NAME or NAME=value", text);
	if (text[n] == '=')
		value = expand(r, text + n + 1, dockerfile_words_length(text + n + 1), true);
	for (size_t i = 0; i < r->nargs; i++)
		if (strncmp(r->build_args[i], name, n) == 0 && r->build_args[i][n] == '=') {
			free(value);
			value = copy(r->build_args[i] + n + 1, strlen(r->build_args[i] + n + 1));
		}
	if (value == NULL)
		return 0;
	if (set_variable(r, name, value) < 0)
		return -1;
	if (r->to->from == NULL)
		return r->to->before != NULL || dockerfile_words_set(&r->globals, name, value)
			       ? 0
			       : fail(r, "too many variables", NULL);
	s = add_step(r, "ENV");
	return s == NULL || add_arg(r, s, copy(name, n)) < 0 ||
			       add_arg(r, s, copy(value, strlen(value))) < 0
		       ? -1
		       : 0;
}

static int do_word(struct reader *r, const char *type, const char *text)
{
	struct dockerfile_step *s = add_step(r, type);

	if (s == NULL)
		return -1;
	if (*text == '\0')
		return fail(r, "its argument is missing", type);
	return add_arg(r, s, expand(r, text, strlen(text), true));
}

static int do_command(struct reader *r, char **to, const char *text)
{
	free(*to);
	*to = text[0] == '[' ? read_json(r, text) : copy(text, strlen(text));
	return *to == NULL ? -1 : 0;
}

static bool is_ignored(const char *word)
{
	static const char *const table[] = { "LABEL",  "EXPOSE",      "MAINTAINER", "STOPSIGNAL",
					     "VOLUME", "HEALTHCHECK", "SHELL" };

	for (size_t i = 0; i < COUNT(table); i++)
		if (strcasecmp(word, table[i]) == 0)
			return true;
	return false;
}

static int do_instruction(struct reader *r, const char *word, const char *text)
{
	if (strcasecmp(word, "FROM") == 0)
		return do_from(r, text);
	if (strcasecmp(word, "ARG") == 0)
		return do_arg(r, text);
	if (r->to->from == NULL)
		return fail(r, "FROM must come first", word);
	if (strcasecmp(word, "RUN") == 0)
		return do_run(r, text);
	if (strcasecmp(word, "COPY") == 0 || strcasecmp(word, "ADD") == 0)
		return do_copy(r, text);
	if (strcasecmp(word, "ENV") == 0)
		return do_env(r, text);
	if (strcasecmp(word, "WORKDIR") == 0)
		return do_word(r, "WORKDIR", text);
	if (strcasecmp(word, "USER") == 0)
		return do_word(r, "USER", text);
	if (strcasecmp(word, "CMD") == 0)
		return do_command(r, &r->command, text);
	if (strcasecmp(word, "ENTRYPOINT") == 0)
		return do_command(r, &r->entrypoint, text);
	return is_ignored(word) ? 0 : fail(r, "instruction is not known", word);
}

/* ---- lines */

static int do_line(struct reader *r, struct buf *line)
{
	const char *text = buf_text(line);
	size_t n = strcspn(text, " \t");
	char word[32];
	struct err e;

	if (buf_check(line, &e) < 0)
		return fail(r, "the instruction is too long", NULL);
	if (strlen(text) != line->len)
		return fail(r, "a NUL in the file", NULL);
	if (n >= sizeof(word))
		return fail(r, "instruction is not known", text);
	memcpy(word, text, n);
	word[n] = '\0';
	return do_instruction(r, word, text + n + strspn(text + n, " \t"));
}

/* What sessions start: ENTRYPOINT with CMD behind it, or CMD alone. */
static void set_start(struct reader *r)
{
	struct buf b = BUF_INIT(2 * LINE_MAX_BYTES);

	if (r->entrypoint != NULL)
		buf_printf(&b, "%s", r->entrypoint);
	if (r->command != NULL)
		buf_printf(&b, "%s%s", b.len > 0 ? " " : "", r->command);
	if (b.len > 0)
		r->to->start = copy(buf_text(&b), strlen(buf_text(&b)));
	buf_release(&b);
}

int dockerfile_read(const char *text, size_t len, const char *const *build_args, size_t nargs,
		    struct dockerfile *ret, struct err *e)
{
	struct reader r = { .to = ret, .build_args = build_args, .nargs = nargs, .e = e };
	struct buf line = BUF_INIT(LINE_MAX_BYTES);
	const char *at = text;
	unsigned number = 0;
	int rc = 0;

	*ret = (struct dockerfile){ 0 };
	if (len > DOCKERFILE_MAX)
		return err_set(e, ERR_LIMIT, "the Dockerfile is larger than 1 MiB");
	if (dockerfile_stage_begin(ret, e) < 0)
		return -1;
	while (rc == 0 && dockerfile_words_line(&at, text + len, &number, &r.line, &line))
		rc = do_line(&r, &line);
	if (rc == 0 && ret->from == NULL)
		rc = err_set(e, ERR_INVALID, "Dockerfile: there is no FROM");
	if (rc == 0)
		set_start(&r);
	free(r.entrypoint);
	free(r.command);
	dockerfile_words_release(&r.variables);
	dockerfile_words_release(&r.globals);
	buf_release(&line);
	return rc;
}
