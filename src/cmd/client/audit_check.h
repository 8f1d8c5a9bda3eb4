/* audit_check.h - cordon audit verify: reads the log from a file or from the server, and prints the
 * verdict. */
#pragma once

#include "cmd/client/args.h"

/* All texts are borrowed from the command line. keys and witnesses are lists of verifier keys
 * (C2SP tlog-vkey). */
struct audit_verify_options {
	const char *file;   /* NULL: from the server. "-": standard input */
	const char *tenant; /* of the server's logs. NULL: the key's own */
	const char *since;
	const struct option_list *keys, *witnesses;
	const char *quorum; /* NULL: all witnesses */
};

/* Return the exit status: that of enum audit_verdict, or of args.h if the server does not answer.
 */
int audit_check_run(const struct verb *v, const struct args_common *o,
		    const struct audit_verify_options *c);
