#include "front/web/mcp_front.h"

#include <stdio.h>
#include <string.h>

#include "front/web/reply.h"
#include "lib/base/addr.h"
#include "lib/config/config.h"
#include "lib/mcp/server/mcp_write.h"

#define ERROR_MAX 8192

/* Does the server listen for this machine only? */
static bool is_local_only(const struct config *config)
{
	struct addr a;
	struct err e;

	return config->listen[0] == '\0' || addr_parse(config->listen, &a, &e) < 0 ||
	       addr_is_loopback(&a);
}

bool mcp_front_allowed(const struct exchange *x, const struct config *config)
{
	const struct http1_request *q = exchange_request(x);
	char plain[CONFIG_DOMAIN_MAX], api[CONFIG_DOMAIN_MAX + 8];
	const char *const hosts[] = { plain, api, NULL };
	struct http1_span origin = { 0 };
	bool local = strcmp(exchange_peer(x), "unix") != 0 && is_local_only(config);

	/* Two would be read differently by others. */
	if (http1_find(q->headers, q->headers_n, "origin", &origin) > 1)
		return false;
	(void)snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(config->domain, ":"),
		       config->domain);
	(void)snprintf(api, sizeof(api), "api.%s", plain);
	return mcp_origin_allowed(origin, q->host, hosts, local);
}

/* A fault without a code is a status without a body. */
static void send_fault(struct exchange *x, int status, const struct mcp_request *q,
		       const struct mcp_fault *f)
{
	struct json j;

	if (f->code == 0) {
		exchange_reply(x, status, NULL, "", 0);
		return;
	}
	json_init_heap(&j, ERROR_MAX);
	mcp_write_error(&j, q, f);
	if (json_ok(&j))
		exchange_reply(x, status, "application/json", j.text, j.len);
	else
		exchange_reply(x, 500, NULL, "", 0);
	json_release(&j);
}

void mcp_front_refuse_origin(struct exchange *x)
{
	const struct mcp_request none = { 0 };
	struct mcp_fault f = { 0 };

	IGNORED(mcp_fault_http(&f, 403, MCP_INVALID_REQUEST,
			       "the headers Origin or Host do not name this server"),
		"sent");
	send_fault(x, 403, &none, &f);
}

void mcp_front_refuse(struct request *r, const struct mcp_request *q, const struct mcp_fault *f)
{
	send_fault(r->x, mcp_fault_status(q, f), q, f);
}

void mcp_front_fail(struct request *r, const struct mcp_request *q, const struct failure *why)
{
	struct mcp_fault f = { 0 };

	IGNORED(mcp_fault_http(&f, why->status,
			       why->status >= 500 ? MCP_INTERNAL_ERROR : MCP_INVALID_REQUEST, "%s",
			       why->message),
		"sent");
	send_fault(r->x, why->status, q, &f);
}

/* Tells a client which scope to ask for. */
void mcp_front_challenge(struct request *r, const struct err *e)
{
	if (e->reason == REASON_UNAUTHORIZED)
		exchange_header(r->x, "WWW-Authenticate", "Bearer scope=\"sessions\"");
	else
		mcp_front_need_scope(r, "read");
}

void mcp_front_need_scope(struct request *r, const char *scope)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "Bearer error=\"insufficient_scope\", scope=\"%s\"",
		       scope);
	exchange_header(r->x, "WWW-Authenticate", text);
}
