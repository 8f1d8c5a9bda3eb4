/* secret_admit.h - the secrets of a new session: checked before the session is admitted. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/secrets/secret_spec.h"
#include "daemon/session/session.h"

/* Check the lines of the row (secret_spec.h) against the tenant's secrets and quotas, and give each
 * brokered secret its placeholder. */
int secret_admit(struct session *s, struct err *e) MUST_USE;

/* Check one line of a session or an execution: give it a placeholder, and add its value's bytes. */
int secret_admit_one(struct session *s, struct secret_spec *l, size_t *bytes,
		     struct err *e) MUST_USE;
/* Does one of these lines use the same variable, or the same file? */
bool secret_admit_is_twice(const char *lines, const struct secret_spec *l);

/* ---- how many bytes of secret values the sessions of a tenant may have together. */

/* May the sessions of the tenant have so many bytes more? ERR_LIMIT. */
int secret_quota_more(struct core *c, const struct tenant *t, size_t more, struct err *e) MUST_USE;
/* As above, for a session that gets so many bytes more. */
int secret_quota_session(struct session *s, size_t more, struct err *e) MUST_USE;
/* The bytes of all values in sessions with the secret: a change makes cordond send and mask them
 * again. */
size_t secret_quota_resent(struct core *c, const struct tenant *t, const char *name);
/* May the secret of that name get a value of that length? ERR_LIMIT. */
int secret_quota_change(struct core *c, const struct tenant *t, const char *name, size_t len,
			struct err *e) MUST_USE;
