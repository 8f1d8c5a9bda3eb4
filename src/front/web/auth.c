#include "front/web/auth.h"

#include "front/web/reply.h"

#include <strings.h>

#include "daemon/images/build.h"
#include "daemon/session/session.h"
#include "daemon/tenant/allow.h"

static const char scheme[] = "Bearer ";

/* The text of the key. Empty unless the request has exactly one. */
static struct http1_span key_of(const struct http1_request *q)
{
	struct http1_span bearer, plain, none = { 0 };
	size_t nbearer = http1_find(q->headers, q->headers_n, "authorization", &bearer);
	size_t nplain = http1_find(q->headers, q->headers_n, "x-api-key", &plain);

	/* Two keys could belong to two tenants, and a proxy in front of the server may have checked
	 * the other one. */
	if (nbearer + nplain != 1)
		return none;
	if (nplain == 1)
		return plain;
	if (bearer.n < sizeof(scheme) || strncasecmp(bearer.p, scheme, sizeof(scheme) - 1) != 0)
		return none;
	bearer.p += sizeof(scheme) - 1;
	bearer.n -= sizeof(scheme) - 1;
	return bearer;
}

/* With TENANT_EITHER one of the scopes is enough. */
int auth_check_scope(const struct request *r, unsigned scope, struct err *e)
{
	unsigned have = r->scopes & scope;

	if ((scope & TENANT_EITHER) != 0 ? have != 0 : have == scope)
		return 0;
	scope &= ~have; /* those that it lacks */
	return err_set(e, ERR_DENIED, "this request needs a key with the scope \"%s\"",
		       (scope & TENANT_ADMIN) != 0	? "admin"
		       : (scope & TENANT_SESSIONS) != 0 ? "sessions"
		       : (scope & TENANT_AUDIT) != 0	? "audit"
							: "read");
}

/* On success the request belongs to the key's tenant, and its connection counts for it. */
int auth_check(struct request *r, unsigned scope, struct err *e)
{
	struct http1_span key = key_of(exchange_request(r->x));
	unsigned have = 0;

	if (key.n != TENANT_KEY_LEN)
		return err_set_reason(
			e, REASON_UNAUTHORIZED,
			"send one valid key: X-API-Key: e2b_..., or Authorization: Bearer e2b_...");
	r->tenant = tenant_authenticate(r->core, key.p, key.n, &have, &r->grant, e);
	if (r->tenant == NULL && e->code != ERR_NOT_FOUND)
		return -1;
	if (r->tenant == NULL)
		return err_set_reason(e, REASON_UNAUTHORIZED,
				      r->grant.expires_ms > 0
					      ? "the key has expired: ask for another one"
					      : "the key is not valid or was revoked");
	exchange_set_account(r->x, tenant_account(r->tenant), true);
	if ((have & TENANT_SESSIONS) != 0)
		have |= TENANT_READ;
	r->scopes = have;
	return auth_check_scope(r, scope, e);
}

/* False as well for requests that came without a key. */
bool auth_only_reads(const struct request *r)
{
	return r->grant.key_id[0] != '\0' && (r->scopes & TENANT_SESSIONS) == 0;
}

/* A narrow key must not make a wider one, nor change the rules that keep it narrow. */
int auth_check_unlimited(struct request *r, struct err *e)
{
	struct store_allow own;

	if (allow_of_key(r->core, r->grant.key_id, &own, e) < 0)
		return -1;
	if (!allow_is_narrow(&own))
		return 0;
	return err_set(e, ERR_DENIED,
		       "this key has limits of its own (allow): it cannot create keys or change "
		       "tenants, templates or secrets");
}

bool auth_may_change_templates(struct request *r)
{
	struct err e = { 0 };

	if (auth_check_unlimited(r, &e) == 0)
		return true;
	reply_error(r, &e);
	return false;
}

/* Sessions of builds are for keys that may change templates. */
bool auth_may_use_session(struct request *r)
{
	const struct session *s =
		r->session_id[0] == '\0' ? NULL : session_find(r->core, r->session_id);

	return s == NULL || !build_has_session(session_row(s)) || auth_may_change_templates(r);
}

int auth_check_template_owner(struct request *r, struct err *e)
{
	return auth_check_scope(r, TENANT_ADMIN, e) < 0 ? -1 : auth_check_unlimited(r, e);
}

bool auth_is_template_owner(struct request *r)
{
	struct err e = { 0 };

	if (auth_check_template_owner(r, &e) == 0)
		return true;
	reply_error(r, &e);
	return false;
}

int auth_check_operator_reads(const struct request *r, struct err *e)
{
	return auth_is_operator(r) ? 0 : err_set(e, ERR_DENIED, "only the operator may do this");
}

int auth_check_operator(struct request *r, struct err *e)
{
	if (auth_check_operator_reads(r, e) < 0)
		return -1;
	return auth_check_unlimited(r, e);
}

bool auth_is_operator(const struct request *r)
{
	return r->tenant != NULL && tenant_row(r->tenant)->is_operator;
}
