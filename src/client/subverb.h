/* subverb.h - verbs with a second word, such as `cordon key ls`: one table each of what may follow.
 */
#pragma once

#include "api_call.h"
#include "args.h"

struct subverb {
	const char *name;
	bool has_argument; /* exactly one word follows it, or none */
	int (*run)(const void *fields, struct api_call *a, const char *argument, struct err *e);
	/* In place of run: two words follow. */
	int (*run_two)(const void *fields, struct api_call *a, const char *one, const char *two,
		       struct err *e);
	/* ERR_INVALID is about files that it reads; of others it is a wrong value of an option. No
	 * error of the server is ERR_INVALID. */
	bool reads_files;
};

/* Reads the command line, connects to the server and runs the row that it names. fields begins with
 * a struct args_common. Returns the exit code. */
int subverb_run(const struct verb *v, const struct subverb *table, size_t n, int argc, char **argv,
		void *fields);
