/* share.h - what sessions use together, by tenant and in all: descriptors, and work in one turn of
 * the loop.
 *
 * Descriptors: a tenant may hold at most as many as are still free, so the first tenant gets half
 * of them, and there is always something left for the next. A session that holds none may always
 * have one connection, out of what is kept back for that.
 *
 * Work: a session that has moved SHARE_TURN_BYTES in this turn, or whose tenant has moved
 * SHARE_TENANT_BYTES, waits for the next one; others have theirs meanwhile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "egress_msg.h"
#include "fair.h"
#include "resolver.h"

struct egress;
struct egress_session;

#define SHARE_TURN_BYTES ((uint64_t)1 << 20)
#define SHARE_TENANT_BYTES ((uint64_t)4 << 20)
#define SHARE_TURN_ACCEPTS 32U
#define SHARE_TENANT_ACCEPTS 64U
#define SHARE_TURN_SHAKES 2U /* steps of TLS handshakes with servers: one may verify a chain */
#define SHARE_TENANT_SHAKES 4U

#define SHARE_MEMORY_MAX ((size_t)32 << 20)	/* of one session's requests under way */
#define SHARE_TENANT_MEMORY ((size_t)256 << 20) /* and of all of its tenant's */

#define SHARE_FLOW_FDS 6U /* of a connection, at most: both ends, and a pipe each way */

/* What was done in the turn that began at this time. */
struct share_turn {
	uint64_t at_ns, bytes;
	unsigned accepts, shakes;
};

/* Of one tenant. */
struct share {
	struct share *next;
	char tenant[EGRESS_ID_MAX]; /* "": it was not said whose */
	unsigned sessions;
	unsigned fds;  /* that its sessions may have open */
	size_t memory; /* of its sessions' requests */
	struct resolver_owner lookups;
	struct share_turn turn;
	struct fair_owner shakes; /* handshakes.h */
};

/* How many descriptors there are for sessions' connections; called once, at the start. */
unsigned share_fds_of(uint64_t limit);

/* Finds or makes it; NULL: memory is short. */
struct share *share_join(struct egress *e, const char *tenant);
/* The last session takes it along. */
void share_leave(struct egress *e, struct share *s);

/* n descriptors for this session. False: its share, or its tenant's, is used up. */
bool share_take_fds(struct egress_session *g, unsigned n);
void share_give_fds(struct egress_session *g, unsigned n);

/* A request under way has `now` bytes of buffers, and had `before`. False: the session, or its
 * tenant, has too much; it counts all the same. */
bool share_memory(struct egress_session *g, size_t before, size_t now);

/* What the session may still move in this turn; 0: others first. */
uint64_t share_turn_left(struct egress_session *g);
void share_turn_moved(struct egress_session *g, uint64_t n);
/* May it accept one more connection in this turn? Counts it. */
bool share_turn_accept(struct egress_session *g);
/* May it take one more step of a handshake with a server in this turn? Counts it. */
bool share_turn_shake(struct egress_session *g);
