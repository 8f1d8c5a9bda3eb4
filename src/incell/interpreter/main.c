/* clang-format off */
/* main.c - cordon-interpreter: runs code in kernels that keep state between calls. Inside cells.
 *
 *   serve.c           the server: E2B's interface on port 49999, its routes
 *   http_conn.c       connections: HTTP
 *   context.c         contexts and their queues
 *   kernel_process.c  the process of a context: its start, its pipes; kernel_protocol.h its messages
 *   python_parent.c   the process that forks Python kernels
 *   run.c             `run`: code from standard input, in a context of the server, and `ready`: succeeds
 *                     when the server can run Python at once */
/* clang-format on */
#include <stdio.h>
#include <string.h>

#include "incell/interpreter/interpreter_options.h"
#include "lib/base/fd_std.h"

static int read_number(const char *text, unsigned max, unsigned *ret, struct err *e)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end != '\0' || n > max)
		return err_set(e, ERR_INVALID, "%.40s is not a number up to %u", text, max);
	*ret = (unsigned)n;
	return 0;
}

static int read_option(const char *name, const char *value, struct interpreter_options *o,
		       struct err *e)
{
	const struct {
		const char *name;
		const char **to;
	} texts[] = { { "--socket", &o->socket },
		      { "--kernels", &o->kernels },
		      { "--cwd", &o->cwd },
		      { "--language", &o->language },
		      { "--context", &o->context } };

	if (value == NULL)
		return err_set(e, ERR_INVALID, "%.40s needs a value", name);
	for (size_t i = 0; i < COUNT(texts); i++)
		if (strcmp(name, texts[i].name) == 0) {
			*texts[i].to = value;
			return 0;
		}
	if (strcmp(name, "--env") == 0 && o->nenv < INTERPRETER_ENV_MAX) {
		o->env[o->nenv++] = value;
		return 0;
	}
	if (strcmp(name, "--port") == 0)
		return read_number(value, 65535, &o->port, e);
	if (strcmp(name, "--wait-ms") == 0)
		return read_number(value, 600000, &o->wait_ms, e);
	if (strcmp(name, "--slow-ms") == 0)
		return read_number(value, 600000, &o->slow_ms, e);
	return err_set(e, ERR_INVALID, "there is no option %.40s", name);
}

/* ERR_INVALID: the mistake in it. */
static int interpreter_options_read(int argc, char **argv, struct interpreter_options *ret,
				    struct err *e)
{
	*ret = (struct interpreter_options){ .port = INTERPRETER_PORT,
					     .socket = INTERPRETER_SOCKET,
					     .kernels = INTERPRETER_KERNELS,
					     .cwd = "",
					     .language = "python",
					     .context = "",
					     .wait_ms = 10000,
					     .slow_ms = INTERPRETER_SLOW_MS };
	if (argc < 2)
		return err_set(e, ERR_INVALID, "a verb is missing: serve, run or ready");
	ret->verb = argv[1];
	for (int i = 2; i < argc; i += 2)
		if (read_option(argv[i], argv[i + 1], ret, e) < 0)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct interpreter_options *o);
	} verbs[] = { { "serve", interpreter_serve },
		      { "run", interpreter_run },
		      { "ready", interpreter_ready } };
	struct interpreter_options o;
	struct err e = { 0 };

	fd_std_fill();
	if (interpreter_options_read(argc, argv, &o, &e) < 0) {
		(void)fprintf(stderr, "cordon-interpreter: %s\n", e.msg);
		return 2;
	}
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (strcmp(o.verb, verbs[i].name) == 0)
			return verbs[i].run(&o);
	(void)fprintf(stderr, "cordon-interpreter: there is no verb %.40s\n", o.verb);
	return 2;
}
