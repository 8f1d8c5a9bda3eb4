/* unsupported.c - routes of E2B that Cordon does not support. Each is answered with 501 and a
 * message that E2B's clients show. */
#include <stdio.h>

#include "e2b_private.h"
#include "reply.h"

static void missing(struct request *r, const char *what)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "%s: not supported by this Cordon server", what);
	reply_code(r, 501, "unsupported", text);
}

void unsupported_builds(struct request *r)
{
	missing(r, "builds of E2B's first system, by docker push (use the newer one: POST "
		   "/v3/templates)");
}

void unsupported_teams(struct request *r)
{
	missing(r, "teams, API keys and access tokens of E2B (Cordon's own are at /v1/keys)");
}
