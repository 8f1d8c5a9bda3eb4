/* auth.h - the key of a request: its tenant, and its rights. */
#pragma once

#include "front/web/request.h"

/* Find the key in Authorization or X-API-Key and fill in tenant and scopes. REASON_UNAUTHORIZED:
 * no valid key. ERR_DENIED without a reason: a key without the scope. */
int auth_check(struct request *r, unsigned scope, struct err *e) MUST_USE;

/* Does the key allow reading only? */
bool auth_only_reads(const struct request *r);

/* ERR_DENIED if the key has limits of its own (`allow`): it creates no keys, which could have more
 * than it has, and changes no tenants, templates and secrets, which would change what its limits
 * mean. */
int auth_check_unlimited(struct request *r, struct err *e) MUST_USE;
/* Has the checked key of a request this scope, too? ERR_DENIED. */
int auth_check_scope(const struct request *r, unsigned scope, struct err *e) MUST_USE;

/* May the key tag, publish and delete templates of its tenant? On every interface: scope admin, and
 * no limits of its own. The second answers if not. To build one is another right, and so is to
 * delete a snapshot: scope sessions. */
int auth_check_template_owner(struct request *r, struct err *e) MUST_USE;
bool auth_is_template_owner(struct request *r);

/* May the key build templates, or give a build its files? False: answered. */
bool auth_may_change_templates(struct request *r);
/* May the key use the session of a build's step? Files written in it become the template. True for
 * any other session of r->session_id, and for none. */
bool auth_may_use_session(struct request *r);

/* ERR_DENIED unless it is a key of the operator without limits of its own. */
int auth_check_operator(struct request *r, struct err *e) MUST_USE;

/* ERR_DENIED unless it is a key of the operator. */
int auth_check_operator_reads(const struct request *r, struct err *e) MUST_USE;
/* Does the key belong to the operator? */
bool auth_is_operator(const struct request *r);
