/* notary_link.h - cordond's end of the channel to cordon-notary (lib/wire/notary_msg.h).
 *
 * daemon/main makes the link, hands it every channel that the supervisor sends, and gives it to the
 * audit log as core_options.notary. The link never connects by itself: after cordon-notary was
 * killed the supervisor starts another one and sends its channel, some milliseconds later, and the
 * link tells its watcher.
 *
 * A call ends exactly once, from the loop, never inside the function that began it, or is
 * cancelled. Its error is one of: REASON_UNAVAILABLE (no cordon-notary is connected),
 * REASON_PEER_DIED (it ended during the call: the request may have taken effect), REASON_TIMEOUT,
 * and ERR_INVALID (a field does not fit a message). An answer REFUSED is an answer, not an error.
 *
 * The caller of notary_link_sign() must:
 * - make the records below `size` durable first. Otherwise a power cut makes cordon-notary know
 *   more than the store, which looks like a rollback.
 * - after any error ask for the same size and root again before a larger one: cordon-notary may
 *   have signed it, and signs it again.
 * - REFUSED with NOTARY_STALE: if the log has answer->size records and its root at that size is
 *   answer->root, make the proof from there and ask again. If it has fewer, it is a rollback. If
 *   its root differs, it is a fork. NOTARY_ROLLBACK and NOTARY_FORK are alarms at once.
 * NOTARY_DISK, NOTARY_FULL and NOTARY_DAMAGED are faults of the node: try again later.
 * - keep the answer's `lines`: they follow the body of the checkpoint and an empty line. */
#pragma once

#include "lib/channel/channel.h"
#include "lib/wire/notary_msg.h"

struct notary_link;

struct notary_call {
	/* The owner's. answer is NULL if e is set, and valid during the call. Its type is the
	 * answer of the request in notary_msg.h, or NOTARY_REFUSED. */
	void (*on_done)(struct notary_call *c, const struct notary_msg *answer,
			const struct err *e);
	void *arg;
	/* Private to notary_link.c. All zeros: never begun. */
	struct channel_call wait;
	const struct notary_msg *answer;
	enum notary_type expected;
};

struct notary_sign {
	const char *origin;
	uint64_t old_size, size;
	const uint8_t *root;  /* of size, 32 bytes */
	const uint8_t *proof; /* nproof times 32 bytes: from old_size to size */
	uint32_t nproof;
};

/* replace: has a cordon-notary that hangs killed and replaced. */
struct notary_link *notary_link_new(struct loop *l, void (*replace)(void *arg), void *arg);
/* Open calls end without a callback. NULL is allowed. */
void notary_link_free(struct notary_link *l);
/* Take over the channel of a new cordon-notary. */
int notary_link_attach(struct notary_link *l, int sock, struct err *e) MUST_USE;

/* Called from the loop whenever a new cordon-notary is connected. One watcher, NULL: none. */
void notary_link_watch(struct notary_link *l, void (*on_up)(void *arg), void *arg);
bool notary_link_is_up(const struct notary_link *l);
/* How long none has been connected, in ms. 0: one is. */
uint64_t notary_link_down_ms(const struct notary_link *l);

/* The arguments of all calls are copied. -> SIGNED: lines. REFUSED: reason, size, root. */
void notary_link_sign(struct notary_link *l, struct notary_call *c, const struct notary_sign *s);
/* -> KEY_IS. */
void notary_link_key(struct notary_link *l, struct notary_call *c);
/* body: at most NOTARY_BODY_MAX bytes. -> ATTESTED: the DSSE signature over
 * "DSSEv1" SP LEN(type) SP type SP LEN(body) SP body, type by notary_payload_name(). */
void notary_link_attest(struct notary_link *l, struct notary_call *c, enum notary_payload payload,
			const void *body, size_t len);
/* -> KEY_IS: vkey is the new key, former_vkey the one before. REFUSED with NOTARY_FULL: the key
 * before that one has not been retired. The caller appends a record audit.key to every log, has a
 * checkpoint of every log signed by both keys, and then retires. */
void notary_link_rotate(struct notary_link *l, struct notary_call *c);
/* -> KEY_IS. */
void notary_link_retire(struct notary_link *l, struct notary_call *c);
/* At any time, repeatable. */
void notary_link_cancel(struct notary_call *c);
