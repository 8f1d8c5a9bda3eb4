/* audit_leaf.h - the bytes of one audit record: the leaf (the hashed bytes) and the side
 * with the erasable values. doc/audit.md describes both.
 *
 * A sealed value is in the leaf as a commitment: SHA-256("cordon-field", a zero byte, a random salt
 * of 16 bytes, the name, a zero byte, the value). Without the salt the value cannot be guessed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/audit/audit_types.h"
#include "daemon/store/store_actor.h"
#include "daemon/store/store_audit.h"
#include "lib/base/sha256.h"

#define AUDIT_SEALED_MAX 6
#define AUDIT_VALUE_MAX 4096 /* bytes of a sealed value. A longer one is cut */
#define AUDIT_SALT 16
#define AUDIT_PIECE (64U << 10) /* bytes of records that a piece of work reads, about */

struct audit_sealed {
	const char *name;  /* a constant */
	const char *value; /* NULL: not there */
};

struct audit_record {
	const char *tenant;			      /* "": the log of the node */
	const char *session, *execution;	      /* NULL or "": none */
	const char *type;			      /* of audit_types.h */
	const struct store_actor *actor;	      /* NULL: the server itself */
	uint64_t time_ms;			      /* 0: now */
	struct audit_sealed sealed[AUDIT_SEALED_MAX]; /* secrets are masked already */
};

struct audit_leaf {
	char text[STORE_AUDIT_LEAF_MAX]; /* with its NUL */
	size_t len;
	char *side; /* owned. NULL: nothing is sealed */
};

/* facts: lines for `data` (fact_lines.h). Facts that do not fit are replaced by their hash. -1: no
 * memory. */
int audit_leaf_make(struct audit_leaf *ret, const struct audit_record *r,
		    const struct audit_type *type, uint64_t seq, const char *facts,
		    struct err *e) MUST_USE;
void audit_leaf_release(struct audit_leaf *l);

/* The commitment of a value, as hexadecimal digits. */
void audit_leaf_commit(const uint8_t salt[AUDIT_SALT], const char *name, const char *value,
		       size_t len, char ret[65]);

/* Add a policy to a digest, without the password of its member `proxy`: a reader of the rest could
 * guess it from the digest. */
void audit_leaf_hash_policy(struct sha256 *sum, const char *document, const char *proxy);

/* A text member of the leaf's front: "type", "time". Both are in front of all that others can name.
 * False: the leaf is none of ours. */
bool audit_leaf_is_type(const void *leaf, size_t len, const char *type, size_t type_len);
