/* notary_keys.h - the keys of cordon-notary: one for checkpoints, the one before it until it is
 * retired, and one for documents. All are Ed25519, by libcrypto. They are in one file, always
 * replaced as a whole, and never leave the process. */
#pragma once

#include <openssl/evp.h>

#include "lib/tlog/tlog_note.h"
#include "lib/wire/notary_msg.h"

struct notary_key {
	struct tlog_vkey public;
	uint8_t seed[TLOG_KEY];
	EVP_PKEY *pkey; /* owned. NULL: there is no such key */
};

struct notary_keys {
	int dir; /* borrowed */
	char name[NOTARY_NAME_MAX];
	struct notary_key present, former, documents;
};

/* Whether the folder has the file. -1: that cannot be known. */
int notary_keys_exist(int dir, struct err *e) MUST_USE;
/* Read the file. */
int notary_keys_open(struct notary_keys *k, int dir, struct err *e) MUST_USE;
/* Make a name and keys, and write the file. */
int notary_keys_make(struct notary_keys *k, int dir, struct err *e) MUST_USE;

/* A new present key. The one before it becomes the former, of which there must be none. */
int notary_keys_rotate(struct notary_keys *k, struct err *e) MUST_USE;
/* Forget the former key, if there is one. */
int notary_keys_retire(struct notary_keys *k, struct err *e) MUST_USE;

int notary_key_sign(const struct notary_key *k, const void *message, size_t len,
		    uint8_t ret[TLOG_SIG], struct err *e) MUST_USE;
