/* auth.h - the key of a request: which tenant it belongs to, and what it allows. */
#pragma once

#include "request.h"

/* Finds the key in Authorization or X-API-Key and fills in tenant and scopes. REASON_UNAUTHORIZED:
 * no valid key; ERR_DENIED without a reason: a key without the scope. */
int auth_check(struct request *r, unsigned scope, struct err *e) MUST_USE;

/* Does the key allow reading only? */
bool auth_only_reads(const struct request *r);

/* ERR_DENIED if the key has limits of its own (`allow`): it creates no keys, which could have more
 * than it has, and changes no tenants, templates and secrets, which would change what its limits
 * mean. */
int auth_check_unlimited(struct request *r, struct err *e) MUST_USE;
/* The same for requests that build, tag, publish or delete templates. False: answered. */
bool auth_may_change_templates(struct request *r);

/* ERR_DENIED unless it is a key of the operator without limits of its own. */
int auth_check_operator(struct request *r, struct err *e) MUST_USE;

/* Does the key belong to the operator? */
bool auth_is_operator(const struct request *r);
