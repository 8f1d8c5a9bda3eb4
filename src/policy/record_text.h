/* record_text.h - what cordon-egress says of a session, read by whoever stores it. The sender talks
 * to hostile bytes on both sides, so nothing of it is believed. Pure, fuzzed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define RECORD_TEXT_KIND_MAX 16
#define RECORD_TEXT_NAME_MAX 256

/* What records are found by; doc/network.md has all members. */
struct record_text {
	char kind[RECORD_TEXT_KIND_MAX];
	char name[RECORD_TEXT_NAME_MAX]; /* "": it has none; cut */
	bool allowed;
	uint64_t time_ms; /* wall clock */
};

/* One record: a JSON object of at most 64 members with kind, verdict and time_ms. *ret_text is the
 * same, written anew by us, the caller's to free. ERR_INVALID otherwise. */
int record_text_read(const char *text, size_t len, struct record_text *ret, char **ret_text,
		     struct err *e) MUST_USE;

struct record_counts {
	uint64_t bytes_in, bytes_out, requests, connections;
};
/* What EGRESS_COUNTS says. */
int record_text_counts(const char *text, size_t len, struct record_counts *ret,
		       struct err *e) MUST_USE;
