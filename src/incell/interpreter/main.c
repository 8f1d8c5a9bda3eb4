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
