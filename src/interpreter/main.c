/* main.c - cordon-interpreter: runs code in kernels that keep state between calls. Inside cells.
 *
 *   serve.c     the server: E2B's interface on port 49999
 *   http_conn.c connections: HTTP
 *   api.c       routes
 *   context.c   contexts, their queues; contexts.c the table of them
 *   kernel_process.c  the process of a context; kernel_exec.c its start, kernel_start.c the time
 *               that this may take, kernel_output.c its pipes, kernel_protocol.h its messages
 *   run.c       `run`: code from standard input, in a context of the server
 *   ready.c     `ready`: succeeds when the server can run Python at once */
#include <stdio.h>
#include <string.h>

#include "fd_std.h"
#include "interpreter_options.h"

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
