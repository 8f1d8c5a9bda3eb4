#include "front/e2b/control/destination.h"

#include <string.h>

bool destination_id(struct http1_span given, char ret[STORE_ID_MAX])
{
	const char *dash = given.n == 0 ? NULL : memchr(given.p, '-', given.n);
	size_t n = dash == NULL ? given.n : (size_t)(dash - given.p);

	/* The client's id behind the '-' has the same characters, and no bound of its own. */
	for (size_t i = n + 1; i < given.n; i++)
		if (!session_id_is_valid(&given.p[i], 1))
			return false;
	return n + 1 != given.n && session_id_read(given.p, n, ret);
}

/* 1 to 65535, as digits only. */
static bool take_port(struct http1_span given, uint16_t *ret)
{
	unsigned value = 0;

	if (given.n == 0 || given.n > 5)
		return false;
	for (size_t i = 0; i < given.n; i++) {
		if (given.p[i] < '0' || given.p[i] > '9')
			return false;
		value = value * 10 + (unsigned)(given.p[i] - '0');
	}
	*ret = (uint16_t)value;
	return value > 0 && value <= UINT16_MAX;
}

/* Headers win over the host name, and half of them is an error. */
static void by_headers(size_t nid, struct http1_span id, size_t nport, struct http1_span port,
		       struct destination *ret)
{
	ret->kind = DESTINATION_BAD;
	if (nid != 1 || nport != 1)
		ret->why = "give both headers, E2b-Sandbox-Id and E2b-Sandbox-Port, once";
	else if (!destination_id(id, ret->id))
		ret->why = "E2b-Sandbox-Id: not the id of a sandbox";
	else if (!take_port(port, &ret->port))
		ret->why = "E2b-Sandbox-Port: not a port";
	else
		ret->kind = DESTINATION_SANDBOX;
}

/* Too long: it is none. */
static void take_token(const char *p, size_t n, char ret[DESTINATION_TOKEN_MAX])
{
	for (size_t i = 0; i < n && n < DESTINATION_TOKEN_MAX; i++) /* names have no case */
		ret[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32 : p[i]);
}

/* "3000-id", perhaps followed by another '-' and more. A label of another form is not a sandbox's.
 * A wrong label of this form is refused: such a request must never reach the node by mistake. */
static void by_label(struct http1_span label, struct destination *ret)
{
	struct http1_span port = label, id;
	char lower[STORE_ID_MAX];
	size_t digits = 0;

	while (digits < label.n && label.p[digits] >= '0' && label.p[digits] <= '9')
		digits++;
	if (digits == 0 || digits == label.n || label.p[digits] != '-')
		return;
	port.n = digits;
	id.p = label.p + digits + 1;
	id.n = label.n - digits - 1;
	for (size_t i = 0; i < id.n; i++)
		if (id.p[i] == '-') {
			take_token(id.p + i + 1, id.n - i - 1, ret->token);
			id.n = i;
		}
	for (size_t i = 0; i < id.n && id.n < sizeof(lower); i++) /* names have no case */
		lower[i] = (char)(id.p[i] >= 'A' && id.p[i] <= 'Z' ? id.p[i] + 32 : id.p[i]);
	if (id.n < sizeof(lower))
		id.p = lower;
	ret->kind = DESTINATION_BAD;
	if (!take_port(port, &ret->port))
		ret->why = "the host name does not begin with a port";
	else if (!destination_id(id, ret->id))
		ret->why = "the host name does not hold the id of a sandbox";
	else
		ret->kind = DESTINATION_SANDBOX;
}

/* kind stays DESTINATION_NODE unless the request names a sandbox. */
void destination_find(const struct http1_request *q, struct destination *ret)
{
	struct http1_span id = { 0 }, port = { 0 }, label = q->host;
	size_t nid = http1_find(q->headers, q->headers_n, "e2b-sandbox-id", &id);
	size_t nport = http1_find(q->headers, q->headers_n, "e2b-sandbox-port", &port);
	const char *dot;

	memset(ret, 0, sizeof(*ret));
	if (nid + nport > 0) {
		by_headers(nid, id, nport, port, ret);
		return;
	}
	dot = label.n == 0 ? NULL : memchr(label.p, '.', label.n);
	if (dot == NULL)
		return; /* no domain below which there could be sandboxes */
	label.n = (size_t)(dot - label.p);
	by_label(label, ret);
}
