/* store_actor.h - the request that caused an event or an execution: three columns of their rows.
 *
 * Filled in by the interfaces from a request (request_actor()), passed through the core and written
 * with the event. NULL in place of an actor, and one that is all zeros: the server itself. */
#pragma once

#include "store.h"

#define STORE_ACTOR_REQUEST_MAX 24

struct store_actor {
	char interface[8];	   /* "api", "cli", "ws", "e2b", "mcp"; "": the server itself */
	char key_id[STORE_ID_MAX]; /* "": there was no key, but a token of the session */
	char request_id[STORE_ACTOR_REQUEST_MAX];
};

/* A copy, which is all zeros for NULL. */
static inline struct store_actor store_actor_copy(const struct store_actor *who)
{
	const struct store_actor none = { 0 };

	return who == NULL ? none : *who;
}
