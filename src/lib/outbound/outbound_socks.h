/* outbound_socks.h - asks a SOCKS5 proxy (RFC 1928, 1929) to connect. For outbound.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/policy/policy.h"

#define OUTBOUND_SOCKS_MSG 520 /* the longest is user and password: 3 + 255 + 255 */

enum outbound_socks_step {
	OUTBOUND_SOCKS_METHOD,
	OUTBOUND_SOCKS_AUTH,
	OUTBOUND_SOCKS_HEAD,
	OUTBOUND_SOCKS_REST,
	OUTBOUND_SOCKS_DONE
};

struct outbound_socks {
	enum outbound_socks_step step; /* the next message to read */
	uint8_t auth[OUTBOUND_SOCKS_MSG], request[OUTBOUND_SOCKS_MSG];
	size_t nauth, nrequest; /* nauth 0: no password */
	uint8_t out[OUTBOUND_SOCKS_MSG], in[262];
	size_t nout, sent, nin, want;
};

/* A name is sent as a name: the proxy resolves it. Fail if a text is too long for the protocol. */
int outbound_socks_init(struct outbound_socks *s, const struct policy_proxy *proxy,
			const struct policy_target *to, struct err *e) MUST_USE;
/* Pure: handles the s->want bytes in s->in, and sets what to write (nout) and to read next. -1: the
 * proxy refused, or does not speak SOCKS5. */
int outbound_socks_take(struct outbound_socks *s, struct err *e) MUST_USE;
/* Read and write as much as possible, never a byte after the proxy's last reply. 1: connected. 0:
 * wait for *ret_events. */
int outbound_socks_go(struct outbound_socks *s, int fd, uint32_t *ret_events,
		      struct err *e) MUST_USE;
/* Wipe the password. */
void outbound_socks_clear(struct outbound_socks *s);
