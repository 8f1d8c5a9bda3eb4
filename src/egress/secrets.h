/* secrets.h - the secrets of one session, and where each may go. Pure but for the clock it is
 * given.
 *
 * The cell holds placeholders. For a request over verified TLS to a host, method and path that a
 * secret is bound to, its placeholder is replaced; anywhere else it stays what it is: worthless. */
#pragma once

#include "http1.h"
#include "mask.h"
#include "policy.h"
#include "sent.h"

struct json_t; /* of jansson */
struct secrets;

/* Once, before the first order is read: from then on what the JSON library gives back is wiped. */
void secrets_prepare(void);
/* Takes the members "secrets" and "mask" of the order (egress_msg.h). */
int secrets_read(const struct json_t *order, struct secrets **ret, struct err *e) MUST_USE;
void secrets_free(struct secrets *s); /* wipes them */
/* Every value that must not be recorded; NULL if there is nothing. Borrowed. */
const struct mask *secrets_mask(const struct secrets *s);

struct secrets_use {
	const char *host, *method, *path; /* normal forms */
	const struct policy_rule *rule;	  /* that allowed the request; names what it may use */
	bool verified_tls;
	uint64_t now_ms; /* wall clock, for expiry */
	/* Set here: */
	char names[256]; /* of those put in, comma separated */
	bool more;	 /* there was no room for all of the names */
	bool misused;	 /* a placeholder was there that does not belong there, or has expired */
};

/* Which values can the servers of this target know? Those that are bound to its host, that were
 * sent to it, or that some rule of the policy may put into a request to it. What is known is masked
 * in its answers, also to requests that hold no secret: what was stored can be asked for. False:
 * none. */
bool secrets_known_there(const struct secrets *s, const struct policy *p, const struct sent *sent,
			 const struct policy_target *to, struct mask_pick *ret);
/* The same for a further name of the same server, which a program says over a connection to an
 * address. Adds to ret. */
bool secrets_known_also(const struct secrets *s, const struct policy *p, const struct sent *sent,
			const struct policy_target *to, struct mask_pick *ret);

/* By a new order: is a secret that was put into this request gone, or another one, or no longer for
 * it? u->rule and u->now_ms are those of now. */
bool secrets_gone(const struct secrets *was, const struct secrets *now,
		  const struct secrets_use *u);

/* A header's value with placeholders replaced (also inside "Basic" base64). Returns the length in
 * ret, 0 if nothing changed (ret untouched), -1 if it does not fit. */
int secrets_header(const struct secrets *s, struct secrets_use *u, struct http1_span name,
		   struct http1_span value, char *ret, size_t cap) MUST_USE;
/* "Bearer ${secret.X}" of a rule's own: -1 if X is unknown, expired, or not for this request. */
int secrets_expand(const struct secrets *s, struct secrets_use *u, const char *template, char *ret,
		   size_t cap, struct err *e) MUST_USE;
/* Could a body of this request hold one? Then it is collected, at most SECRETS_BODY_MAX (longer
 * ones go unchanged), and given to secrets_body(): as secrets_header(), *ret is malloc'ed. */
#define SECRETS_BODY_MAX ((size_t)1 << 20)
bool secrets_wants_body(const struct secrets *s, const struct secrets_use *u,
			struct http1_span content_type);
int secrets_body(const struct secrets *s, struct secrets_use *u, struct http1_span content_type,
		 const uint8_t *body, size_t len, uint8_t **ret) MUST_USE;
