/* key_expiry.h - writes the event key.expired when the time of a key is over.
 *
 * The key itself is refused by its row (tenant_authenticate()); this is only the record. Called by
 * retention.c, once a second. The position behind the last key that was reported is in the store,
 * so that each key is reported once, also if the server was not running when it expired. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store.h"

struct core;

struct key_expiry {
	bool loaded;
	uint64_t after_ms; /* the last key that was reported: its expiry and its id */
	char after_id[STORE_ID_MAX];
	uint64_t next_ms; /* no key expires before */
};

/* A key was made; 0: it does not expire. */
void key_expiry_add(struct core *c, uint64_t expires_ms);
/* Reports some keys. True: there may be more. */
bool key_expiry_piece(struct core *c);
