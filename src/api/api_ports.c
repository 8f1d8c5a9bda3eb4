/* api_ports.c - opens and closes ports of a session for clients that have no key (port_url.h). */
#include "api_handlers.h"
#include "json_members.h"
#include "port_url.h"
#include "reply.h"
#include "request.h"
#include "units.h"

static int read_port(const uint8_t *body, size_t len, uint64_t *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_count(&m, "port", 1, UINT16_MAX, ret);
	if (*ret == 0)
		(void)json_members_fail(&m, "port", "is missing");
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	char url[PORT_URL_MAX];
	uint64_t port = 0;
	struct json j;

	if (s == NULL || read_port(body, len, &port, &e) < 0 ||
	    port_url_open(s, (unsigned)port, port_url_tls(r->core), request_actor(r), url, &e) <
		    0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, PORT_URL_MAX + 64);
	json_open(&j, NULL, '{');
	json_uint(&j, "port", port);
	json_text(&j, "url", url);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

void api_ports_open(struct request *r)
{
	request_body(r, on_body);
}

void api_ports_close(struct request *r)
{
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	uint64_t port;

	if (s == NULL)
		reply_error(r, &e);
	else if (units_count(r->id, 1, UINT16_MAX, &port, &e) < 0)
		reply_code(r, 404, "not_found", "a port is a number from 1 to 65535");
	else if (session_ports_close(s, (unsigned)port, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
