#include "incell/interpreter/interpreter_options.h"

#include <string.h>

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

int interpreter_options_read(int argc, char **argv, struct interpreter_options *ret, struct err *e)
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
