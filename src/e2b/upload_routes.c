/* upload_routes.c - archives for COPY: the client asks for a URL, then sends the archive there.
 *
 * The URL is the only proof that the sender may: it carries a time, the id of the key that asked
 * for it and an HMAC over these, template and hash (token.h). It is good for that archive only, for
 * a day and as long as the key is, and may be used again: the last archive that came whole counts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "auth.h"
#include "build.h"
#include "build_receive.h"
#include "e2b_private.h"
#include "json.h"
#include "recipe.h"
#include "reply.h"
#include "template_find.h"
#include "tenant.h"
#include "url.h"

#define VALID_S 86400ULL
#define URL_MAX 1024

/* ---- GET /templates/{template}/files/{hash} */

/* How the client reaches this server: a proxy in front says it. */
static bool behind_tls(const struct request *r)
{
	const struct config *g = core_config(r->core);
	const struct http1_request *q = exchange_request(r->x);

	return g->tls_local || g->tls_cert[0] != '\0' ||
	       http1_lists(q->headers, q->headers_n, "x-forwarded-proto", "https");
}

static void write_url(struct request *r, const char *template_id, char ret[URL_MAX])
{
	const struct http1_request *q = exchange_request(r->x);
	const char *key = r->grant.key_id;
	uint64_t until = core_now_ms() / 1000 + VALID_S;
	char token[TOKEN_UPLOAD_MAX];

	token_upload(&e2b_of(r)->key, key, template_id, r->part, until, token);
	(void)snprintf(ret, URL_MAX,
		       "%s://%.*s/templates/%s/files/%s?key=%s&expires=%" PRIu64 "&token=%s",
		       behind_tls(r) ? "https" : "http", (int)q->host.n, q->host.p, template_id,
		       r->part, key, until, token);
}

void upload_routes_link(struct request *r)
{
	char template_id[STORE_ID_MAX], url[URL_MAX];
	struct json j;

	if (!recipe_is_hash(r->part)) {
		reply_code(r, 400, "invalid", "Invalid hash: must be 64 lower-case hex digits");
		return;
	}
	if (!auth_may_change_templates(r) || !template_find_own(r, r->id, template_id))
		return;
	write_url(r, template_id, url);
	json_init_heap(&j, 4096);
	json_open(&j, NULL, '{');
	json_bool(&j, "present",
		  build_upload_there(r->core, tenant_row(r->tenant)->id, template_id, r->part));
	json_text(&j, "url", url);
	json_close(&j, '}');
	reply_json(r, 201, &j);
}

/* ---- PUT */

/* The tenant of a URL that this server made and that is still good; NULL: answered. */
static struct tenant *check(struct request *r)
{
	char key[STORE_ID_MAX], given[TOKEN_UPLOAD_MAX], token[TOKEN_UPLOAD_MAX];
	struct tenant *t = NULL;
	uint64_t until = 0;
	struct err e = { 0 };

	if (recipe_is_hash(r->part) && request_text(r, "key", key, sizeof(key), &e) == 0 &&
	    request_text(r, "token", given, sizeof(given), &e) == 0 &&
	    request_number(r, "expires", 1, INT64_MAX / 1000, &until, &e) == 0) {
		token_upload(&e2b_of(r)->key, key, r->id, r->part, until, token);
		if (token_same(given, token))
			t = tenant_of_key(r->core, key, &r->scopes, &r->grant, &e);
		if (t == NULL && e.code != ERR_NONE && e.code != ERR_NOT_FOUND &&
		    e.code != ERR_DENIED) { /* of the store */
			reply_error(r, &e);
			return NULL;
		}
	}
	if (t == NULL || tenant_check(t, &e) < 0)
		reply_code(r, 403, "denied", "this is not the URL of an upload");
	else if (until < core_now_ms() / 1000)
		reply_code(r, 403, "denied", "the URL of the upload has expired");
	else
		return t;
	return NULL;
}

void upload_routes_put(struct request *r)
{
	struct tenant *t = check(r);
	struct err e = { 0 };

	if (t == NULL)
		return;
	r->tenant = t;
	if (request_count(r, &e) < 0)
		reply_error(r, &e);
	else
		build_receive(r, tenant_row(t)->id, r->id, r->part, 200);
}
