/* secret_audit.h - the audit record secret.used (session_uses.h). Called by secret_part.c, and by
 * net_log.c when cordon-egress put a value into a request. */
#pragma once

#include "daemon/session/session.h"
#include "lib/base/err.h"

/* execution and host: "": none. An open transaction includes it. */
int secret_audit_used(struct session *s, const char *name, const char *as, const char *host,
		      const char *execution, struct err *e) MUST_USE;
/* Programs get the values in these lines (secret_spec.h): the session's, or an execution's. A
 * placeholder is used when a request has it. */
void secret_audit_given(struct session *s, const char *lines, const char *execution);
