/* pull_msg.h - the channel between cordond and cordon-pull: images to be fetched from registries.
 *
 * Frames of frame.h over a Unix stream socket, fields by codec.h. Both sides check received frames:
 * cordon-pull reads bytes of registries, and may be taken over. A pull has a number that cordond
 * chooses. cordon-pull answers START with the documents of the image (each index on the way, the
 * manifest, the configuration, in that order). Then cordond asks for the blobs that it does not
 * have, each into a descriptor, and ends the pull with END. FAILED with blob 0 ends a pull at once.
 * With the number of a blob it concerns that blob only. Pulls end with the channel. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/frame.h"

#define PULL_DOCUMENT_MAX (1U << 20) /* OCI_JSON_MAX */
#define PULL_BODY_MAX (PULL_DOCUMENT_MAX + 64)
#define PULL_HOST_MAX 300 /* all with NUL */
#define PULL_PATH_MAX 300
#define PULL_REFERENCE_MAX 160 /* a tag, or "sha256:..." */
#define PULL_USER_MAX 1024
#define PULL_PASSWORD_MAX 16384
#define PULL_URL_MAX 512
#define PULL_HOSTS_MAX 8192
#define PULL_WORD_MAX 64
#define PULL_TEXT_MAX 256
#define PULL_REQUEST_MAX (32U << 10) /* of a body to cordon-pull */
#define PULL_PULLS_MAX 64	     /* at a time */
#define PULL_BLOBS_MAX 4	     /* at a time, of one pull */

enum pull_type {
	/* to cordon-pull */
	PULL_START = 1,
	PULL_BLOB, /* one descriptor, writable: the blob goes there */
	PULL_END,
	PULL_PING,
	PULL_REQUESTS_END,
	/* from cordon-pull */
	PULL_DOCUMENT = 64,
	PULL_PROGRESS,
	PULL_BLOB_DONE, /* whole, with the requested digest and size */
	PULL_FAILED,
	PULL_PONG,
	PULL_EVENTS_END
};

enum pull_document { PULL_INDEX, PULL_MANIFEST, PULL_CONFIG, PULL_DOCUMENTS };

struct pull_start {
	const char *host;	     /* of the registry: "name", "name:port" */
	const char *path;	     /* of the repository: "library/python" */
	const char *reference;	     /* tag or digest */
	const char *user, *password; /* "": none */
	bool aws;		     /* they are an access key of AWS and its secret */
	const char *mirror;	     /* URL to be asked first, without credentials. "": none */
	const char *open_hosts;	     /* hosts whose addresses may be private: "a, b:5000" */
	uint64_t deadline_ms;	     /* of the whole pull */
	uint64_t patience_ms;	     /* for a silent or too slow server */
};

struct pull_msg {
	enum pull_type type;
	uint32_t pull, blob; /* 0: not about a pull, not about a blob */
	struct pull_start start;
	uint8_t sha256[32];	     /* BLOB */
	uint64_t bytes;		     /* BLOB: size. PROGRESS: so far */
	enum pull_document document; /* DOCUMENT */
	const uint8_t *data;
	size_t len;
	enum err_code code; /* FAILED */
	const char *word;   /* FAILED: the registry's word, "MANIFEST_UNKNOWN", or "" */
	const char *text;   /* FAILED: for people */
};

/* Strings and data point into the frame. -1: not a message of this channel. */
int pull_msg_read(const struct frame *f, struct pull_msg *ret, struct err *e) MUST_USE;
/* The whole frame. Return its length. -1 if a field does not fit, or there is no room. */
int pull_msg_write(const struct pull_msg *m, uint8_t *ret, size_t cap) MUST_USE;
