/* interpreter_options.h - the command line of cordon-interpreter. */
#pragma once

#include "lib/base/err.h"

#define INTERPRETER_PORT 49999
/* An abstract socket: of the cell's network namespace, and gone with its process. */
#define INTERPRETER_SOCKET "@cordon-interpreter"
#define INTERPRETER_KERNELS "/opt/cordon/kernels"

#define INTERPRETER_SLOW_MS 50000 /* clients wait 60 s for the beginning of an answer */

#define INTERPRETER_ENV_MAX 256

struct interpreter_options {
	const char *verb;
	unsigned port;	     /* serve */
	const char *socket;  /* serve, run, ready: a path, or '@' and a name */
	const char *kernels; /* serve: the folder of kernels */
	const char *cwd;     /* serve: of contexts that ask for none. Run: of a new context */
	const char *language, *context; /* run */
	/* run: variables of its environment that the code has for this call */
	const char *env[INTERPRETER_ENV_MAX];
	unsigned nenv;
	unsigned wait_ms; /* run, ready: for the server */
	unsigned slow_ms; /* serve: kernel_init() */
};
/* The verbs. Each returns the exit status. */
int interpreter_serve(const struct interpreter_options *o);
int interpreter_run(const struct interpreter_options *o);
int interpreter_ready(const struct interpreter_options *o);
