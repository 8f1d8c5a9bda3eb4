/* override_header.h - headers by which a server may see another request than the one in the first
 * line. Pure. Used by src/lib/policy and src/egress.
 *
 * Where a policy inspects requests, the server must see the same request as the policy. Some
 * servers take the method, the path or the host from a header (X-HTTP-Method-Override,
 * X-Original-URL, X-Forwarded-Host), and those behind CGI cannot tell X_Role from X-Role. Both
 * kinds are not sent there. */
#pragma once

#include "lib/http/http1.h"

/* Does a header of this name change a request's meaning for some servers? */
bool override_header_is(struct http1_span name);
