/* challenge.h - reads WWW-Authenticate of a registry: the credentials it wants before it answers.
 * Pure, fuzzed. Called by fetch.c. */
#pragma once

#include <stdbool.h>

#include "lib/http/http1.h"

#define CHALLENGE_REALM_MAX 1024
#define CHALLENGE_SERVICE_MAX 256
#define CHALLENGE_SCOPE_MAX 512

enum challenge_kind { CHALLENGE_NONE, CHALLENGE_BASIC, CHALLENGE_BEARER };

struct challenge {
	enum challenge_kind kind;
	/* Of CHALLENGE_BEARER. Realm is never empty, the others may be. */
	char realm[CHALLENGE_REALM_MAX];
	char service[CHALLENGE_SERVICE_MAX];
	char scope[CHALLENGE_SCOPE_MAX];
};

/* The best one among all headers of an answer: Bearer, else Basic, else NONE (unknown schemes, or
 * malformed). */
void challenge_read(const struct http1_header *headers, size_t n, struct challenge *ret);
