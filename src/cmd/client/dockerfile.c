/* dockerfile.c - see dockerfile.h. The first part reads words (quotes, variables, JSON lists,
 * joined lines), the second keeps the stages, the third handles one instruction after the other.
 *
 * The file is parsed and never executed here. All memory belongs to the stages and to the
 * reader, which dockerfile_read() releases. After an error the stages are in a state for
 * dockerfile_release(). */
#include "cmd/client/dockerfile.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/buf.h"
#include "lib/base/own.h"
#include "lib/base/str.h"

/* ---- words: quotes, variables, lists in JSON
 *
 * A Dockerfile's words are close to those of a shell, and no shell runs here. Backslashes, both
 * kinds of quotes and variables are understood. Anything else stays as it is, for the shell of
 * the build. */

#define DOCKERFILE_WORDS_MAX 256

/* Variables of ARG and ENV. */
struct dockerfile_words {
	size_t n;
	char *texts[DOCKERFILE_WORDS_MAX]; /* NAME=value. Owned */
	bool too_long; /* a word grew beyond the bound by its variables, and was cut */
};

/* The bound of one line, and of one variable with its value. */
#define DOCKERFILE_WORDS_LINE_MAX_BYTES ((size_t)64 * 1024)

/* Memory that runs out ends the program: a recipe with a missing part must not be built. */
static char *dockerfile_words_copy(const char *text, size_t n)
{
	char *made = malloc(n + 1);

	if (made == NULL)
		abort();
	memcpy(made, text, n);
	made[n] = '\0';
	return made;
}

/* From the end, so that the last setting of a name counts. */
static const char *value_of(const struct dockerfile_words *v, const char *name, size_t n)
{
	for (size_t i = v->n; i > 0; i--)
		if (strncmp(v->texts[i - 1], name, n) == 0 && v->texts[i - 1][n] == '=')
			return v->texts[i - 1] + n + 1;
	return NULL;
}

/* False: there are too many. */
static bool dockerfile_words_set(struct dockerfile_words *v, const char *name, const char *value)
{
	struct buf b = BUF_INIT(DOCKERFILE_WORDS_LINE_MAX_BYTES);
	struct err e;

	if (v->n == DOCKERFILE_WORDS_MAX)
		return false;
	buf_printf(&b, "%s=%s", name, value);
	v->too_long = v->too_long || buf_check(&b, &e) < 0;
	v->texts[v->n++] = dockerfile_words_copy(buf_text(&b), strlen(buf_text(&b)));
	buf_release(&b);
	return true;
}

static void dockerfile_words_release(struct dockerfile_words *v)
{
	while (v->n > 0)
		free(v->texts[--v->n]);
}

/* The length of the variable name at the start of the text. 0: there is none. */
static size_t dockerfile_words_name(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || text[n] == '_')
		n++;
	return isdigit((unsigned char)text[0]) ? 0 : n;
}

/* "$NAME", "${NAME}", "${NAME:-text}". Return how many bytes it took. 0: it is no variable, and
 * the dollar stays. An unknown variable is empty, as in Docker. */
static size_t expand_one(const struct dockerfile_words *r, const char *text, struct buf *to)
{
	bool braces = text[0] == '{';
	size_t n = dockerfile_words_name(text + braces);
	const char *value = value_of(r, text + braces, n), *rest = text + braces + n;
	const char *end = strchr(rest, '}');

	if (n == 0 || (braces && end == NULL))
		return 0;
	if (!braces) {
		buf_put_text(to, value == NULL ? "" : value);
		return n;
	}
	if (end != rest && strncmp(rest, ":-", 2) != 0)
		return 0;
	if (value != NULL && value[0] != '\0')
		buf_put_text(to, value);
	else if (end != rest)
		buf_put(to, rest + 2, (size_t)(end - rest) - 2);
	return (size_t)(end - text) + 1;
}

/* Quotes are removed, variables are replaced outside of single quotes. variables false: values
 * of ENV keep their dollars for the build. The caller frees the result. */
static char *dockerfile_words_expand(struct dockerfile_words *r, const char *text, size_t len,
				     bool variables)
{
	struct buf b = BUF_INIT(DOCKERFILE_WORDS_LINE_MAX_BYTES);
	char quote = '\0', *made;
	struct err e;
	OWN_MEM char *whole = dockerfile_words_copy(text, len);

	for (const char *at = whole; *at != '\0';) {
		size_t taken = 0;

		if (*at == '\\' && at[1] != '\0' && quote != '\'') {
			if (quote == '"' && strchr("\"\\$", at[1]) == NULL)
				buf_put(&b, at, 1);
			buf_put(&b, at + 1, 1);
			at += 2;
			continue;
		}
		if ((*at == '"' || *at == '\'') && (quote == '\0' || quote == *at)) {
			quote = (char)(quote == '\0' ? *at : '\0');
			at++;
			continue;
		}
		if (*at == '$' && quote != '\'' && variables)
			taken = expand_one(r, at + 1, &b);
		if (taken == 0)
			buf_put(&b, at, 1);
		at += taken + 1;
	}
	r->too_long = r->too_long || buf_check(&b, &e) < 0;
	made = dockerfile_words_copy(buf_text(&b), strlen(buf_text(&b)));
	buf_release(&b);
	return made;
}

/* The length of the next word, quotes and escapes included. */
static size_t dockerfile_words_length(const char *text)
{
	char quote = '\0';
	size_t n = 0;

	for (; text[n] != '\0' && (quote != '\0' || !isspace((unsigned char)text[n])); n++) {
		if (text[n] == '\\' && text[n + 1] != '\0')
			n++;
		else if (quote == '\0' && (text[n] == '"' || text[n] == '\''))
			quote = text[n];
		else if (quote == text[n])
			quote = '\0';
	}
	return n;
}

/* A list in JSON, as of CMD ["a", "b"]: the words as one command of a shell. NULL: it is none.
 * Each word is put in single quotes, so the shell does not interpret it. Escapes other than
 * those of a quote and a backslash are taken without their backslash. */
static char *dockerfile_words_json(const char *text)
{
	struct buf b = BUF_INIT(DOCKERFILE_WORDS_LINE_MAX_BYTES);
	char *made = NULL;
	bool more = true;

	for (text++; more;) {
		text += strspn(text, " \t");
		if (*text == ']' && b.len == 0)
			break;
		if (*text++ != '"')
			goto end;
		if (b.len > 0)
			buf_put_text(&b, " ");
		buf_put_text(&b, "'");
		for (; *text != '"'; text++) {
			if (*text == '\\' && text[1] != '\0')
				text++;
			if (*text == '\0')
				goto end;
			if (*text == '\'')
				buf_put_text(&b, "'\\''");
			else
				buf_put(&b, text, 1);
		}
		buf_put_text(&b, "'");
		text += 1 + strspn(text + 1, " \t");
		if (*text != ',' && *text != ']')
			goto end;
		more = *text++ == ',';
	}
	if (b.len > 0)
		made = dockerfile_words_copy(buf_text(&b), strlen(buf_text(&b)));
end:
	buf_release(&b);
	return made;
}

/* The next instruction: lines that end in a backslash are joined, comments and empty lines are left
 * out. *line counts the lines, *ret_first is that of the instruction. False: there is none. */
static bool dockerfile_words_line(const char **at, const char *end, unsigned *line,
				  unsigned *ret_first, struct buf *ret)
{
	bool more = true;

	buf_clear(ret);
	while (more && *at < end) {
		const char *stop = memchr(*at, '\n', (size_t)(end - *at));
		size_t n = (size_t)((stop == NULL ? end : stop) - *at), skip = 0;
		const char *text = *at;

		++*line;
		*at = stop == NULL ? end : stop + 1;
		while (skip < n && isspace((unsigned char)text[skip]))
			skip++;
		if (skip == n || text[skip] == '#')
			continue;
		while (n > 0 && isspace((unsigned char)text[n - 1]))
			n--;
		if (ret->len == 0) {
			*ret_first = *line;
			text += skip;
			n -= skip;
		}
		more = text[n - 1] == '\\';
		buf_put(ret, text, n - more);
	}
	return ret->len > 0;
}

/* ---- stages
 *
 * Each stage is a struct dockerfile of its own and points at the one before. The stage of the last
 * FROM is the result. template_build.c builds all earlier ones before it. */

/* A stage before the last one, by its name or by its number. NULL: there is none. */
static const struct dockerfile *dockerfile_stage_find(const struct dockerfile *last,
						      const char *name)
{
	char number[16];

	for (const struct dockerfile *d = last->before; d != NULL; d = d->before) {
		(void)snprintf(number, sizeof(number), "%u", d->number);
		if (strcmp(name, number) == 0 ||
		    (d->name != NULL && strcasecmp(d->name, name) == 0))
			return d;
	}
	return NULL;
}

/* Room for the steps of a zeroed stage. */
static int dockerfile_stage_begin(struct dockerfile *d, struct err *e)
{
	d->steps = calloc(DOCKERFILE_STEPS_MAX, sizeof(*d->steps));
	return d->steps == NULL ? err_sys(e, "allocate") : 0;
}

/* The chain of FROM ends at a stage whose FROM names an image or a template. */
const struct dockerfile *dockerfile_first(const struct dockerfile *d)
{
	while (d->from_stage != NULL)
		d = d->from_stage;
	return d;
}

bool dockerfile_has(const struct dockerfile *d, const char *type)
{
	for (; d != NULL; d = d->from_stage)
		for (unsigned i = 0; i < d->nsteps; i++)
			if (strcmp(d->steps[i].type, type) == 0)
				return true;
	return false;
}

/* Stages are released from the last to the first. A stage points only at earlier ones
 * (from_stage, step->stage), so nothing is left dangling. */
void dockerfile_release(struct dockerfile *d)
{
	if (d->before != NULL)
		dockerfile_release(d->before);
	free(d->before);
	free(d->name);
	for (unsigned i = 0; i < d->nsteps; i++)
		for (unsigned k = 0; k < d->steps[i].argc; k++)
			free(d->steps[i].args[k]);
	free(d->steps);
	free(d->from);
	free(d->start);
	*d = (struct dockerfile){ 0 };
}

#define LINE_MAX_BYTES ((size_t)64 * 1024)

/* The state of reading. `to` is the stage that is being read. Its address stays, because
 * next_stage() moves the finished one away. entrypoint and command belong to the current stage
 * only. */
struct dockerfile_reader {
	struct dockerfile *to;
	unsigned line; /* of the instruction */
	char *entrypoint, *command;
	struct dockerfile_words variables; /* for FROM, COPY, WORKDIR and USER */
	struct dockerfile_words globals;   /* those of ARG before the first FROM */
	const char *const *build_args;
	size_t nargs;
	struct err *e;
};

/* Every error begins with the line. The text of the file is quoted, so control characters are
 * escaped. */
static int dockerfile_fail(struct dockerfile_reader *r, const char *why, const char *what)
{
	(void)err_set(r->e, ERR_INVALID, "Dockerfile:%u: %s%s%.100s", r->line, why,
		      what == NULL ? "" : ": ", what == NULL ? "" : what);
	err_sanitize(r->e);
	return -1;
}

static char *dockerfile_copy(const char *text, size_t n)
{
	return dockerfile_words_copy(text, n);
}

static char *dockerfile_expand(struct dockerfile_reader *r, const char *text, size_t len,
			       bool variables)
{
	return dockerfile_words_expand(&r->variables, text, len, variables);
}

static int set_variable(struct dockerfile_reader *r, const char *name, const char *value)
{
	return dockerfile_words_set(&r->variables, name, value)
		       ? 0
		       : dockerfile_fail(r, "too many variables", NULL);
}

static char *read_json(struct dockerfile_reader *r, const char *text)
{
	char *made = dockerfile_words_json(text);

	if (made == NULL)
		IGNORED(dockerfile_fail(r, "not a list of texts in JSON", NULL),
			"reported by NULL");
	return made;
}

/* ---- steps
 *
 * A step has a type and arguments whose meaning depends on the type (doc/openapi.yaml: Recipe).
 * COPY has four: source, destination, owner and mode. */

static struct dockerfile_step *add_step(struct dockerfile_reader *r, const char *type)
{
	struct dockerfile *d = r->to;

	if (d->nsteps == DOCKERFILE_STEPS_MAX) {
		IGNORED(dockerfile_fail(r, "too many instructions", NULL), "reported by NULL");
		return NULL;
	}
	d->steps[d->nsteps] = (struct dockerfile_step){ .type = type, .line = r->line };
	return &d->steps[d->nsteps++];
}

/* Take arg over, also if there is no room for it. */
static int add_arg(struct dockerfile_reader *r, struct dockerfile_step *s, char *arg)
{
	if (s->argc == DOCKERFILE_ARGS_MAX) {
		free(arg);
		return dockerfile_fail(r, "too many arguments", NULL);
	}
	s->args[s->argc++] = arg;
	return 0;
}

/* ---- instructions */

/* Another FROM: the lines so far become the stage before. Its variables and its start command are
 * not those of the next one. */
static int next_stage(struct dockerfile_reader *r)
{
	struct dockerfile *done;

	if (r->to->number + 1 == DOCKERFILE_STAGES_MAX)
		return dockerfile_fail(r, "too many stages", NULL);
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
		OWN_MEM char *name = dockerfile_copy(text, (size_t)(eq - text));

		if (set_variable(r, name, eq + 1) < 0)
			return -1;
	}
	return dockerfile_stage_begin(r->to, r->e);
}

/* "AS name", or nothing. */
static int read_stage_name(struct dockerfile_reader *r, const char *text)
{
	size_t n;

	if (*text == '\0')
		return 0;
	if (strncasecmp(text, "AS ", 3) != 0)
		return dockerfile_fail(r, "what follows the image is not understood", text);
	text += 3 + strspn(text + 3, " \t");
	n = strcspn(text, " \t");
	if (n == 0 || text[n] != '\0' || isdigit((unsigned char)text[0]))
		return dockerfile_fail(r, "not the name of a stage", text);
	r->to->name = dockerfile_copy(text, n);
	return 0;
}

/* --platform is skipped: cells have the architecture of the machine. The name of an earlier
 * stage counts before an image of the same name. */
static int do_from(struct dockerfile_reader *r, const char *text)
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
		return dockerfile_fail(r, "FROM needs an image", NULL);
	r->to->from = dockerfile_expand(r, text, n, true);
	if (strcmp(r->to->from, "scratch") == 0)
		return dockerfile_fail(r, "FROM scratch is not supported", NULL);
	r->to->from_stage = dockerfile_stage_find(r->to, r->to->from);
	return read_stage_name(r, text + n + strspn(text + n, " \t"));
}

/* The command is given to the build as it stands. Its variables are replaced by the shell there,
 * whose environment has ARG and ENV. */
static int do_run(struct dockerfile_reader *r, const char *text)
{
	struct dockerfile_step *s = add_step(r, "RUN");
	char *command;

	if (s == NULL)
		return -1;
	if (strncmp(text, "--", 2) == 0)
		return dockerfile_fail(r, "options of RUN are not supported", text);
	if (strncmp(text, "<<", 2) == 0)
		return dockerfile_fail(r, "here-documents are not supported", NULL);
	command = text[0] == '[' ? read_json(r, text) : dockerfile_copy(text, strlen(text));
	return command == NULL ? -1 : add_arg(r, s, command);
}

/* Options of one COPY. stage NULL: from the build's directory. */
struct copy_options {
	char owner[128], mode[8];
	const struct dockerfile *stage;
};

/* "--chown=a:b", "--chmod=0755", "--from=stage". Others are errors. */
static int read_option(struct dockerfile_reader *r, const char *word, struct copy_options *o)
{
	if (strncmp(word, "--chown=", 8) == 0 && strlen(word + 8) < sizeof(o->owner))
		str_copy(o->owner, word + 8);
	else if (strncmp(word, "--chmod=", 8) == 0 && strlen(word + 8) < sizeof(o->mode))
		str_copy(o->mode, word + 8);
	else if (strncmp(word, "--from=", 7) == 0) {
		o->stage = dockerfile_stage_find(r->to, word + 7);
		return o->stage != NULL
			       ? 0
			       : dockerfile_fail(r, "there is no such stage before", word + 7);
	} else
		return dockerfile_fail(r, "this option of COPY is not supported", word);
	return 0;
}

/* The client fetches nothing. A RUN step can, under the network policy of the build. */
static bool is_remote(const char *source)
{
	return strncmp(source, "http://", 7) == 0 || strncmp(source, "https://", 8) == 0 ||
	       strncmp(source, "git@", 4) == 0;
}

/* A step for each source. */
static int add_copies(struct dockerfile_reader *r, char **words, unsigned n,
		      const struct copy_options *o)
{
	if (n < 2)
		return dockerfile_fail(r, "COPY needs a source and a destination", NULL);
	for (unsigned i = 0; i + 1 < n; i++) {
		struct dockerfile_step *s = add_step(r, "COPY");

		if (s == NULL)
			return -1;
		if (is_remote(words[i]))
			return dockerfile_fail(r, "only files of the directory can be copied",
					       words[i]);
		if (o->stage != NULL && strpbrk(words[i], "*?[") != NULL)
			return dockerfile_fail(r, "patterns are not supported with --from",
					       words[i]);
		s->stage = o->stage;
		if (add_arg(r, s, dockerfile_copy(words[i], strlen(words[i]))) < 0 ||
		    add_arg(r, s, dockerfile_copy(words[n - 1], strlen(words[n - 1]))) < 0 ||
		    add_arg(r, s, dockerfile_copy(o->owner, strlen(o->owner))) < 0 ||
		    add_arg(r, s, dockerfile_copy(o->mode, strlen(o->mode))) < 0)
			return -1;
	}
	return 0;
}

/* Options come first, then sources, then one destination. The words are freed here. The steps
 * have copies. */
static int do_copy(struct dockerfile_reader *r, const char *text)
{
	char *words[DOCKERFILE_ARGS_MAX];
	struct copy_options o = { 0 };
	unsigned n = 0;
	int rc = 0;

	if (text[0] == '[')
		return dockerfile_fail(r, "COPY with a list in JSON is not supported", NULL);
	while (rc == 0 && *text != '\0') {
		size_t len = dockerfile_words_length(text);
		char *word = dockerfile_expand(r, text, len, true);

		if (strncmp(word, "--", 2) == 0 && n == 0) {
			rc = read_option(r, word, &o);
			free(word);
		} else if (n == DOCKERFILE_ARGS_MAX) {
			free(word);
			rc = dockerfile_fail(r, "too many sources", NULL);
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
static int do_env(struct dockerfile_reader *r, const char *text)
{
	struct dockerfile_step *s = add_step(r, "ENV");
	size_t n = dockerfile_words_name(text);

	if (s == NULL)
		return -1;
	if (n > 0 && isspace((unsigned char)text[n])) {
		const char *value = text + n + strspn(text + n, " \t");

		if (add_arg(r, s, dockerfile_copy(text, n)) < 0 ||
		    add_arg(r, s, dockerfile_expand(r, value, strlen(value), false)) < 0)
			return -1;
		return set_variable(r, s->args[0], s->args[1]);
	}
	while (*text != '\0') {
		size_t len = dockerfile_words_length(text);

		n = dockerfile_words_name(text);
		if (n == 0 || text[n] != '=')
			return dockerfile_fail(r, "ENV needs NAME=value", text);
		if (add_arg(r, s, dockerfile_copy(text, n)) < 0 ||
		    add_arg(r, s, dockerfile_expand(r, text + n + 1, len - n - 1, false)) < 0)
			return -1;
		OWN_MEM char *known = dockerfile_expand(r, text + n + 1, len - n - 1, true);

		if (set_variable(r, s->args[s->argc - 2], known) < 0)
			return -1;
		text += len;
		text += strspn(text, " \t");
	}
	return s->argc == 0 ? dockerfile_fail(r, "ENV needs NAME=value", NULL) : 0;
}

/* A value of the command line wins over that of the file. Steps see it as a variable: ARG
 * becomes an ENV step of its stage. Before the first FROM it is for FROM lines, and each stage
 * gets it. An ARG without any value sets nothing. */
static int do_arg(struct dockerfile_reader *r, const char *text)
{
	size_t n = dockerfile_words_name(text);
	OWN_MEM char *name = dockerfile_copy(text, n);
	OWN_MEM char *value = NULL;
	struct dockerfile_step *s;

	if (n == 0 || (text[n] != '\0' && text[n] != '='))
		return dockerfile_fail(r, "ARG needs NAME or NAME=value", text);
	if (text[n] == '=')
		value = dockerfile_expand(r, text + n + 1, dockerfile_words_length(text + n + 1),
					  true);
	for (size_t i = 0; i < r->nargs; i++)
		if (strncmp(r->build_args[i], name, n) == 0 && r->build_args[i][n] == '=') {
			free(value);
			value = dockerfile_copy(r->build_args[i] + n + 1,
						strlen(r->build_args[i] + n + 1));
		}
	if (value == NULL)
		return 0;
	if (set_variable(r, name, value) < 0)
		return -1;
	if (r->to->from == NULL)
		return r->to->before != NULL || dockerfile_words_set(&r->globals, name, value)
			       ? 0
			       : dockerfile_fail(r, "too many variables", NULL);
	s = add_step(r, "ENV");
	return s == NULL || add_arg(r, s, dockerfile_copy(name, n)) < 0 ||
			       add_arg(r, s, dockerfile_copy(value, strlen(value))) < 0
		       ? -1
		       : 0;
}

static int do_word(struct dockerfile_reader *r, const char *type, const char *text)
{
	struct dockerfile_step *s = add_step(r, type);

	if (s == NULL)
		return -1;
	if (*text == '\0')
		return dockerfile_fail(r, "its argument is missing", type);
	return add_arg(r, s, dockerfile_expand(r, text, strlen(text), true));
}

/* The last one of a stage counts. The earlier text is freed. */
static int do_command(struct dockerfile_reader *r, char **to, const char *text)
{
	free(*to);
	*to = text[0] == '[' ? read_json(r, text) : dockerfile_copy(text, strlen(text));
	return *to == NULL ? -1 : 0;
}

/* Instructions about the image's description or about Docker's own run time. They have no
 * meaning for a session, and refusing them would refuse most files. */
static bool is_ignored(const char *word)
{
	static const char *const table[] = { "LABEL",  "EXPOSE",      "MAINTAINER", "STOPSIGNAL",
					     "VOLUME", "HEALTHCHECK", "SHELL" };

	for (size_t i = 0; i < COUNT(table); i++)
		if (strcasecmp(word, table[i]) == 0)
			return true;
	return false;
}

/* Words in any case. FROM must come before all but ARG. */
static int do_instruction(struct dockerfile_reader *r, const char *word, const char *text)
{
	if (strcasecmp(word, "FROM") == 0)
		return do_from(r, text);
	if (strcasecmp(word, "ARG") == 0)
		return do_arg(r, text);
	if (r->to->from == NULL)
		return dockerfile_fail(r, "FROM must come first", word);
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
	return is_ignored(word) ? 0 : dockerfile_fail(r, "instruction is not known", word);
}

/* ---- lines */

/* One instruction, joined from its lines. buf_check() finds one beyond the bound, and a NUL
 * would hide the text behind it. */
static int do_line(struct dockerfile_reader *r, struct buf *line)
{
	const char *text = buf_text(line);
	size_t n = strcspn(text, " \t");
	char word[32];
	struct err e;

	if (buf_check(line, &e) < 0)
		return dockerfile_fail(r, "the instruction is too long", NULL);
	if (strlen(text) != line->len)
		return dockerfile_fail(r, "a NUL in the file", NULL);
	if (n >= sizeof(word))
		return dockerfile_fail(r, "instruction is not known", text);
	memcpy(word, text, n);
	word[n] = '\0';
	if (do_instruction(r, word, text + n + strspn(text + n, " \t")) < 0)
		return -1;
	if (r->variables.too_long || r->globals.too_long)
		return dockerfile_fail(r, "a word with its variables is longer than 64 KiB", NULL);
	return 0;
}

/* Set the start command: ENTRYPOINT with CMD behind it, or CMD alone. */
static void set_start(struct dockerfile_reader *r)
{
	struct buf b = BUF_INIT(2 * LINE_MAX_BYTES);

	if (r->entrypoint != NULL)
		buf_printf(&b, "%s", r->entrypoint);
	if (r->command != NULL)
		buf_printf(&b, "%s%s", b.len > 0 ? " " : "", r->command);
	if (b.len > 0)
		r->to->start = dockerfile_copy(buf_text(&b), strlen(buf_text(&b)));
	buf_release(&b);
}

/* The first fault ends the reading. ret is in a state for dockerfile_release() in every case. */
int dockerfile_read(const char *text, size_t len, const char *const *build_args, size_t nargs,
		    struct dockerfile *ret, struct err *e)
{
	struct dockerfile_reader r = {
		.to = ret, .build_args = build_args, .nargs = nargs, .e = e
	};
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
