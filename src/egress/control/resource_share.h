/* resource_share.h - how sessions and tenants share descriptors, memory, and the work of one turn
 * of the loop. Called by session_control.c, flow*.c, gateway*.c and idle_conns.c. Knows tenants
 * and shares (one per session), no sessions.
 *
 * Descriptors: a tenant may hold at most as many as are still free, so the first tenant gets half
 * of them and some are always left for the next. A session that holds none may always have one
 * connection, from a reserve kept for that.
 *
 * Work: a session that moved RESOURCE_SHARE_TURN_BYTES in this turn, or whose tenant has moved
 * RESOURCE_SHARE_TENANT_BYTES, waits for the next turn. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "egress/control/fair_queue.h"
#include "egress/dns/synthetic_names.h"
#include "lib/loop/loop.h"
#include "lib/outbound/resolver_lookup.h"
#include "lib/wire/egress_msg.h"

#define RESOURCE_SHARE_TURN_BYTES ((uint64_t)1 << 20)
#define RESOURCE_SHARE_TENANT_BYTES ((uint64_t)4 << 20)
/* Processor time that counts as so many bytes: what a request costs depends on the policy, and a
 * policy can make a short one cost as much as a megabyte. */
#define RESOURCE_SHARE_TURN_NS ((uint64_t)4000000)
#define RESOURCE_SHARE_TURN_ACCEPTS 32U
#define RESOURCE_SHARE_TENANT_ACCEPTS 64U
#define RESOURCE_SHARE_TURN_HANDSHAKES \
	2U /* steps of TLS handshakes with servers: one may verify a chain */
#define RESOURCE_SHARE_TENANT_HANDSHAKES 4U

#define RESOURCE_SHARE_MEMORY_MAX ((size_t)32 << 20) /* buffers of one session's requests */
#define RESOURCE_SHARE_TENANT_MEMORY \
	((size_t)256 << 20) /* buffers of all requests of a tenant, on the node */

/* Metadata of packages that one session, and all of a tenant, use at a time. */
#define RESOURCE_SHARE_DOCUMENTS_MAX ((size_t)128 << 20)
#define RESOURCE_SHARE_TENANT_DOCUMENTS ((size_t)256 << 20)

#define RESOURCE_SHARE_FLOW_FDS 6U /* of a connection, at most: both ends, and a pipe each way */

/* Work done in the turn of the loop that began at at_ns. */
struct resource_share_turn {
	uint64_t at_ns, bytes;
	unsigned accepts, handshakes;
};

struct resource_share_tenant {
	struct resource_share_tenant *next;
	char name[EGRESS_ID_MAX]; /* "": cordond named none */
	unsigned sessions;
	unsigned fds;		  /* counted for its sessions */
	size_t memory;		  /* buffers of its sessions' requests */
	size_t documents;	  /* metadata of packages that its sessions use */
	unsigned package_fetches; /* package_load.c */
	unsigned package_leads;	  /* package_download.c */
	struct resolver_owner lookups;
	struct synthetic_names_share names;
	struct resource_share_turn turn;
	struct fair_queue_tenant handshakes; /* handshakes.h */
};

/* All shared resources of this process. */
struct resource_shares {
	struct loop *loop;
	struct resource_share_tenant *tenants; /* those with sessions */
	unsigned sessions;
	unsigned fds, fds_max; /* descriptors of connections: counted, and the bound */
	size_t tenant_memory;  /* this process's part of RESOURCE_SHARE_TENANT_MEMORY */
	unsigned tenant_names; /* and of SYNTHETIC_NAMES_TENANT_MAX */
};

/* One session's part. Starts zeroed. */
struct resource_share {
	struct resource_shares *all;
	struct resource_share_tenant *tenant; /* NULL until resource_share_join() */
	unsigned fds;
	size_t memory, documents;
	struct resource_share_turn turn;
};

/* fds_limit: RLIMIT_NOFILE of the process. The part that egress needs for itself is subtracted.
 * processes: of cordon-egress on this node: a tenant may have sessions in each of them, so a
 * tenant's bounds on the node are divided. Descriptors are not: each process has its own limit. */
void resource_share_init(struct resource_shares *all, struct loop *l, uint64_t fds_limit,
			 unsigned processes);

/* Add the session to this tenant. The tenant is created if it has no sessions. -1: out of
 * memory. */
int resource_share_join(struct resource_shares *all, struct resource_share *s,
			const char *tenant) MUST_USE;
/* Everything must have been given back. No effect on a part that never joined. */
void resource_share_leave(struct resource_share *s);

/* Take n descriptors. False: the share of the session or its tenant is used up. */
bool resource_share_take_fds(struct resource_share *s, unsigned n);
void resource_share_give_fds(struct resource_share *s, unsigned n);

/* The buffers of a request grew or shrank from `before` to `now` bytes. False: the session or its
 * tenant has too many. They are counted all the same. */
bool resource_share_memory(struct resource_share *s, size_t before, size_t now);

/* As above, for documents (metadata of packages) with bounds of their own. */
bool resource_share_documents(struct resource_share *s, size_t before, size_t now);

/* Bytes the session may still move in this turn. */
uint64_t resource_share_turn_left(struct resource_share *s);
void resource_share_turn_moved(struct resource_share *s, uint64_t n);
/* Processor time of this thread, and: count what was used since then. */
uint64_t resource_share_cpu_ns(void);
void resource_share_turn_worked(struct resource_share *s, uint64_t since_ns);
/* May it accept one more connection in this turn? Count it. */
bool resource_share_turn_accept(struct resource_share *s);
/* May it take one more step of a handshake with a server in this turn? Count it. */
bool resource_share_turn_handshake(struct resource_share *s);
