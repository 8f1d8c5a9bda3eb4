/* e2b.c - the adapter itself: its key, and requests that name a sandbox.
 *
 * A request that names a sandbox goes to that sandbox and nowhere else, whatever its path: nothing
 * of the node can be reached through a sandbox's host name. A signed URL names none. Its sandbox is
 * found by trying the tokens of all sandboxes. */
#include "front/e2b/e2b.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/secrets/sealed_key.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/destination.h"
#include "front/e2b/envd/signature_limit.h"
#include "front/web/reply.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/http/url.h"

/* The name of the sealed key in the store. */
#define KEY_NAME "e2b.token_key"
#define PATH_MAX_BYTES 4096

/* NULL: e says why not. The adapter is never freed. */
struct e2b *e2b_new(struct core *core, struct err *e)
{
	struct e2b *b = calloc(1, sizeof(*b));

	if (b == NULL) {
		IGNORED(err_sys(e, "allocate"), "reported by NULL");
		return NULL;
	}
	b->core = core;
	b->signatures = signature_limit_new(e);
	if (b->signatures == NULL ||
	    sealed_key_get(core, KEY_NAME, b->key.bytes, TOKEN_KEY_SIZE, e) < 0 ||
	    port_url_key(core, b->port_key, e) < 0) {
		IGNORED(err_wrap(e, "key of access tokens"), "reported by NULL");
		free(b->signatures);
		free(b);
		return NULL;
	}
	return b;
}

/* ---- signed URLs
 *
 * Every live session's token is tried, so signature_limit.c bounds how many an address may ask for.
 */

/* tried counts the tokens, for the limit. */
struct e2b_search {
	struct e2b *b;
	struct token_trial trial;
	const struct session *found;
	unsigned tried;
};

static void try_session(struct session *s, void *arg)
{
	struct e2b_search *f = arg;
	char token[TOKEN_MAX];

	if (f->found != NULL)
		return;
	f->tried++;
	token_make(&f->b->key, TOKEN_ENVD, session_row(s)->id, token);
	if (token_trial_is(&f->trial, token))
		f->found = s;
}

/* 1: the id of the sandbox whose token signed it. 0: none. -1: its address has tried too often. */
static int find_signer(struct e2b *b, struct exchange *x, char ret_id[STORE_ID_MAX])
{
	const struct http1_request *q = exchange_request(x);
	char path[PATH_MAX_BYTES], user[ENVD_USER_MAX], expires[24], signature[64];
	struct e2b_search f = { .b = b };

	if (url_query_get(q->query, "signature", signature, sizeof(signature)) <= 0 ||
	    url_query_get(q->query, "path", path, sizeof(path)) < 0 ||
	    url_query_get(q->query, "username", user, sizeof(user)) < 0 ||
	    url_query_get(q->query, "signature_expiration", expires, sizeof(expires)) < 0)
		return 0;
	if (!signature_limit_allows(b->signatures, exchange_address(x), clock_now_ns()))
		return -1;
	token_trial_begin(&f.trial, path, q->method == HTTP1_POST ? "write" : "read", user, expires,
			  signature);
	session_each(b->core, NULL, try_session, &f);
	signature_limit_add(b->signatures, exchange_address(x), f.tried, f.found != NULL);
	if (f.found == NULL)
		return 0;
	str_copy_to(ret_id, STORE_ID_MAX, session_row(f.found)->id);
	return 1;
}

/* ---- dispatch
 *
 * router.c calls e2b_enter() for each request. False sends it on to the control plane and the other
 * interfaces. */

/* busy: the address has had too many checked. */
static void refuse_signature(struct e2b *b, struct exchange *x, bool busy)
{
	struct request *r = request_new(b->core, x, &control_dialect, b);

	if (r == NULL)
		return;
	if (busy)
		reply_code(r, 429, "quota", "too many signed requests, try again");
	else if (core_recovered(b->core))
		reply_code(r, 401, "unauthorized", "invalid signature");
	else
		reply_code(r, 503, "unavailable", "the server is starting, try again");
}

/* A request for envd that names no sandbox: it is found by the token (older clients) or the
 * signature. */
static bool by_token(struct e2b *b, struct exchange *x, bool tls)
{
	const struct http1_request *q = exchange_request(x);
	struct http1_span token;
	char id[STORE_ID_MAX], text[8];
	int found;

	if (!routes_know(&envd_routes, q->path))
		return false;
	if (http1_find(q->headers, q->headers_n, "x-access-token", &token) == 1 &&
	    token_id(token, id)) {
		sandbox_entry_handle(b, x, id, E2B_ENVD_PORT, "", tls);
		return true;
	}
	if (!http1_span_is(q->path, "/files") ||
	    url_query_get(q->query, "signature", text, sizeof(text)) == 0)
		return false;
	found = find_signer(b, x, id);
	if (found > 0)
		sandbox_entry_handle(b, x, id, E2B_ENVD_PORT, "", tls);
	else
		refuse_signature(b, x, found < 0);
	return true;
}

bool e2b_enter(struct e2b *b, struct exchange *x, bool tls)
{
	const struct http1_request *q = exchange_request(x);
	struct destination to;

	destination_find(q, &to);
	if (to.kind == DESTINATION_BAD) {
		sandbox_entry_refuse(b, x, to.why);
		return true;
	}
	if (to.kind == DESTINATION_SANDBOX) {
		sandbox_entry_handle(b, x, to.id, to.port, to.token, tls);
		return true;
	}
	return by_token(b, x, tls);
}
