/* audit_private.h - the structures of the audit log. Only the files of this folder include it. */
#pragma once

#include "daemon/audit/audit.h"
#include "daemon/audit/audit_flood.h"
#include "daemon/audit/notary_link.h"
#include "lib/config/config.h"
#include "lib/loop/completion.h"
#include "lib/loop/jobs.h"
#include "lib/tlog/tlog_note.h"

#define AUDIT_BUCKETS 256
#define AUDIT_SOON_MS 1000 /* a checkpoint after the end of a session */
#define AUDIT_READERS 64
#define AUDIT_LOAD 64 /* logs read in one piece, at the start */

/* Of the records that audit_flood.c bounds. */
struct audit_flood {
	uint64_t at_ns, room;	      /* bytes, at that time. at_ns 0: all of it */
	uint64_t held, failed, moved; /* counted, and not in the log yet */
	char keys[AUDIT_FLOOD_KEYS][STORE_ID_MAX];
	unsigned nkeys;
};

/* The current log of a tenant. */
struct audit_log {
	struct audit_log *next_log; /* in its bucket */
	char tenant[STORE_ID_MAX];
	bool known;	    /* else the four that follow are of no meaning */
	uint64_t rollbacks; /* of the store, when it was read */
	uint64_t id, epoch;
	uint64_t next; /* the number of the next record */
	struct audit_flood flood;
	/* audit_checkpoint.c */
	enum { LOG_IDLE, LOG_DUE, LOG_IN_ROUND } where;
	struct audit_log *next_due; /* in the list of due logs, or of those in the round */
	bool more;		    /* it got records since the round began */
	bool again;		    /* a checkpoint also if nothing is new: at the start */
	bool broken;		    /* records or tiles are missing */
	uint64_t missing;	    /* a reader missed a record of this epoch. 0: none did */
	uint64_t size;		    /* in a round: the signed size */
	unsigned tries;
	struct completions fresh, in_round; /* who wait for a checkpoint */
};

/* A reader of a log: audit_read.c. */
struct audit_reader {
	char key[STORE_ID_MAX], tenant[STORE_ID_MAX], how[8];
	char session[STORE_ID_MAX], type[64];
	uint64_t epoch, next; /* next: where the next page begins, at least */
	uint64_t at_ns;
};

enum audit_round { ROUND_NONE, ROUND_HASHES, ROUND_SYNCS, ROUND_SIGNS };
enum { ALARM_ROLLBACK, ALARM_FORK, ALARM_GAP, ALARM_KEY, ALARMS };

struct audit {
	struct audit_options o;
	struct loop *loop;		       /* of o */
	struct store *store;		       /* of o */
	struct audit_log *logs[AUDIT_BUCKETS]; /* owned */
	struct audit_listener *listeners;
	struct loop_task notify;
	struct audit_reader readers[AUDIT_READERS];
	struct loop_timer flood_timer;
	bool flooded;		   /* some log has counts */
	uint64_t appended, pruned; /* since the start */
	uint64_t alarms[ALARMS];

	/* audit_checkpoint.c */
	char name[NOTARY_NAME_MAX];	  /* of the key. "": not known yet */
	char vkey[NOTARY_VKEY_MAX];	  /* "": not known yet */
	struct audit_log *due, *in_round; /* the next one first */
	struct audit_log *cursor;	  /* the hashed log of the round. NULL: none */
	struct loop_timer timer; /* begins a round, or looks whether the journal is durable */
	uint64_t timer_ns;	 /* when a round is to begin. 0: not planned */
	enum audit_round round;
	struct store_audit_log row; /* of the hashed log, without its texts */
	bool has_row;
	struct loop_task unchanged;
	struct job hashing, loading;
	uint64_t loaded; /* the last loaded log */
	char load[AUDIT_LOAD][STORE_ID_MAX];
	unsigned nload;
	uint64_t sync;
	struct notary_call call, key_call;

	/* audit_rotate.c */
	char former[NOTARY_VKEY_MAX];	/* the key that still signs, too. "": no rotation */
	uint8_t next_proof[NOTARY_SIG]; /* by it, that vkey is the next one */
	struct job naming;
	uint64_t named_log; /* the last visited log */
	bool all_named;	    /* every log has its record: now their checkpoints are waited for */
	struct loop_timer again;
	struct notary_call rotate_call, retire_call;
	struct completions rotators; /* who asked for the new key */

	uint64_t begun_wall_ms, begun_ns; /* the start, by both clocks */
	uint64_t looked_ns;		  /* when retention began last */
	uint64_t beat_ns;		  /* the last node.heartbeat */

	/* audit_prune.c */
	struct job pruning;
	uint64_t prune_after; /* the last visited log */
	uint64_t checkpoints; /* signed since the start */
	uint64_t late_ns;     /* since when signatures fail. 0: they do not */
	bool late_told;
	bool hurries; /* audit_hurry() */
};

/* audit.c: the log of a tenant, known as the store has it. Inside a transaction. */
void audit_notify(struct audit *a, const char *tenant);
struct audit_log *audit_find(struct audit *a, const char *tenant, struct err *e);
/* End the log, whose size is not the known one, and begin another one with a record of the alarm.
 * Inside a transaction. */
int audit_alarm(struct audit *a, struct audit_log *l, const char *type, uint64_t size,
		uint64_t known, struct err *e) MUST_USE;
unsigned audit_alarm_place(const char *why);
/* Whether the log's checkpoints are by the name that cordon-notary has now, or it has none. */
bool audit_is_named(const struct audit *a, const struct store_audit_log *log);

void audit_flood_on_timer(struct loop_timer *t);
bool audit_prune_on_piece(struct job *job);

/* audit_rotate.c: cordon-notary has told its keys. */
void audit_rotate_setup(struct audit *a);
void audit_rotate_release(struct audit *a);
void audit_rotate_on_keys(struct audit *a, const struct notary_msg *m);
/* Which key verifies the new checkpoint: row->vkey, from what it was for the one before. true: it
 * is another one, and the checkpoint must be kept with *ret_former. */
bool audit_rotate_anchor(const struct audit *a, struct store_audit_log *row, const char *note,
			 char ret_former[STORE_AUDIT_VKEY_MAX]);

/* audit_checkpoint.c */
void audit_take_keys(struct audit *a, const struct notary_msg *m);

/* audit_checkpoint.c: a log has new records. */
void audit_due(struct audit *a, struct audit_log *l, uint64_t within_ms);
/* How soon new records get their checkpoint. */
uint64_t audit_interval(const struct audit *a, bool soon);
int audit_checkpoint_setup(struct audit *a, struct err *e) MUST_USE;
void audit_checkpoint_release(struct audit *a);
