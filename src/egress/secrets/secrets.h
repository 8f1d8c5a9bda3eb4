/* secrets.h - the secrets of one session, and where each may be sent. Pure but for the time it is
 * given. Called by the gateway.
 *
 * The cell holds placeholders. In a request over verified TLS to a host, method and path that a
 * secret is bound to, its placeholder is replaced by the value. Anywhere else the placeholder is
 * sent as it is, and is worthless. */
#pragma once

#include "egress/secrets/secrets_sent.h"
#include "lib/http/http1.h"
#include "lib/mask/mask.h"
#include "lib/policy/policy.h"

struct json_t; /* of jansson */
struct secrets;

/* Called once, before the first configuration is read: from then on memory that the JSON library
 * frees is wiped, and its tables of members, which tenants fill, have a secret seed. */
void secrets_prepare(void);
/* Read the members "secrets" and "mask" of a session's configuration (egress_msg.h). */
int secrets_read(const struct json_t *config, struct secrets **ret, struct err *e) MUST_USE;
void secrets_free(struct secrets *s); /* wipes the values */
/* Mask every value that must not be recorded. NULL: there are none. Borrowed. */
const struct mask *secrets_mask(const struct secrets *s);

struct secrets_use {
	const char *host, *method, *path; /* in their normal forms */
	/* the rule that allowed the request, with the secrets it may use */
	const struct policy_rule *rule;
	bool verified_tls;
	uint64_t now_ms; /* wall clock, for expiry */
	/* Set by the functions below: */
	/* owned: names of those put in, comma separated, each once. NULL: none */
	char *names;
	/* where those begin that this server got. The others went to servers that led here */
	size_t here;
	bool more; /* names lacks some: out of memory */
	/* there was a placeholder that may not be replaced there, or has expired */
	bool misused;
};

/* The same request goes to another server, which no secret was put in for so far. The members above
 * are those of this server. */
void secrets_use_next(struct secrets_use *u, const struct secrets_use *server);
/* Names of those that this server got. "": none. */
const char *secrets_use_here(const struct secrets_use *u);
/* Forget the request. */
void secrets_use_release(struct secrets_use *u);

/* Before the first question about servers, and for each policy: looks up the names in its rules, so
 * that no request does. -1: out of memory. */
int secrets_bind(struct secrets *s, const struct policy *p, struct err *e) MUST_USE;
/* Which secrets can the servers of this target know? Those bound to its host, those sent to it
 * before, and those that a rule of the policy may put into a request to it. They are masked in its
 * answers, also to requests without a secret: a server may repeat a stored value. False: none. */
bool secrets_known_there(const struct secrets *s, const struct policy *p,
			 const struct secrets_sent *sent, const struct policy_target *to,
			 struct mask_pick *ret);
/* Add to ret the secrets that servers of another name can know: a name that a program sent over a
 * connection to an address. */
bool secrets_known_also(const struct secrets *s, const struct policy *p,
			const struct secrets_sent *sent, const struct policy_target *to,
			struct mask_pick *ret);

/* After a change of secrets: is a secret put into this request removed, replaced, or no longer
 * allowed in it? Those of earlier servers need not be allowed at this one. u->rule and u->now_ms
 * are the current ones. */
bool secrets_revoked(const struct secrets *was, const struct secrets *now,
		     const struct secrets_use *u);

/* Replace placeholders in the value of a header (also inside "Basic" base64). Return the length
 * in ret, 0 if nothing changed (ret is not written), -1 if it does not fit. */
int secrets_header(const struct secrets *s, struct secrets_use *u, struct http1_span name,
		   struct http1_span value, char *ret, size_t cap) MUST_USE;
/* Expand the value of a header that a rule sets, such as "Bearer ${secret.X}". -1: X is unknown,
 * expired, or not allowed in this request. */
int secrets_expand(const struct secrets *s, struct secrets_use *u, const char *template, char *ret,
		   size_t cap, struct err *e) MUST_USE;
/* May the body of this request hold a placeholder that may be replaced? Then the caller collects
 * it, at most SECRETS_BODY_MAX (longer ones are sent unchanged), and calls secrets_body(): as
 * secrets_header(), with *ret malloc'ed. */
#define SECRETS_BODY_MAX ((size_t)1 << 20)
bool secrets_wants_body(const struct secrets *s, const struct secrets_use *u,
			struct http1_span content_type);
int secrets_body(const struct secrets *s, struct secrets_use *u, struct http1_span content_type,
		 const uint8_t *body, size_t len, uint8_t **ret) MUST_USE;
