/* store_audit.h - the audit logs: their records, the tiles of their trees, and the last checkpoint
 * of each. See store.h for what holds for all rows, and daemon/audit/audit.h for their meaning.
 *
 * A log is a row of its own, for a tenant and an epoch. Its records are numbered from 0 without
 * gaps: the number of a record is the index of its leaf in the tree. Old records are deleted from
 * the first on, so the kept ones are those from `first` on. */
#pragma once

#include "daemon/store/store.h"

#define STORE_AUDIT_SEQ_MAX (1ULL << 40)
#define STORE_AUDIT_LEAF_MAX 8192
#define STORE_AUDIT_TILE_MAX 8192 /* 256 hashes */
#define STORE_AUDIT_NOTE_MAX 16384
#define STORE_AUDIT_VKEY_MAX 160

struct store_audit_log {
	uint64_t id;		   /* given by the store */
	char tenant[STORE_ID_MAX]; /* "": the log of the node */
	uint64_t epoch;		   /* from 1 */
	uint64_t created_ms;
	uint64_t first;	    /* the first kept record */
	uint64_t hashed;    /* the tiles cover the records before this one */
	uint64_t bytes;	    /* of the kept, hashed records */
	uint64_t note_size; /* of the last checkpoint. 0: there is none */
	uint64_t note_ms;   /* when it was signed */
	uint8_t note_root[32];
	/* Verifies the last checkpoint and, by what is in the log, all that follow. "": not known
	 */
	char vkey[STORE_AUDIT_VKEY_MAX];
	/* The key that the log's last record of a key names, and the number of that record. "":
	 * none */
	char named[STORE_AUDIT_VKEY_MAX];
	uint64_t named_seq;
	char alarm[16]; /* why this epoch was begun: "rollback", "fork", "gap", "key". "": the first
			 */
	const char *note; /* the text of the checkpoint */
	char *owned;
};
void store_audit_log_release(struct store_audit_log *row);

struct store_audit {
	uint64_t id; /* of the row: the log and the number */
	uint64_t time_ms;
	char session[STORE_ID_MAX]; /* "": none */
	const void *leaf;
	size_t leaf_len;
	const char *side; /* salts and values of sealed members, as JSON. "": none, or erased */
};

/* The number of a record in its log. */
static inline uint64_t store_audit_seq(const struct store_audit *row)
{
	return row->id & (STORE_AUDIT_SEQ_MAX - 1);
}

/* A checkpoint that is kept besides the last one, until records that it covers are deleted. */
enum store_audit_kept {
	/* Signed by a key and by the one after it, which a record below it names: verifiers that
	 * know the former one go on from here. vkey is the former one. */
	STORE_AUDIT_KEPT_KEY = 1,
	STORE_AUDIT_KEPT_COSIGNED, /* by witnesses. A log has one at most */
};

struct store_audit_note {
	uint64_t log, size;
	uint32_t kind;
	char vkey[STORE_AUDIT_VKEY_MAX];
	const char *note; /* the text */
	char *owned;
};
void store_audit_note_release(struct store_audit_note *row);

typedef int store_audit_log_fn(const struct store_audit_log *row, void *cookie);
typedef int store_audit_fn(const struct store_audit *row, void *cookie);

/* id is ignored on the way in. ERR_CONFLICT: the tenant has this epoch. */
int store_audit_log_add(struct store *s, const struct store_audit_log *row, uint64_t *ret_id,
			struct err *e) MUST_USE;
/* epoch 0: the last one. ERR_NOT_FOUND: the tenant has none. */
int store_audit_log_get(struct store *s, const char *tenant, uint64_t epoch,
			struct store_audit_log *ret, struct err *e) MUST_USE;
/* All logs after an id, in order, at most limit. */
int store_audit_log_each(struct store *s, uint64_t after, unsigned limit, store_audit_log_fn *fn,
			 void *cookie, struct err *e) MUST_USE;
/* The tiles cover more records, of so many bytes. */
int store_audit_log_hashed(struct store *s, uint64_t log, uint64_t hashed, uint64_t bytes,
			   struct err *e) MUST_USE;
/* Note where the records from a number to before another one are by session. They are those that
 * the tiles are to cover next, at most 256, and the caller's transaction notes that they do. */
int store_audit_index(struct store *s, uint64_t log, uint64_t from, uint64_t to,
		      struct err *e) MUST_USE;
/* The members of the checkpoint. */
int store_audit_log_note(struct store *s, const struct store_audit_log *row,
			 struct err *e) MUST_USE;

/* A record of that number names a key. */
int store_audit_log_named(struct store *s, uint64_t log, const char *vkey, uint64_t seq,
			  struct err *e) MUST_USE;

/* Keep a checkpoint. A cosigned one replaces the one before. */
int store_audit_note_put(struct store *s, const struct store_audit_note *row,
			 struct err *e) MUST_USE;
/* The first kept checkpoint behind that size and kind. kind 0: of any kind from that size on.
 * ERR_NOT_FOUND: there is none. */
int store_audit_note_after(struct store *s, uint64_t log, uint64_t size, uint32_t kind,
			   struct store_audit_note *ret, struct err *e) MUST_USE;
/* The cosigned one. ERR_NOT_FOUND. */
int store_audit_note_cosigned(struct store *s, uint64_t log, struct store_audit_note *ret,
			      struct err *e) MUST_USE;
/* How many of a kind there are. */
int store_audit_note_count(struct store *s, uint64_t log, uint32_t kind, uint64_t *ret,
			   struct err *e) MUST_USE;

/* The number that the next record of a log gets. */
int store_audit_next(struct store *s, const struct store_audit_log *log, uint64_t *ret,
		     struct err *e) MUST_USE;
/* How often the store rolled back, or may have. After a change numbers from store_audit_next() are
 * of no use. */
uint64_t store_rollbacks(const struct store *s);

/* row->id is set from log and seq. ERR_CONFLICT: the log has that record. */
int store_audit_append(struct store *s, uint64_t log, uint64_t seq, struct store_audit *row,
		       struct err *e) MUST_USE;

struct store_audit_filter {
	uint64_t log;
	uint64_t from;	     /* the first number. Descending: the last */
	const char *session; /* NULL: all */
	bool descending;     /* of all sessions only */
	unsigned limit;	     /* rows at most */
};
/* ret->seq is the number of the last record looked at. ret may be NULL. */
int store_audit_list(struct store *s, const struct store_audit_filter *f, store_audit_fn *fn,
		     void *cookie, struct store_looked *ret, struct err *e) MUST_USE;

/* Replace the side of a record. ERR_NOT_FOUND: the log does not have it. */
int store_audit_set_side(struct store *s, uint64_t id, const char *side, struct err *e) MUST_USE;
/* While it is on, deleted and replaced values are overwritten in the database. */
void store_audit_overwrite(struct store *s, bool on);
/* Empty the journal, since it has overwritten values, too. */
int store_audit_forget(struct store *s, struct err *e) MUST_USE;

/* Delete the records before a number, at most limit beyond the first, and note the rest. The sum of
 * the bytes is corrected. */
int store_audit_prune(struct store *s, uint64_t log, uint64_t before, struct err *e) MUST_USE;
/* The time of a record. ERR_NOT_FOUND: it is not there. */
int store_audit_time(struct store *s, uint64_t log, uint64_t seq, uint64_t *ret_ms,
		     struct err *e) MUST_USE;
/* The logs of a tenant, the oldest first. */
int store_audit_log_each_of(struct store *s, const char *tenant, store_audit_log_fn *fn,
			    void *cookie, struct err *e) MUST_USE;
/* The tenant with most bytes. ERR_NOT_FOUND: there is no log. */
int store_audit_largest(struct store *s, char ret[STORE_ID_MAX], struct err *e) MUST_USE;
/* The bytes that all logs of a tenant have, or, with NULL, those of all tenants. */
int store_audit_bytes(struct store *s, const char *tenant, uint64_t *ret, struct err *e) MUST_USE;

/* Tiles: up to 256 hashes of 32 bytes. get returns how many bytes it has read, 0 if there is no
 * such tile. */
int store_audit_tile_put(struct store *s, uint64_t log, unsigned level, uint64_t index,
			 const void *hashes, size_t len, struct err *e) MUST_USE;
int store_audit_tile_get(struct store *s, uint64_t log, unsigned level, uint64_t index,
			 uint8_t ret[STORE_AUDIT_TILE_MAX], struct err *e) MUST_USE;
