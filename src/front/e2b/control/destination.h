/* destination.h - where a request is to go: to the node itself, or to a port of a sandbox. Pure,
 * fuzzed.
 *
 * By the headers E2b-Sandbox-Id and E2b-Sandbox-Port, or else by the left-most label of the host
 * name: "3000-i0123456789abcdef.example.com", perhaps with a token behind the id (port_url.h). */
#pragma once

#include "daemon/store/store.h"
#include "lib/http/http1.h"

#define DESTINATION_TOKEN_MAX 40

enum destination_kind { DESTINATION_NODE, DESTINATION_SANDBOX, DESTINATION_BAD };

struct destination {
	enum destination_kind kind;
	char id[STORE_ID_MAX]; /* of a sandbox */
	uint16_t port;
	char token[DESTINATION_TOKEN_MAX]; /* of a host name, behind the id. "": none */
	const char *why;		   /* if it is bad: a constant */
};

void destination_find(const struct http1_request *q, struct destination *ret);

/* A sandbox's id as clients write it: that of session_id.h, without "-" and a client's id, which
 * may follow. False: it cannot be one. */
bool destination_id(struct http1_span given, char ret[STORE_ID_MAX]);
