/* access_record_text.h - reads the messages of cordon-egress about a session: records
 * (egress/control/access_record.c), counts and turns. Called by src/daemon/egressctl, which stores
 * it. Egress handles hostile bytes from cells and servers, so nothing in its messages is trusted.
 * Pure but for the clock, fuzzed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/policy/package_record_text.h"

#define ACCESS_RECORD_NUMBER_MAX                                         \
	(1LL << 53) /* JSON readers keep integers up to this value exact \
		     */
/* Tokens of one record: more than a day of any model. A server's larger number counts as this. */
#define ACCESS_RECORD_TOKENS_MAX 1000000000LL
#define ACCESS_RECORD_TEXT_KIND_MAX 16
#define ACCESS_RECORD_TEXT_NAME_MAX 256
#define ACCESS_RECORD_TEXT_WORD_MAX 16
#define ACCESS_RECORD_TEXT_RULE_MAX 64
#define ACCESS_RECORD_TEXT_REASON_MAX 256
#define ACCESS_RECORD_TEXT_SECRETS_MAX 256

/* The members used for searching records. doc/network.md lists all members. */
struct access_record_text {
	char kind[ACCESS_RECORD_TEXT_KIND_MAX];
	char name[ACCESS_RECORD_TEXT_NAME_MAX]; /* "": none. Cut to its size */
	bool allowed;
	uint64_t time_ms; /* wall clock */
	/* of the program that made the request, 0: unknown */
	uint64_t mark;
	/* why the mark is unknown: a word of [a-z_], "": no reason was given */
	char unknown[ACCESS_RECORD_TEXT_WORD_MAX];
	char reason[ACCESS_RECORD_TEXT_REASON_MAX]; /* of a refusal or failure, cut. "": none */
	/* names of the secrets put into the request, comma separated, cut. "": none */
	char secrets[ACCESS_RECORD_TEXT_SECRETS_MAX];
	/* Set for records of kind "package" only. */
	bool is_package;
	struct package_record package;
	char rule[ACCESS_RECORD_TEXT_RULE_MAX]; /* cut to its size */
	uint64_t status, bytes;			/* of the answer */
	uint64_t tokens_in, tokens_out;		/* of a model call. 0: none is known */
};

/* Read one record: a JSON object of at most 64 members with kind, verdict and time_ms. A future
 * time becomes the current time. For kind "package", only known members of the member package are
 * kept. *ret_text is the record as written by this function, without the mark and without the
 * members that cordond writes itself (seq, time, execution_id, execution_unknown). The caller frees
 * it. ERR_INVALID for any other text. */
int access_record_text_read(const char *text, size_t len, struct access_record_text *ret,
			    char **ret_text, struct err *e) MUST_USE;

#define ACCESS_RECORD_TEXT_BUCKETS_MAX 32
#define ACCESS_RECORD_TEXT_CALLBACK_MAX 160

/* The content of EGRESS_TURNS: how long turns of the event loop took. */
struct record_turns {
	uint64_t count, sum_ns, max_ns, slowest_ns;
	uint64_t buckets[ACCESS_RECORD_TEXT_BUCKETS_MAX];
	size_t nbuckets;
	/* printable characters that need no escape, cut to its size */
	char slowest[ACCESS_RECORD_TEXT_CALLBACK_MAX];
};
/* Read the content of EGRESS_TURNS. */
int access_record_text_turns(const char *text, size_t len, struct record_turns *ret,
			     struct err *e) MUST_USE;

#define ACCESS_RECORD_TEXT_RULES_MAX 64

/* Bytes claimed from the limits of a rule. */
struct record_claim {
	char rule[ACCESS_RECORD_TEXT_RULE_MAX]; /* "": the session's own limits */
	uint64_t in, out;
};

/* The content of EGRESS_COUNTS. */
struct record_counts {
	uint64_t bytes_in, bytes_out, requests, connections;
	struct record_claim own;
	struct record_claim rules[ACCESS_RECORD_TEXT_RULES_MAX];
	size_t nrules;
};
/* Read EGRESS_COUNTS. Without members for claims, all claims are 0. */
int access_record_text_counts(const char *text, size_t len, struct record_counts *ret,
			      struct err *e) MUST_USE;

/* Covers the texts of a record that a program in the cell wrote: path, query, reason, prompt,
 * completion. cover changes a text in place, keeps its length, and returns whether it did anything.
 * A path, query or reason with an escape whose plain form is covered is covered as a whole.
 * Replaces *text, a record that was read, and the reason that was read from it. */
int access_record_text_cover(char **text, struct access_record_text *r,
			     bool (*cover)(void *arg, char *text), void *arg,
			     struct err *e) MUST_USE;
