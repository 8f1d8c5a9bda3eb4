/* store_net.h - network records: what sessions tried to reach, in order. See store.h for what holds
 * for all rows. */
#pragma once

#include "daemon/store/store.h"

struct store_net {
	uint64_t seq; /* given by the store. Grows, and is never given twice */
	char tenant[STORE_ID_MAX];
	char session[STORE_ID_MAX];
	uint64_t time_ms;
	char kind[16]; /* "dns", "connect", "request", "package", "datagram" */
	bool allowed;
	char name[256];		      /* the host, or "". Cut */
	const char *data;	      /* the whole record, JSON */
	char execution[STORE_ID_MAX]; /* it came from. "": not known */
};

enum store_net_verdict { STORE_NET_REFUSED, STORE_NET_ALLOWED, STORE_NET_ANY };

struct store_net_filter {
	const char *session; /* NULL: of all sessions of the tenant */
	const char *tenant;  /* read if session is NULL */
	uint64_t after_seq;
	const char *kind; /* NULL: all */
	enum store_net_verdict verdict;
	const char *name;      /* NULL: all */
	const char *execution; /* NULL: all */
	unsigned limit;	       /* rows looked at, at most. 0: no limit */
};

typedef int store_net_fn(const struct store_net *row, void *cookie);

/* seq is ignored on the way in. *ret_seq, if not NULL, is its number. */
int store_net_append(struct store *s, const struct store_net *row, uint64_t *ret_seq,
		     struct err *e) MUST_USE;

/* Those after a number, in order. ret may be NULL. */
int store_net_list(struct store *s, const struct store_net_filter *filter, store_net_fn *fn,
		   void *cookie, struct store_looked *ret, struct err *e) MUST_USE;

/* The last number given, 0 if none ever was. */
int store_net_last(struct store *s, uint64_t *ret_seq, struct err *e) MUST_USE;

/* A long record counts as several: a bound on their number is one on their bytes, too. */
#define STORE_NET_WEIGHT(len) (1 + (uint64_t)(len) / 1024)

/* How many a session has, by weight. */
int store_net_count(struct store *s, const char *session, uint64_t *ret, struct err *e) MUST_USE;
/* Delete the oldest records of a session until their weight is at least that much. INT64_MAX: all.
 * *ret: the weight of those deleted. Return how many were deleted. */
int store_net_drop(struct store *s, const char *session, uint64_t weight, uint64_t *ret,
		   struct err *e) MUST_USE;

/* The last record of a session that a batch in the audit log covers. */
int store_net_batched(struct store *s, const char *session, uint64_t *ret, struct err *e) MUST_USE;
int store_net_set_batched(struct store *s, const char *session, uint64_t seq,
			  struct err *e) MUST_USE;

/* As store_event_prune(), store_event_count() and store_event_drop(): by rows, not by weight. */
int store_net_prune(struct store *s, uint64_t before_ms, unsigned limit, store_gone_fn *fn,
		    void *cookie, struct err *e) MUST_USE;
int store_net_count_tenant(struct store *s, const char *tenant, uint64_t *ret,
			   struct err *e) MUST_USE;
int store_net_drop_tenant(struct store *s, const char *tenant, unsigned limit,
			  struct err *e) MUST_USE;

/* ---- claims: how much live sessions have used of their limits "in total", by rule. For the next
 * cordon-egress. */

#define STORE_NET_CLAIM_RULE_MAX 64

struct store_net_claim {
	char rule[STORE_NET_CLAIM_RULE_MAX]; /* "": the session's own */
	uint64_t in, out;
};

typedef int store_net_claim_fn(const struct store_net_claim *row, void *cookie);

/* Write the claim of a rule, or replace it. */
int store_net_claim_set(struct store *s, const char *session, const struct store_net_claim *row,
			struct err *e) MUST_USE;
/* In order of rules, at most so many. */
int store_net_claim_each(struct store *s, const char *session, unsigned limit,
			 store_net_claim_fn *fn, void *cookie, struct err *e) MUST_USE;
int store_net_claim_delete(struct store *s, const char *session, struct err *e) MUST_USE;
