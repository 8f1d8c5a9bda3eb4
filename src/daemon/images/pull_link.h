/* pull_link.h - cordond's end of the channel to cordon-pull (lib/wire/pull_msg.h). Called by
 * image_pull.c.
 *
 * A call is one pull. Its owner has the structure and fills in the callbacks. All of them come from
 * the loop. on_failed ends a call. After it, and after pull_link_end(), no callback comes. If
 * cordon-pull ends, every call fails with REASON_PEER_DIED. One that does not answer is replaced
 * through the supervisor.
 *
 * cordon-pull reads bytes of registries and may be taken over: its messages are checked here for
 * their form, and by image_pull.c for their content. */
#pragma once

#include "lib/channel/channel.h"
#include "lib/wire/pull_msg.h"

struct pull_link;

struct pull_call {
	/* Set by the owner. Valid during the call: data, e. */
	void (*on_document)(struct pull_call *c, enum pull_document kind, const uint8_t *data,
			    size_t len);
	void (*on_progress)(struct pull_call *c, uint32_t blob, uint64_t bytes);
	void (*on_blob)(struct pull_call *c, uint32_t blob, const struct err *e);
	void (*on_failed)(struct pull_call *c, const char *word, const struct err *e);
	void *arg;
	/* Private to pull_link.c. */
	struct pull_link *link; /* NULL: not in progress */
	struct pull_call *next;
	uint32_t number;
};

struct pull_link {
	struct channel channel;
	struct pull_call *calls;
	uint32_t last; /* number of a call */
	/* It hangs: it is to be killed and replaced. May be NULL. */
	void (*on_hung)(void *arg);
	void *arg;
};

void pull_link_init(struct pull_link *l, struct loop *loop);
/* Calls in progress end without a callback. */
void pull_link_release(struct pull_link *l);
/* A new channel, taken over. */
int pull_link_attach(struct pull_link *l, int sock, struct err *e) MUST_USE;

/* REASON_UNAVAILABLE: cordon-pull is not there at the moment. */
int pull_link_start(struct pull_link *l, struct pull_call *c, const struct pull_start *start,
		    struct err *e) MUST_USE;
/* Ask for a blob into fd, taken over in any case. */
int pull_link_blob(struct pull_call *c, uint32_t number, const uint8_t sha256[32], uint64_t size,
		   int fd, struct err *e) MUST_USE;
/* Repeatable, and allowed for one never started (zeroed). */
void pull_link_end(struct pull_call *c);
