/* sent.h - which secrets of a session were sent to which hosts and addresses. Pure.
 *
 * A server that was sent a value can know it until the session ends, also when no rule sends it
 * there any more: secrets_known_there() uses this. Of more than SENT_MAX pairs the last are kept.
 */
#pragma once

#include "host.h"

#define SENT_MAX 512
#define SENT_NAME_MAX 64

struct sent_one {
	char host[HOST_MAX], name[SENT_NAME_MAX];
};

/* Starts zeroed. */
struct sent {
	struct sent_one *all; /* owned; a ring when it is full */
	size_t n, next;
};

/* names: separated by commas. */
void sent_add(struct sent *s, const char *host, const char *names);
bool sent_has(const struct sent *s, const char *host, const char *name);
void sent_release(struct sent *s);
