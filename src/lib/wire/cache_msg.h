/* cache_msg.h - the two kinds of channels of cordon-cache, the process that keeps package files.
 *
 * Both are SOCK_SEQPACKET. A message is one packet: u16 type, u32 id, and the fields of its type by
 * codec.h. A descriptor comes with its packet. The id is the asker's and never 0. Every request is
 * answered once, with the same id, but ABORT, TOUCH and DROP, which get no answer.
 *
 * The link, between cordon-egress and cordon-cache: views and their objects. An object is bytes
 * under their own SHA-256. A view says which object a path of a registry had, for one scope. The
 * bytes of a STORE come over a stream socket of their own, whose reading end is sent with it. The
 * store is complete when COMMIT has come, that socket has ended, and as many bytes as COMMIT says
 * were read. There is no request by hash. cordon-egress may be taken over: it can store bytes under
 * their own hash only, but it can name any scope, registry and path.
 *
 * The control channel, between cordond and cordon-cache: LINK brings a new link. The rest is for
 * the operator. cordon-cache ends when this channel closes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/codec.h"

#define CACHE_SCOPE_MAX 64 /* all with NUL */
#define CACHE_REGISTRY_MAX 544
#define CACHE_PATH_MAX 2048
#define CACHE_ETAG_MAX 256
#define CACHE_DATE_MAX 64
#define CACHE_TYPE_MAX 128
#define CACHE_NAME_MAX 512 /* of SEEN: the gate's name for a version of a package */
#define CACHE_TEXT_MAX 256
#define CACHE_PACKET_MAX 16384 /* of any message */

#define CACHE_STORES_MAX 128	      /* of a link, at a time, those that wait for the disk too */
#define CACHE_REQUESTS_MAX 256	      /* of a link, at a time */
#define CACHE_OBJECT_MAX (8ULL << 30) /* bytes of one object */

enum cache_type {
	/* the link, to cordon-cache */
	CACHE_FIND = 1, /* key -> FOUND or NONE */
	CACHE_STORE,	/* key, meta, expected. One descriptor: the bytes */
	CACHE_COMMIT,	/* size -> STORED or FAILED. The id is that of the STORE */
	CACHE_ABORT,	/* the id is that of the STORE. No answer */
	CACHE_TOUCH,	/* key, meta: the view was fetched again and has not changed */
	CACHE_DROP,	/* key: forgets the view */
	CACHE_SEEN,	/* key (without a path), name -> SEEN_AT */
	CACHE_KNOWN,	/* the same, but it is not remembered -> SEEN_AT, 0: never seen */
	CACHE_REQUESTS_END,
	/* the link, from cordon-cache */
	CACHE_FOUND = 32, /* meta, time, size, sha256. One descriptor: the object, read-only */
	CACHE_NONE,
	CACHE_STORED,  /* size, sha256 */
	CACHE_FAILED,  /* code, text. It may also answer a STORE without a COMMIT, which ends
			* then */
	CACHE_SEEN_AT, /* time: of the first SEEN of that name, this one included */
	CACHE_ANSWERS_END,
	/* the control channel, to cordon-cache */
	CACHE_LINK = 64, /* slot. One descriptor: the new link. No answer */
	CACHE_LIST,	 /* place (0: from the start) -> LISTED */
	CACHE_STATS,	 /* -> STATED */
	CACHE_GC,	 /* size: removes the least used until that many bytes are left -> DONE */
	CACHE_VERIFY,	 /* hashes every object again, removes wrong ones -> DONE */
	CACHE_ORDERS_END,
	/* the control channel, from cordon-cache */
	CACHE_LISTED = 96, /* place of the next page (0: the end), entries */
	CACHE_STATED,	   /* stats */
	CACHE_DONE,	   /* count, size. VERIFY: bad */
	CACHE_REFUSED,	   /* code, text */
	CACHE_REPORTS_END,
};

/* The subject of a view. scope: "public", or a tenant's id for documents fetched with its
 * credentials or from its private registry. registry: ecosystem, host and prefix, as the gate names
 * it. path: with the query, and what else tells two answers of one path apart. */
struct cache_key {
	const char *scope, *registry, *path;
};

/* The server's description. "" where it gave none. */
struct cache_meta {
	const char *etag, *last_modified, *type;
};

struct cache_stats {
	uint64_t bytes, max_bytes, objects, views, seen;
	uint64_t hits, misses, stored, refused, evicted, bad; /* since it started */
	uint64_t max_files;
	bool loading; /* the folder is still being read */
};

struct cache_msg {
	enum cache_type type;
	uint32_t id;
	struct cache_key key;
	struct cache_meta meta;
	bool has_expected; /* STORE: sha256 is the digest that the bytes must have */
	uint8_t sha256[32];
	uint64_t size, time_ms;
	const char *name;     /* SEEN, KNOWN */
	uint32_t slot, place; /* LINK. LIST, LISTED */
	uint64_t count, bad;  /* DONE: views, or objects of VERIFY */
	struct cache_stats stats;
	const uint8_t *entries; /* LISTED: see cache_entry() */
	size_t entries_len;
	enum err_code code; /* FAILED, REFUSED */
	const char *text;
};

/* One view of LISTED. */
struct cache_entry {
	struct cache_key key;
	uint8_t sha256[32];
	uint64_t size, fetched_ms, used_ms; /* used: rounded to the hour */
};

/* Strings point into the packet. -1: not a message of these channels. */
int cache_msg_read(const uint8_t *packet, size_t len, struct cache_msg *ret,
		   struct err *e) MUST_USE;
/* Return its length. -1 if a field does not fit, or there is no room. */
int cache_msg_write(const struct cache_msg *m, uint8_t *ret, size_t cap) MUST_USE;
/* Whether a descriptor must come with it. */
bool cache_msg_has_fd(enum cache_type type);

/* Read or write the next of the entries. False: c is bad. */
bool cache_entry(struct codec *c, struct cache_entry *entry);
