/* secrets_sent.h - which secrets of a session were sent to which hosts and addresses. Pure.
 * Written by gateway_request.c and gateway_server.c, read by secrets_known.c.
 *
 * A server to which a value was sent can know it until the session ends, also when no rule sends it
 * there any more. Of more than SECRETS_SENT_MAX pairs the last are kept. */
#pragma once

#include "lib/policy/host.h"

#define SECRETS_SENT_MAX 512
#define SECRETS_SENT_NAME_MAX 64

struct secrets_sent_pair {
	char host[HOST_MAX], name[SECRETS_SENT_NAME_MAX];
};

/* Starts zeroed. */
struct secrets_sent {
	struct secrets_sent_pair *all; /* owned. A ring when it is full */
	size_t n, next;
};

/* names: separated by commas. */
void secrets_sent_add(struct secrets_sent *s, const char *host, const char *names);
bool secrets_sent_has(const struct secrets_sent *s, const char *host, const char *name);
void secrets_sent_release(struct secrets_sent *s);
