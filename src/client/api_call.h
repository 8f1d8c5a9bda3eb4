/* api_call.h - requests to the API: key, JSON in and out, and the server's errors as struct err. */
#pragma once

#include <jansson.h>

#include "args.h"
#include "client.h"
#include "target.h"
#include "server_address.h"

#define API_CALL_ANSWER_MAX (64U << 20)

#define API_CALL_NO_KEY "no API key found: set CORDON_API_KEY or give --key-file"

struct api_call {
	struct client *client; /* owned */
	char authorization[SERVER_ADDRESS_KEY_MAX + 16];
	struct client_header headers[4];
	size_t nheaders;
	int status;    /* of the last answer; 0: there was none */
	char code[48]; /* of the last error that the server sent, or "" */
};

static inline void api_call_close(struct api_call *a)
{
	client_free(a->client);
}

/* Closed at the end of its scope. */
#define OWN_API_CALL __attribute__((cleanup(api_call_close))) struct api_call

/* Finds server and key; connects at the first request. io_ms: how long to wait for anything at all;
 * 0: for ever. */
int api_call_open(struct api_call *a, const struct args_common *o, uint64_t io_ms,
		  struct err *e) MUST_USE;
/* How long to wait for an answer: longer than any timeout of the server. */
#define API_CALL_ANSWER_MS 600000
/* For a stream of events, which the server keeps alive every 15 seconds. */
#define API_CALL_STREAM_MS 60000

/* Sends body (borrowed, may be NULL) to the target; any status beyond 299 is an error with the
 * server's words: "message (code, request id)". *ret is the answer, owned by the caller, NULL if it
 * has none; ret may be NULL. */
int api_call_json(struct api_call *a, const char *method, const struct target *t,
		  const json_t *body, json_t **ret, struct err *e) MUST_USE;

/* For requests and answers that are not JSON: adds the key and sends r; the body of a good answer
 * is then to be read from a->client. */
int api_call_send(struct api_call *a, struct client_request *r, const struct target *t,
		  struct err *e) MUST_USE;

/* Reads the answer of a request that was refused as an error. Returns -1. */
int api_call_refused(struct api_call *a, struct err *e);

/* Is the failure temporary: the server is not there, or restarting? */
bool api_call_is_temporary(const struct api_call *a);

/* All items of a list that comes in pages, from the position `after` on (NULL: all): "sessions"
 * under /v1/sessions and so on. t must not have "after" in it. *ret is an array, owned by the
 * caller; at most max items. */
int api_call_pages(struct api_call *a, const struct target *t, const char *member,
		   const char *after, size_t max, json_t **ret, struct err *e) MUST_USE;

/* Adds what may help to the error of a connection that was not made; leaves others as they are. */
void api_call_explain(struct err *e);
