/* fetch.h - gets one object of a registry, whole and verified: a manifest into memory, or a blob
 * into a descriptor. Called by pull.c.
 *
 * It answers challenges (login.h), follows redirects, waits and asks again where that can help, and
 * continues a blob where it was broken off. It ends exactly once, by on_done from the loop. The
 * bytes have the expected digest and size then, or there is an error:
 *
 * ERR_NOT_FOUND: no such object. code[] is the registry's word for it, if it had one.
 * ERR_DENIED: the registry wants other credentials, or an address or certificate is refused.
 * ERR_INVALID: the registry sent something else than it was asked for.
 * ERR_LIMIT: more bytes than allowed, or the registry's rate limit.
 * ERR_SYSTEM: the registry could not be reached, or failed, until no attempts were left. */
#pragma once

#include "lib/base/buf.h"
#include "lib/oci/oci_digest.h"
#include "pull/get.h"
#include "pull/login.h"
#include "pull/registry_json.h"

#define FETCH_REDIRECTS_MAX 5
#define FETCH_ATTEMPTS_MAX 5	/* in a row that brought next to nothing */
#define FETCH_WAIT_MAX_MS 60000 /* that a registry may make it wait by Retry-After */
#define FETCH_TYPE_MAX 256

struct fetch {
	/* Set by the caller. */
	const struct get_means *means;
	struct login *login;	/* of the pull: shared by its fetches */
	const char *open_hosts; /* whose addresses may be private, see address_is_listed() */
	uint64_t patience_ms;
	const char *accept;
	struct address url;
	bool has_digest;
	struct oci_digest digest;
	uint64_t size; /* of a blob: exactly so many bytes. UINT64_MAX: not known, max counts */
	uint64_t max;
	int fd; /* owned: where a blob goes, non-blocking. -1: into `body` */
	void (*on_done)(struct fetch *f, const struct err *e);
	void *arg;

	/* For the caller, when it has ended. */
	struct buf body;	       /* fd is -1 */
	char type[FETCH_TYPE_MAX];     /* Content-Type */
	char code[REGISTRY_ERROR_MAX]; /* of an error */
	uint64_t done;		       /* bytes so far: for progress, at any time */

	/* Private to fetch*.c. */
	struct get get;
	struct completion end;
	struct loop_timer wait;
	struct loop_fd sink;
	struct sha256 hash;
	struct address at; /* of the present request */
	struct buf text;   /* of an answer other than the object: token, error */
	unsigned state, next, redirects, attempts;
	uint64_t skip;	       /* bytes of the answer that came before already */
	uint64_t attempt_from; /* `done` when this attempt began */
	uint64_t wait_ms;
	struct challenge challenge;
	bool logged_in;	   /* a challenge was answered since the last success */
	struct err failed; /* of this attempt */
};

void fetch_start(struct fetch *f);
/* Close the descriptor, and free all it holds. on_done is not called any more. Also for an ended
 * fetch, or one never started (zeroed but for fd). */
void fetch_release(struct fetch *f);
