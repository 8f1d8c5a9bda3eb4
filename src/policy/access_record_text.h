/* access_record_text.h - reads what cordon-egress sends about a session: records
 * (egress/access_record.c), counts and turns. Called by src/netaccess, which stores it. Egress
 * handles hostile bytes from cells and servers, so nothing in its messages is trusted. Pure
 * but for the clock, fuzzed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "package_record_text.h"

#define ACCESS_RECORD_NUMBER_MAX (1LL << 53) /* as exact as readers of JSON can have it */
#define ACCESS_RECORD_TEXT_KIND_MAX 16
#define ACCESS_RECORD_TEXT_NAME_MAX 256
#define ACCESS_RECORD_TEXT_WORD_MAX 16
#define ACCESS_RECORD_TEXT_RULE_MAX 64
#define ACCESS_RECORD_TEXT_REASON_MAX 256

/* The members that records are searched by; doc/network.md lists all. */
struct access_record_text {
	char kind[ACCESS_RECORD_TEXT_KIND_MAX];
	char name[ACCESS_RECORD_TEXT_NAME_MAX]; /* "": none; cut at its size */
	bool allowed;
	uint64_t time_ms;			    /* wall clock */
	uint64_t mark;				    /* of the program that made it; 0: not known */
	char unknown[ACCESS_RECORD_TEXT_WORD_MAX];  /* why not: a word of [a-z_]; "": not said */
	char reason[ACCESS_RECORD_TEXT_REASON_MAX]; /* of a refusal or failure; ""; cut */
	/* Only of kind "package". */
	bool is_package;
	struct package_record package;
	char rule[ACCESS_RECORD_TEXT_RULE_MAX]; /* cut at its size */
	uint64_t status, bytes;			/* of the answer */
};

/* Reads one record: a JSON object of at most 64 members with kind, verdict and time_ms (a
 * time in the future becomes this moment), and of kind
 * "package" with the member package, of which only known members are kept. *ret_text
 * is the same record, written again without the members that cordond writes itself (seq, time,
 * execution_id, execution_unknown) and without the mark; the caller frees it. ERR_INVALID
 * otherwise. */
int access_record_text_read(const char *text, size_t len, struct access_record_text *ret,
			    char **ret_text, struct err *e) MUST_USE;

#define ACCESS_RECORD_TEXT_BUCKETS_MAX 32
#define ACCESS_RECORD_TEXT_CALLBACK_MAX 160

/* The content of EGRESS_TURNS. */
struct record_turns {
	uint64_t count, sum_ns, max_ns, slowest_ns;
	uint64_t buckets[ACCESS_RECORD_TEXT_BUCKETS_MAX];
	size_t nbuckets;
	/* characters that need no escape; cut at its size */
	char slowest[ACCESS_RECORD_TEXT_CALLBACK_MAX];
};
int access_record_text_turns(const char *text, size_t len, struct record_turns *ret,
			     struct err *e) MUST_USE;

#define ACCESS_RECORD_TEXT_RULES_MAX 64

/* Bytes claimed of the limits of a rule. */
struct record_claim {
	char rule[ACCESS_RECORD_TEXT_RULE_MAX]; /* "": of the session itself */
	uint64_t in, out;
};

struct record_counts {
	uint64_t bytes_in, bytes_out, requests, connections;
	struct record_claim own;
	struct record_claim rules[ACCESS_RECORD_TEXT_RULES_MAX];
	size_t nrules;
};
/* Reads EGRESS_COUNTS. Without members for claims, nothing was claimed. */
int access_record_text_counts(const char *text, size_t len, struct record_counts *ret,
			      struct err *e) MUST_USE;
