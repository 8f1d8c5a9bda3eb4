/* tlog_note.h - checkpoints and their signatures as text: C2SP's signed-note, tlog-checkpoint and
 * tlog-cosignature. Pure. The signature algorithm is the caller's (tlog_verify_fn).
 *
 * A checkpoint is a signed note whose text is three lines:
 *
 *	cordon.NODE/TENANT/EPOCH	origin
 *	1234				size
 *	BASE64				root
 *
 *	-- KEYNAME BASE64(key id, signature)	(an em dash, one line for each signature)
 *
 * Readers are strict: each value has one spelling, a checkpoint has no other lines, and names and
 * texts are printable ASCII. */
#pragma once

#include "lib/base/buf.h"
#include "lib/tlog/tlog.h"

#define TLOG_NAME_MAX 128	/* of a key or origin, with NUL */
#define TLOG_NOTE_MAX 16384	/* bytes of a note */
#define TLOG_SIGS_MAX 32	/* of a note */
#define TLOG_VKEY_MAX 192	/* text of a verifier key, with NUL */
#define TLOG_SIG_LINE_MAX 288	/* with NUL */
#define TLOG_CHECKPOINT_MAX 256 /* text without signatures, with NUL */
#define TLOG_KEY 32
#define TLOG_ROOT_TEXT 44 /* characters of a root */
#define TLOG_SIG 64
#define TLOG_COSIG (8 + TLOG_SIG) /* with its time */

/* ---- keys */

enum tlog_key_type {
	TLOG_KEY_ED25519 = 1,	  /* of logs */
	TLOG_KEY_COSIGNATURE = 4, /* of witnesses: cosignature/v1 */
};

struct tlog_vkey {
	char name[TLOG_NAME_MAX];
	enum tlog_key_type type;
	uint8_t id[4];
	uint8_t key[TLOG_KEY];
};

/* A name of a key or an origin: neither empty nor with spaces or "+". */
bool tlog_name_is_valid(const char *name, size_t len);
/* Compute the id. False: the name is not valid. */
bool tlog_vkey_make(const char *name, enum tlog_key_type type, const uint8_t key[TLOG_KEY],
		    struct tlog_vkey *ret) MUST_USE;
/* "NAME+HEX8+BASE64". */
void tlog_vkey_format(const struct tlog_vkey *k, char ret[TLOG_VKEY_MAX]);
/* -1: malformed, of an unknown type, or its id is not its own. */
int tlog_vkey_parse(const char *text, size_t len, struct tlog_vkey *ret, struct err *e) MUST_USE;

/* ---- notes */

struct tlog_sig {
	const char *name; /* name_len bytes in the note */
	size_t name_len;
	const char *line; /* the whole line with its newline */
	size_t line_len;
	uint8_t id[4];
	size_t len; /* of the signature. More than TLOG_COSIG: of an unknown algorithm, cut */
	uint8_t bytes[TLOG_COSIG];
};

struct tlog_note {
	const char *text; /* what is signed: with the newline of its last line */
	size_t text_len;
	unsigned nsigs;
	struct tlog_sig sigs[TLOG_SIGS_MAX];
};

/* Borrows the bytes. -1: not a signed note. */
int tlog_note_split(const char *bytes, size_t len, struct tlog_note *ret, struct err *e) MUST_USE;

/* Verify an Ed25519 signature. */
typedef bool tlog_verify_fn(void *arg, const uint8_t key[TLOG_KEY], const void *message, size_t len,
			    const uint8_t sig[TLOG_SIG]);

enum tlog_verdict {
	TLOG_UNSIGNED, /* no line of that key */
	TLOG_GOOD,
	TLOG_BAD, /* a line of that key whose signature is wrong */
};

/* Whether that key has signed the note. ret_time, if it is not NULL: of a cosignature, seconds
 * since 1970. Of another key: 0. */
enum tlog_verdict tlog_note_verify(const struct tlog_note *n, const struct tlog_vkey *k,
				   tlog_verify_fn *verify, void *arg, uint64_t *ret_time);

/* The message by which a log's key names the one after it. No checkpoint has this text, since no
 * origin has a space. Return the length. */
size_t tlog_next_key_text(const char *vkey, char ret[TLOG_CHECKPOINT_MAX]);

/* A line for a signature of n bytes, with its newline. Return its length. */
size_t tlog_sig_line(const struct tlog_vkey *k, const uint8_t *sig, size_t n,
		     char ret[TLOG_SIG_LINE_MAX]);
/* The message that a witness signs: a head with the time, then the note's text. */
void tlog_cosignature_text(uint64_t seconds, const char *text, size_t len, struct buf *ret);

/* ---- checkpoints */

struct tlog_checkpoint {
	char origin[TLOG_NAME_MAX];
	uint64_t size;
	struct tlog_hash root;
};

/* Return the length. 0: the origin is not valid. */
size_t tlog_checkpoint_format(const struct tlog_checkpoint *c, char ret[TLOG_CHECKPOINT_MAX]);
/* The text of a note. */
int tlog_checkpoint_parse(const char *text, size_t len, struct tlog_checkpoint *ret,
			  struct err *e) MUST_USE;
