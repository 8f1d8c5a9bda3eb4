/* audit_records.h - cordon audit records: are the network records of a session those that the audit
 * log has batches of? */
#pragma once

#include "cmd/client/args.h"

struct audit_records {
	const char *tenant; /* of the log. NULL: the key's own */
	const char *session;
};

/* Return the exit status: that of enum audit_verdict, or of args.h if the server does not answer.
 */
int audit_records_run(const struct verb *v, const struct args_common *o,
		      const struct audit_records *r);
