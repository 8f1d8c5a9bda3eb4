/* secret_egress.h - the secrets of a session in the configuration for cordon-egress (egress_msg.h).
 * Called by netaccess when it composes one. */
#pragma once

#include "daemon/session/session.h"
#include "lib/json/json.h"

/* The members "secrets" and "mask", into the open object in j. policy: the one in the same message,
 * whose ${secret.NAME} are added. NULL: that of the last message. j is wiped when it is
 * released. */
int secret_egress_write(struct session *s, const char *policy, struct json *j,
			struct err *e) MUST_USE;
/* Fail if rules refer to more secrets than a session's rules may. */
int secret_egress_check(const char *policy, struct err *e) MUST_USE;
/* Bytes of the secrets that a document refers to. */
size_t secret_egress_referenced(struct core *c, const struct tenant *t, const char *text);
