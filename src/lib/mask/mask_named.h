/* mask_named.h - finds things by their form: e-mail addresses, phone numbers, payment cards, IBANs,
 * IP addresses and API keys. For mask_scan.c.
 *
 * Each is found at its end, by a look at the last MASK_NAMED_MAX bytes, so a byte costs a bounded
 * number of steps (MASK_NAMED_COST). A key is covered from its beginning on, as it comes. */
#pragma once

#include "lib/mask/mask.h"

#define MASK_NAMED_MAX 256 /* bytes of one at most, but of a key */
#define MASK_NAMED_COST 8  /* steps of one name for a byte, on average */
#define MASK_NAMED_HEAD 48

struct mask_named {
	uint8_t ring[MASK_NAMED_MAX];
	uint64_t n; /* bytes so far */
	uint64_t settled;
	unsigned sequence;	   /* bytes of a terminal's control sequence so far. 0: none */
	uint64_t last[MASK_NAMES]; /* where the last thing of this name ended */
	/* A key that may have begun, with its first bytes. key_n 0: none. */
	char key[MASK_NAMED_HEAD];
	uint64_t key_from, key_n;
	bool key_found;
};

/* Covers from `from` to `to`. */
typedef void mask_named_fn(void *arg, enum mask_name name, uint64_t from, uint64_t to);

/* Takes the next byte. names: set of 1 << name. */
void mask_named_step(struct mask_named *s, unsigned names, uint8_t c, mask_named_fn *found,
		     void *arg);
/* The bytes so far are to be given out: finds things that end with the last one. */
void mask_named_settle(struct mask_named *s, unsigned names, mask_named_fn *found, void *arg);
