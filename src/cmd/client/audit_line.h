/* audit_line.h - the lines of an exported audit log, and the parts of a record that a verifier
 * reads. Pure.
 *
 * A line has one form: its members in one order, without spaces. examples/verify.py has the same
 * forms as regular expressions, and tests compare the two. A string is any JSON string. It is
 * decoded in its place, so the line is changed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUDIT_LINE_MAX (1U << 20) /* with its newline */
#define AUDIT_RECORD_MAX 8192	  /* bytes of a record */
#define AUDIT_VALUES_MAX 128	  /* beside a record */
#define AUDIT_FIELD_MAX 32	  /* of the name of a sealed value */
#define AUDIT_TYPE_MAX 64

/* Bytes of a line, borrowed. They have no NUL at their end. */
struct audit_text {
	const char *p;
	size_t n;
};

enum audit_line_kind { AUDIT_LINE_HEAD, AUDIT_LINE_TILE, AUDIT_LINE_LEAF, AUDIT_LINE_CHECKPOINT };

struct audit_line {
	enum audit_line_kind kind;
	struct audit_text origin, vkey; /* HEAD */
	uint64_t first, size;		/* HEAD */
	uint64_t index;			/* TILE, LEAF */
	struct audit_text text;		/* TILE: base64. LEAF: the record. CHECKPOINT: the note */
	struct audit_text side;		/* LEAF: for audit_line_side(). n is 0: none */
};

/* A line without its newline. False: of no known form. */
bool audit_line_read(char *line, size_t len, struct audit_line *ret);

/* A value beside the record. Walks *at over the side of a line already read. False at its end. */
struct audit_value {
	struct audit_text name, value;
	uint8_t salt[16];
};
bool audit_line_side(struct audit_text *at, struct audit_value *ret);

/* ---- a record */

struct audit_record_head {
	uint64_t seq;
	int64_t time_ms; /* since 1970 */
	struct audit_text type;
};

/* False: it is not a record of version 1. */
bool audit_record_read(struct audit_text record, struct audit_record_head *ret);

/* Its sealed fields: a walk over their names and commitments, as audit_line_side(). */
struct audit_text audit_record_sealed(struct audit_text record);
bool audit_record_seal(struct audit_text *at, struct audit_text *ret_name, uint8_t ret[32]);

/* Of audit.key: the verifier key that signs from now on. Of audit.pruned: the records from `from`
 * to `to` - 1 are removed. False: it says nothing of the kind. */
struct audit_new_key {
	struct audit_text vkey, former, proof; /* the last two are empty if one is missing */
};
bool audit_record_new_key(struct audit_text record, struct audit_new_key *ret);
bool audit_record_pruned(struct audit_text record, uint64_t *ret_from, uint64_t *ret_to);
