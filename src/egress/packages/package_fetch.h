/* package_fetch.h - a request that egress makes itself: for the metadata of a package
 * (package_load.c), or for a module hashed before it is sent (package_gate_sums.c).
 *
 * It goes through a gateway of its own (an internal flow, flow.h), so that policy, limits, secrets,
 * masks, checks of addresses and records are those of any request of the session. This is the
 * client at the other end: it collects the body in a file without a name (memfd). */
#pragma once

#include "egress/control/egress_session.h"
#include "egress/flow/endpoint.h"
#include "egress/gateway/gateway_stream.h"
#include "lib/http/chunk.h"
#include "lib/loop/completion.h"

#define PACKAGE_FETCH_MAX ((uint64_t)64 << 20) /* bytes of a document */
#define PACKAGE_FETCH_MS 60000
#define PACKAGE_FETCH_FDS (RESOURCE_SHARE_FLOW_FDS + 2U)
#define PACKAGE_FETCH_TAG_MAX 256

struct package_fetch_ask {
	const struct endpoint *to;
	bool tls;
	bool head;		     /* only whether it is there: no body */
	const char *target;	     /* path, with query if there is one, as it is sent */
	const char *accept;	     /* NULL: anything */
	const char *etag, *modified; /* validators of the existing document. "": none */
	const char *credentials;   /* header lines of the program's request, each with CRLF. NULL */
	const struct owner *owner; /* of the program's connection */
	const char *noun;	   /* what it is, for errors: a constant */
	uint64_t max;		   /* bytes of the body */
};

struct package_fetch {
	/* Set by the caller. on_done: with an error, there was no answer. */
	struct completion done;
	/* The answer: valid from on_done until package_fetch_release(). */
	int status;
	int fd; /* of a 200: its body. Owned until it is taken with TAKE_FD(). Else -1 */
	uint64_t size;
	char etag[PACKAGE_FETCH_TAG_MAX], modified[64], type[128];
	char location[2048];		/* of a redirect */
	char reason[POLICY_REASON_MAX]; /* why egress itself refused it or failed. "" */
	bool is_denied;			/* it refused it */
	/* Called for bytes to be collected. false: they would be too many. */
	bool (*on_bytes)(struct package_fetch *f, size_t n);
	void *arg;

	/* The rest is for package_fetch.c only. */
	struct egress_session *session; /* NULL: not begun */
	struct gateway_stream stream;
	const char *noun;
	uint64_t max;
	struct chunk chunk;
	enum http1_framing framing;
	uint64_t left;
	size_t scanned;
	bool has_head, head;
};

/* Before anything else: nothing is held. */
void package_fetch_init(struct package_fetch *f);
/* Begin. done.on_done comes later, once. */
void package_fetch_start(struct package_fetch *f, struct egress_session *session,
			 const struct package_fetch_ask *ask);
/* End it without a call of on_done, and release its resources. No effect twice. */
void package_fetch_release(struct package_fetch *f);
