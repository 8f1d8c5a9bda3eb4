/* auth.h - the key of a request: which tenant it belongs to, and what it allows. */
#pragma once

#include "request.h"

/* Finds the key in Authorization or X-API-Key and fills in tenant and scopes. REASON_UNAUTHORIZED:
 * no valid key; ERR_DENIED without a reason: a key without the scope. */
int auth_check(struct request *r, unsigned scope, struct err *e) MUST_USE;

/* Does the key allow reading only? */
bool auth_only_reads(const struct request *r);

/* ERR_DENIED if the key has limits of its own (`allow`): such a key creates no keys and changes no
 * tenants, since a new key or a changed tenant could have more rights than the key itself. */
int auth_check_unlimited(struct request *r, struct err *e) MUST_USE;

/* Does the key belong to the operator? */
bool auth_is_operator(const struct request *r);
