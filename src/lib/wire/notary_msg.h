/* notary_msg.h - the channel between cordond and cordon-notary, the process that holds the keys of
 * the audit log and signs its checkpoints.
 *
 * Frames of frame.h over a Unix stream socket: the u32 id, then the fields of the type by codec.h.
 * No message has a descriptor. The id is cordond's and never 0. Every request is answered once,
 * with the same id, in the order in which the requests came. cordon-notary ends when the channel
 * closes, and when it reads anything but a request.
 *
 * cordond may be taken over: it can have any new record signed, but nothing that contradicts
 * earlier signatures. For each log (its origin) cordon-notary remembers the size and root that it
 * signed last. SIGN names a later size, its root and the consistency proof (RFC 6962) from the
 * remembered size. A log that it does not know begins at size 0, whose proof is empty. An unchanged
 * size and root may be signed again: the answer may have been lost. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/frame.h"

#define NOTARY_ORIGIN_MAX 128 /* all with NUL */
#define NOTARY_NAME_MAX 64    /* of a key: "cordon.NODEID" */
#define NOTARY_VKEY_MAX 160   /* "NAME+HEX8+BASE64" */
#define NOTARY_LINES_MAX 640  /* two lines of a signed note */
#define NOTARY_TEXT_MAX 256
#define NOTARY_HASH 32
#define NOTARY_SIG 64
#define NOTARY_PROOF_MAX 64	/* hashes of a proof */
#define NOTARY_BODY_MAX 196608	/* bytes of what ATTEST has signed */
#define NOTARY_FRAME_MAX 196864 /* body of any frame */
#define NOTARY_LOGS 65536	/* that cordon-notary remembers */

enum notary_type {
	/* to cordon-notary */
	NOTARY_SIGN = 1, /* origin, old_size, size, root, proof -> SIGNED or REFUSED */
	NOTARY_KEY,	 /* -> KEY_IS */
	NOTARY_ATTEST,	 /* payload, body -> ATTESTED */
	/* A new key for checkpoints. Until RETIRE both the former key and the new one sign, and
	 * another ROTATE is REFUSED -> KEY_IS */
	NOTARY_ROTATE,
	NOTARY_RETIRE, /* Destroys the former key, if there is one -> KEY_IS */
	NOTARY_REQUESTS_END,
	/* from cordon-notary */
	NOTARY_SIGNED = 32, /* lines */
	NOTARY_KEY_IS,	    /* name, vkey, former_vkey, attest_vkey, logs, sig */
	NOTARY_ATTESTED,    /* keyid, sig */
	NOTARY_REFUSED,	    /* reason, size, root: its memory. text */
	NOTARY_ANSWERS_END,
};

/* Why a request is refused. The numbers are stored nowhere. */
enum notary_reason {
	NOTARY_STALE = 1, /* old_size is not the remembered size: make the proof from `size` */
	NOTARY_ROLLBACK,  /* the new size is less than the remembered one */
	NOTARY_FORK,	  /* the remembered size with another root, or the proof does not verify */
	NOTARY_ORIGIN,	  /* not "NAME/..." by the name of the key, or malformed */
	NOTARY_FULL,	  /* NOTARY_LOGS logs are known. Of ROTATE: the former key is in use */
	NOTARY_DISK,	  /* what was to be signed could not be written. Ask again later */
	NOTARY_DAMAGED,	  /* a new log, while a record of another one cannot be read */
	NOTARY_REASONS
};

/* The documents that ATTEST may sign, as the type of a DSSE envelope. */
enum notary_payload {
	NOTARY_PAYLOAD_IN_TOTO = 1,
	NOTARY_PAYLOAD_REPORT,
	NOTARY_PAYLOAD_BUNDLE,
	NOTARY_PAYLOADS
};

struct notary_msg {
	enum notary_type type;
	uint32_t id;
	const char *origin;
	uint64_t old_size, size;
	uint8_t root[NOTARY_HASH];
	uint32_t nproof; /* hashes */
	const uint8_t *proof;
	enum notary_payload payload;
	const uint8_t *body;
	size_t body_len;
	/* Whole lines of a signed note, each with its newline: the present key's, then the former
	 * one's if there is one. */
	const char *lines;
	const char *name;	 /* of the key, and what every origin begins with, before "/" */
	const char *vkey;	 /* of checkpoints */
	const char *former_vkey; /* "": none */
	const char *attest_vkey; /* of ATTEST */
	uint32_t logs;		 /* remembered */
	const char *keyid;	 /* of ATTESTED: "NAME+HEX8" of attest_vkey */
	/* Of ATTESTED. Of KEY_IS: by the former key, of the text that names the present one
	 * (tlog_next_key_text()). Zeros without a former key. */
	uint8_t sig[NOTARY_SIG];
	enum notary_reason reason;
	const char *text;
};

/* Strings and bytes point into the frame. -1: not a message of this channel. */
int notary_msg_read(const struct frame *f, struct notary_msg *ret, struct err *e) MUST_USE;
/* The whole frame. Return its length. -1 if a field does not fit, or there is no room. */
int notary_msg_write(const struct notary_msg *m, uint8_t *ret, size_t cap) MUST_USE;

/* "stale", "rollback", ... */
const char *notary_reason_name(enum notary_reason reason);
/* The payloadType of a DSSE envelope: "application/vnd.in-toto+json", ... */
const char *notary_payload_name(enum notary_payload payload);
