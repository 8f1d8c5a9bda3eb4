/* store_actor.h - the request that caused an event or an execution: three columns of their rows.
 * Records of the audit log have all of it.
 *
 * Filled in by the interfaces from a request (request_actor()), passed through the core and written
 * with the event. NULL in place of an actor, and one with all zeros: the server itself. */
#pragma once

#include "daemon/store/store.h"

#define STORE_ACTOR_REQUEST_MAX 24
#define STORE_ACTOR_ADDRESS_MAX 46 /* an address of IP version 6 */
#define STORE_ACTOR_BEHALF_MAX 129

struct store_actor {
	char interface[8];	   /* "api", "cli", "ws", "e2b", "mcp". "": the server itself */
	char key_id[STORE_ID_MAX]; /* "": there was no key, but a token of the session */
	char request_id[STORE_ACTOR_REQUEST_MAX];
	/* not in rows of events and executions */
	char address[STORE_ACTOR_ADDRESS_MAX];	/* of the client. "": not by IP */
	char on_behalf[STORE_ACTOR_BEHALF_MAX]; /* whom the client named (X-Cordon-Actor): a claim
						 */
};

/* A copy. All zeros for NULL. */
static inline struct store_actor store_actor_copy(const struct store_actor *who)
{
	const struct store_actor none = { 0 };

	return who == NULL ? none : *who;
}
