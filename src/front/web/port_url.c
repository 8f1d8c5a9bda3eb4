#include "front/web/port_url.h"

#include <stdio.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/secrets/sealed_key.h"
#include "lib/base/hex.h"
#include "lib/base/hmac.h"
#include "lib/base/log.h"
#include "lib/base/sha256.h"

/* The name of the sealed key in the store. */
#define KEY_NAME "ports.key"

int port_url_key(struct core *c, uint8_t ret[PORT_URL_KEY], struct err *e)
{
	return sealed_key_get(c, KEY_NAME, ret, PORT_URL_KEY, e) < 0 ? err_wrap(e, "key of ports")
								     : 0;
}

/* The opening is part of the text, so closing a port ends its old URLs. */
static void make_token(const uint8_t key[PORT_URL_KEY], const char *id, unsigned port,
		       const char *opening, char ret[PORT_URL_TOKEN + 1])
{
	char text[STORE_ID_MAX + SESSION_PORTS_OPENING + 32];
	uint8_t code[SHA256_SIZE];

	(void)snprintf(text, sizeof(text), "port:%u:%s:%s", port, id, opening);
	hmac_sha256(key, PORT_URL_KEY, text, strlen(text), code);
	hex_encode(code, PORT_URL_TOKEN / 2, ret);
}

/* The comparison does not stop at the first difference. */
bool port_url_is_token(const uint8_t key[PORT_URL_KEY], const struct store_session *row,
		       unsigned port, const char *given, char ret[SESSION_PORTS_OPENING])
{
	char token[PORT_URL_TOKEN + 1];
	unsigned differ = 0;

	if (strlen(given) != PORT_URL_TOKEN || !session_ports_find(row, port, ret))
		return false;
	make_token(key, row->id, port, ret, token);
	for (size_t i = 0; i < PORT_URL_TOKEN; i++)
		differ |= (unsigned)(uint8_t)given[i] ^ (unsigned)(uint8_t)token[i];
	return differ == 0;
}

bool port_url_tls(const struct core *c)
{
	return core_config(c)->tls_local || core_config(c)->tls_cert[0] != '\0';
}

/* A host name of its own for each port, as browsers separate origins by it. */
static void write_url(const struct session *s, const uint8_t key[PORT_URL_KEY], unsigned port,
		      const char *opening, bool tls, char ret[PORT_URL_MAX])
{
	const char *id = session_row(s)->id;
	char token[PORT_URL_TOKEN + 1];

	make_token(key, id, port, opening, token);
	(void)snprintf(ret, PORT_URL_MAX, "%s://%u-%s-%s.%s/", tls ? "https" : "http", port, id,
		       token, core_config(session_core(s))->domain);
}

/* The key is in memory for this call only. */
int port_url_open(struct session *s, unsigned port, bool tls, const struct store_actor *who,
		  char ret[PORT_URL_MAX], struct err *e)
{
	char opening[SESSION_PORTS_OPENING];
	uint8_t key[PORT_URL_KEY];

	if (port_url_key(session_core(s), key, e) < 0 ||
	    session_ports_open(s, port, who, opening, e) < 0)
		return -1;
	write_url(s, key, port, opening, tls, ret);
	explicit_bzero(key, sizeof(key));
	return 0;
}

/* live NULL: an ended session has no ports. */
void port_url_list(struct json *j, const struct session *live, bool urls)
{
	const char *at = live == NULL ? "" : session_row(live)->ports;
	char opening[SESSION_PORTS_OPENING], url[PORT_URL_MAX];
	uint8_t key[PORT_URL_KEY] = { 0 };
	unsigned port;
	struct err e;

	if (*at != '\0' && urls && port_url_key(session_core(live), key, &e) < 0) {
		log_warn("URLs of ports are not shown", "error=%s", e.msg);
		urls = false;
	}
	json_open(j, "ports", '[');
	while (session_ports_next(&at, &port, opening)) {
		if (urls)
			write_url(live, key, port, opening, port_url_tls(session_core(live)), url);
		json_open(j, NULL, '{');
		json_uint(j, "port", port);
		json_text(j, "url", urls ? url : NULL);
		json_close(j, '}');
	}
	json_close(j, ']');
	explicit_bzero(key, sizeof(key));
}
