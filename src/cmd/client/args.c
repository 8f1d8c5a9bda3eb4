/* args.c - see args.h. Every verb reads its command line by args_read() or args_read_command(),
 * and ends by one of the functions that print an error and return its exit code. So all verbs of
 * the client fail in the same form. */
#include "cmd/client/args.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* All messages of the client pass here. They may quote the server or a cell, so control
 * characters are escaped before a terminal sees them. */
static int args_report(const struct err *e)
{
	struct err safe = *e;

	err_sanitize(&safe);
	(void)fprintf(stderr, "cordon: %s\n", safe.msg);
	return ARGS_USAGE;
}

/* Help on request is a success and goes to stdout. */
static int show_help(const struct verb *v)
{
	options_help(v, stdout);
	return ARGS_OK;
}

/* The bounds of a verb's words. The message shows the usage, because the missing word is named
 * there. */
static int args_count(const struct verb *v, const struct args_words *w, size_t min, size_t max)
{
	if (w->n < min)
		return args_wrong(v, "missing argument: cordon %s %s", v->name, v->usage);
	if (w->n > max)
		return args_wrong(v, "unexpected argument '%.60s'", w->at[max]);
	return ARGS_GO;
}

/* Options may stand between words. A word after "--" is never an option, also if it begins with
 * a dash. */
int args_read(const struct verb *v, int argc, char **argv, void *fields, struct args_words *ret,
	      size_t min, size_t max)
{
	struct err e = { 0 };
	bool all = false;

	for (int i = 0; i < argc;) {
		int n = all ? 0 : options_parse(v, argc - i, argv + i, fields, NULL, &e);

		if (n < 0)
			return args_report(&e);
		all |= n > 0 && strcmp(argv[i + n - 1], "--") == 0;
		i += n;
		if (i == argc)
			break;
		if (ret->n == ARGS_WORDS_MAX)
			return args_wrong(v, "more than %d arguments", ARGS_WORDS_MAX);
		ret->at[ret->n++] = argv[i++];
	}
	if (((const struct args_common *)fields)->help)
		return show_help(v);
	return args_count(v, ret, min, max);
}

/* The words of the command belong to that command, so the first of them ends the options: in
 * `cordon exec ID ls -l` the -l is not ours. */
int args_read_command(const struct verb *v, int argc, char **argv, void *fields, char ***ret_rest,
		      size_t *ret_n)
{
	struct err e = { 0 };
	int n = options_parse(v, argc, argv, fields, NULL, &e);

	if (n < 0)
		return args_report(&e);
	if (((const struct args_common *)fields)->help)
		return show_help(v);
	*ret_rest = argv + n;
	*ret_n = (size_t)(argc - n);
	return ARGS_GO;
}

/* The order counts: a server that cannot be reached says nothing about the thing asked for. */
static int exit_code(const struct err *e)
{
	if (e->reason == REASON_UNAVAILABLE)
		return ARGS_UNREACHABLE;
	if (e->code == ERR_NOT_FOUND)
		return ARGS_NOT_FOUND;
	return e->code == ERR_DENIED ? ARGS_REFUSED : ARGS_FAILED;
}

/* ERR_INVALID with a reason comes from elsewhere, such as a connection. Without one it is the
 * text of an option or argument. */
static bool is_usage(const struct err *e)
{
	return e->code == ERR_INVALID && e->reason == REASON_NONE;
}

int args_fail(const struct err *e)
{
	(void)args_report(e);
	return exit_code(e);
}

int args_wrong(const struct verb *v, const char *fmt, ...)
{
	struct err e = { .code = ERR_INVALID };
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(e.msg, sizeof(e.msg), fmt, ap);
	va_end(ap);
	(void)args_report(&e);
	(void)fprintf(stderr, "see cordon %s --help\n", v->name);
	return ARGS_USAGE;
}

/* The server checks most values, so its refusal of one (400) looks like a mistake found here. */
int args_refused(const struct verb *v, const struct err *e)
{
	return is_usage(e) ? args_wrong(v, "%s", e->msg) : args_fail(e);
}

/* The exit code of a command must not be mistaken for one of ours, so only two are used. */
int args_fail_command(const struct verb *v, const struct err *e)
{
	if (is_usage(e))
		return args_wrong(v, "%s", e->msg);
	(void)args_report(e);
	return ARGS_FAILED;
}
