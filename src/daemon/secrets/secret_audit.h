/* secret_audit.h - the audit record of a secret's use (session_uses.h). Called by secret_part.c and
 * by net_log.c for the values that cordon-egress put into requests. */
#pragma once

#include "daemon/session/session.h"
#include "lib/base/err.h"

/* execution and host: "": none. In an open transaction of the store it is part of it. */
int secret_audit_used(struct session *s, const char *name, const char *as, const char *host,
		      const char *execution, struct err *e) MUST_USE;
/* Programs of the session, or of the execution, get the values of these lines (secret_spec.h).
 * Those of placeholders are used when a request has one. */
void secret_audit_given(struct session *s, const char *lines, const char *execution);
