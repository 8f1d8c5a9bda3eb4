/* secret_quota.h - how many bytes of secret values the sessions of a tenant may have together. */
#pragma once

#include "core.h"

/* May the sessions of the tenant have so many bytes more? ERR_LIMIT. */
int secret_quota_more(struct core *c, const struct tenant *t, size_t more, struct err *e) MUST_USE;
/* The same for a session that gets so many bytes more. */
int secret_quota_session(struct session *s, size_t more, struct err *e) MUST_USE;
/* The bytes of all values of the sessions that have the secret: what a change of it makes cordond
 * send and mask again. */
size_t secret_quota_resent(struct core *c, const struct tenant *t, const char *name);
/* May the secret of that name get a value of that length? ERR_LIMIT. */
int secret_quota_change(struct core *c, const struct tenant *t, const char *name, size_t len,
			struct err *e) MUST_USE;
