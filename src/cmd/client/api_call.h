/* api_call.h - requests to the API: key, JSON in and out, and the server's errors as struct err. */
#pragma once

#include <jansson.h>

#include "cmd/client/args.h"
#include "cmd/client/target.h"
#include "lib/net/client.h"

#define SERVER_ADDRESS_KEY_MAX 256

#define API_CALL_ANSWER_MAX (64U << 20)

#define API_CALL_NO_KEY "no API key found: set CORDON_API_KEY or give --key-file"

/* One server, one key, one request at a time. The connection is kept between requests. Callers
 * read status and code after a refusal, and a->client for the body of a good answer. */
struct api_call {
	struct client *client; /* owned */
	char authorization[SERVER_ADDRESS_KEY_MAX + 16];
	struct client_header headers[4];
	size_t nheaders;
	int status;    /* of the last answer. 0: there was none */
	char code[48]; /* of the last error that the server sent, or "" */
};

static inline void api_call_close(struct api_call *a)
{
	client_free(a->client);
}

/* Closed at the end of its scope. */
#define OWN_API_CALL __attribute__((cleanup(api_call_close))) struct api_call

/* Find server and key. Connect at the first request. io_ms: how long to wait for anything at all.
 * 0: without end. */
int api_call_open(struct api_call *a, const struct args_common *o, uint64_t io_ms,
		  struct err *e) MUST_USE;
/* The beginning of most verbs: args_read() for fields that begin with a struct args_common, then
 * api_call_open(). Return ARGS_GO, or the exit code. */
int api_call_begin(const struct verb *v, int argc, char **argv, void *fields,
		   struct args_words *ret, size_t min, size_t max, uint64_t io_ms,
		   struct api_call *a, struct err *e) MUST_USE;
/* How long to wait for an answer: longer than any timeout of the server. */
#define API_CALL_ANSWER_MS 600000
/* For a stream of events, which the server keeps alive every 15 seconds. */
#define API_CALL_STREAM_MS 60000

/* Send body (borrowed, may be NULL) to the target. Any status beyond 299 is an error with the
 * server's words: "message (code, request id)". *ret is the answer, owned by the caller, NULL if it
 * has none. ret may be NULL. */
int api_call_json(struct api_call *a, const char *method, const struct target *t,
		  const json_t *body, json_t **ret, struct err *e) MUST_USE;

/* For requests and answers other than JSON: add the key and send r. The caller reads the body of a
 * good answer from a->client. */
int api_call_send(struct api_call *a, struct client_request *r, const struct target *t,
		  struct err *e) MUST_USE;

/* Read the answer of a refused request as an error. Return -1. */
int api_call_refused(struct api_call *a, struct err *e);

/* Is the failure temporary: the server is not there, or restarting? */
bool api_call_is_temporary(const struct api_call *a);

/* All items of a list that comes in pages, from the position `after` on (NULL: all): "sessions"
 * under /v1/sessions and so on. t must not have "after" in it. *ret is an array, owned by the
 * caller. At most max items. */
int api_call_pages(struct api_call *a, const struct target *t, const char *member,
		   const char *after, size_t max, json_t **ret, struct err *e) MUST_USE;

/* Add help to the error of a failed connection. Leave others unchanged. */
void api_call_explain(struct err *e);
