/* secret_admit.h - the secrets of a new session: checked before the session is admitted. */
#pragma once

#include "secret_spec.h"
#include "session.h"

/* Checks the lines of the row (secret_spec.h) against the tenant's secrets and quotas, and gives
 * each brokered secret its placeholder. */
int secret_admit(struct session *s, struct err *e) MUST_USE;

/* Checks one line, of a session or of one of its executions: gives it a placeholder, and adds the
 * bytes of its value. */
int secret_admit_one(struct session *s, struct secret_spec *l, size_t *bytes,
		     struct err *e) MUST_USE;
/* Does one of these lines use the same variable, or the same file? */
bool secret_admit_is_twice(const char *lines, const struct secret_spec *l);
