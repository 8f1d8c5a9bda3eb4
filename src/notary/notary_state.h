/* notary_state.h - what cordon-notary remembers of each log: the size and root that it signed last.
 *
 * One file: a head, then one record for each log, in the order in which the logs came. Nothing is
 * ever removed. A record has two slots of 512 bytes with a checksum and a turn that counts up. A
 * change writes the slot with the lower turn, and counts when fdatasync() has returned. So a kill
 * or a power cut at any moment leaves the former values or the new ones. If the write fails the
 * former values stay in memory, and the next change writes the same slot.
 *
 * A record whose two slots are both wrong belonged to a log whose name is lost. Then no new log is
 * taken, because a new one may be that log (NOTARY_DAMAGED). The last record may be unfinished: it
 * was never signed. */
#pragma once

#include "lib/tlog/tlog.h"
#include "lib/wire/notary_msg.h"

#define NOTARY_SLOT 512
#define NOTARY_RECORD 1024 /* two slots */
#define NOTARY_TABLE ((size_t)4 * NOTARY_LOGS)

struct notary_log {
	uint64_t name; /* hash of the origin */
	uint64_t turn;
	uint64_t size;
	struct tlog_hash root;
	uint32_t record; /* its place in the file */
	uint8_t slot;	 /* that holds these values */
	char origin[NOTARY_ORIGIN_MAX];
};

struct notary_state {
	int fd; /* owned */
	uint32_t n, room;
	struct notary_log *logs; /* owned */
	uint32_t records;	 /* in the file, with damaged ones */
	uint32_t damaged;
	uint64_t seed;
	uint32_t table[NOTARY_TABLE]; /* index plus one into logs, by hash */
};

/* Open the file `name` in the folder, or make it if `create`. -1: it cannot be read, or is
 * missing. */
int notary_state_open(struct notary_state *s, int dir, const char *name, bool create,
		      struct err *e) MUST_USE;
void notary_state_close(struct notary_state *s);

/* NULL: the log is not known. */
struct notary_log *notary_state_find(struct notary_state *s, const char *origin);
/* Remembers. 0, or why it cannot: NOTARY_FULL, NOTARY_DAMAGED, NOTARY_DISK (e says more). */
int notary_state_put(struct notary_state *s, const char *origin, uint64_t size,
		     const struct tlog_hash *root, struct err *e) MUST_USE;
