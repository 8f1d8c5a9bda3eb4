/* auth.h - who asks, and may he? */
#pragma once

#include "request.h"

/* Finds the key in Authorization or X-API-Key and fills in tenant and scopes. ERR_DENIED with sys
 * EACCES: no (valid) key; with sys EPERM: a key without the scope. */
int auth_check(struct request *r, unsigned scope, struct err *e) MUST_USE;

/* Was it asked with a key that may read and no more? */
bool auth_only_reads(const struct request *r);

/* Is it the operator who asks? */
bool auth_is_operator(const struct request *r);
