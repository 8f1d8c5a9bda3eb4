/* access_record_text.h - what cordon-egress says of a session, read by whoever stores it. The
 * sender talks to hostile bytes on both sides, so nothing of it is believed. Pure, fuzzed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define ACCESS_RECORD_TEXT_KIND_MAX 16
#define ACCESS_RECORD_TEXT_NAME_MAX 256

/* What records are found by; doc/network.md has all members. */
struct access_record_text {
	char kind[ACCESS_RECORD_TEXT_KIND_MAX];
	char name[ACCESS_RECORD_TEXT_NAME_MAX]; /* "": it has none; cut */
	bool allowed;
	uint64_t time_ms; /* wall clock */
};

/* One record: a JSON object of at most 64 members with kind, verdict and time_ms. *ret_text is the
 * same, written anew by us, the caller's to free. ERR_INVALID otherwise. */
int access_record_text_read(const char *text, size_t len, struct access_record_text *ret,
			    char **ret_text, struct err *e) MUST_USE;

#define ACCESS_RECORD_TEXT_BUCKETS_MAX 32
#define ACCESS_RECORD_TEXT_CALLBACK_MAX 160

/* What EGRESS_TURNS says. */
struct record_turns {
	uint64_t count, sum_ns, max_ns, slowest_ns;
	uint64_t buckets[ACCESS_RECORD_TEXT_BUCKETS_MAX];
	size_t nbuckets;
	char slowest[ACCESS_RECORD_TEXT_CALLBACK_MAX]; /* letters that need no escape; cut */
};
int access_record_text_turns(const char *text, size_t len, struct record_turns *ret,
			     struct err *e) MUST_USE;

#define ACCESS_RECORD_TEXT_RULES_MAX 64
#define ACCESS_RECORD_TEXT_RULE_MAX 64

/* What was claimed of the limits of a rule. */
struct record_claim {
	char rule[ACCESS_RECORD_TEXT_RULE_MAX]; /* "": of the session's own */
	uint64_t in, out;
};

struct record_counts {
	uint64_t bytes_in, bytes_out, requests, connections;
	struct record_claim own;
	struct record_claim rules[ACCESS_RECORD_TEXT_RULES_MAX];
	size_t nrules;
};
/* What EGRESS_COUNTS says. Without claims: nothing was claimed. */
int access_record_text_counts(const char *text, size_t len, struct record_counts *ret,
			      struct err *e) MUST_USE;
