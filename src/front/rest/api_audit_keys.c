/* api_audit_keys.c - signatures of audit logs: POST /v1/audit/cosignature stores those of
 * witnesses, POST /v1/audit/rotate has cordon-notary make a new key, and GET tells the keys.
 *
 * The body of a cosignature is a signed note (lib/tlog/tlog_note.h), read strictly and bounded by
 * TLOG_NOTE_MAX. A new key is there when the answer comes. The logs get it afterwards
 * (audit_rotate.c), also if the client has disconnected. */
#include <openssl/evp.h>
#include <string.h>

#include "daemon/audit/audit.h"
#include "daemon/audit/audit_cosign.h"
#include "daemon/audit/audit_rotate.h"
#include "daemon/tenant/tenant.h"
#include "front/rest/api_handlers.h"
#include "front/web/auth.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/base/str.h"
#include "lib/http/http1.h"
#include "lib/json/json.h"

#define ANSWER_SIZE 1024
/* How long a request waits for cordon-notary. */
#define ROTATE_MS 10000

/* ---- cosignatures
 *
 * A witness signs a checkpoint and posts the note. audit_cosign() parses the note, compares it with
 * the log, and asks signature_holds() about signatures. It keeps the last checkpoint that witnesses
 * signed. */

/* Any failure in OpenSSL counts as a wrong signature. */
static bool signature_holds(void *arg, const uint8_t key[TLOG_KEY], const void *message, size_t len,
			    const uint8_t sig[TLOG_SIG])
{
	EVP_PKEY *k = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, TLOG_KEY);
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	bool good = k != NULL && c != NULL && EVP_DigestVerifyInit(c, NULL, NULL, NULL, k) == 1 &&
		    EVP_DigestVerify(c, sig, TLOG_SIG, message, len) == 1;

	EVP_MD_CTX_free(c);
	EVP_PKEY_free(k);
	return good;
}

/* Whose log. Only the operator may store signatures for another tenant's log or for the node's. */
static int read_tenant(struct request *r, char ret[STORE_ID_MAX], struct err *e)
{
	const char *own = tenant_row(r->tenant)->id;

	if (request_text(r, "tenant", ret, STORE_ID_MAX, e) < 0)
		return -1;
	if (ret[0] == '\0')
		memcpy(ret, own, STORE_ID_MAX);
	if (strcmp(ret, own) != 0 && auth_check_operator(r, e) < 0)
		return -1;
	if (strcmp(ret, "node") == 0)
		memcpy(ret, AUDIT_NODE, sizeof(AUDIT_NODE));
	return 0;
}

/* The answer names the checkpoint and how many witnesses have signed it now. */
static void on_note(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct tlog_checkpoint c;
	char tenant[STORE_ID_MAX];
	unsigned witnesses;
	struct err e = { 0 };
	struct json j;

	if (read_tenant(r, tenant, &e) < 0 ||
	    audit_cosign(core_audit(r->core), tenant, (const char *)body, len, request_actor(r),
			 signature_holds, &c, &witnesses, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, ANSWER_SIZE);
	json_open(&j, NULL, '{');
	json_text(&j, "origin", c.origin);
	json_uint(&j, "size", c.size);
	json_uint(&j, "cosignatures", witnesses);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* A note is text. A JSON body is refused before a byte is read. */
void api_audit_cosignature(struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span type;

	if (http1_find(q->headers, q->headers_n, "content-type", &type) > 0 &&
	    !http1_span_is_nocase(http1_media_type(type), "text/plain")) {
		reply_code(r, 415, "unsupported_media", "the body must be text/plain");
		return;
	}
	exchange_read_all(r->x, TLOG_NOTE_MAX, on_note);
}

/* ---- the key
 *
 * Every log of the node is signed with one key. Reading it and making a new one are the operator's.
 */

/* The present key and the one before it, as verifier keys. Null: there is none. */
static void show_keys(struct request *r, int status)
{
	const struct audit *a = core_audit(r->core);
	const char *present = audit_vkey(a), *former = audit_former_vkey(a);
	struct json j;

	json_init_heap(&j, ANSWER_SIZE);
	json_open(&j, NULL, '{');
	json_text(&j, "vkey", present[0] == '\0' ? NULL : present);
	json_text(&j, "former_vkey", former[0] == '\0' ? NULL : former);
	json_close(&j, '}');
	reply_json(r, status, &j);
}

/* 202: the logs get the new key afterwards. */
static void on_rotated(struct completion *w, const struct err *failed)
{
	if (failed != NULL)
		reply_error(w->arg, failed);
	else
		show_keys(w->arg, 202);
}

void api_audit_keys(struct request *r)
{
	struct err e = { 0 };

	if (auth_check_operator_reads(r, &e) < 0)
		reply_error(r, &e);
	else
		show_keys(r, 200);
}

/* The answer comes when cordon-notary has the new key, or after ROTATE_MS with an error. */
void api_audit_rotate(struct request *r)
{
	struct err e = { 0 };

	if (auth_check_operator(r, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	r->wait.on_done = on_rotated;
	r->wait.arg = r;
	audit_rotate(core_audit(r->core), request_actor(r), &r->wait);
	if (completion_is_waiting(&r->wait))
		completion_set_deadline(&r->wait, ROTATE_MS, "a new key");
}
