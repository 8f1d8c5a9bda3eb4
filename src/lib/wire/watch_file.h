/* watch_file.h - RUN/cells/<id>.calls: how often programs of a cell made refused system calls and,
 * of a traced cell, which programs started and ended. cordond makes the file, the
 * watcher of the cell (cell/init/watch/watch.c) writes it, and cordond reads it whenever it wants
 * to know, also a later cordond.
 *
 * The watcher is outside of the cell. Numbers are those of the kernel. Texts are of the cell: any
 * bytes. Native layout: both ends are on one machine. The file is sparse until something is
 * written. The watcher holds a lock on it as long as it lives (F_OFD_SETLK). */
#pragma once

#include <stdint.h>

#define WATCH_VERSION 1
#define WATCH_CALLS 512 /* numbers with own counts. The last one: all above, too */

struct watch_file {
	uint32_t version; /* 0: there is no watcher yet */
	uint32_t zero;
	uint64_t total; /* written last: the sum of the others */
	/* The ring: the first entry of this cell, and the next one. */
	uint64_t first, next;
	uint64_t refused[WATCH_CALLS]; /* by the number of the call */
	uint64_t cpu_us; /* processor time of the watcher, which is charged to the cell */
};

#define WATCH_RING 1024					   /* entries: the oldest is overwritten */
#define WATCH_RING_AT 8192				   /* the place of the first one */
#define WATCH_FILE_MAX (WATCH_RING_AT + WATCH_RING * 1024) /* bytes */
#define WATCH_PATH 216
#define WATCH_CWD 152
#define WATCH_ARGS 600
#define WATCH_HALF (WATCH_ARGS / 2 - 1) /* WATCH_FILE: bytes of each of two names */

/* WATCH_CALL: code is its number, args its six arguments and, of connect and bind, the address.
 * WATCH_FILE: code has WATCH_READ and the like, path the program, args the file and, of a rename or
 * link, its new name. */
enum watch_kind { WATCH_EXEC = 1, WATCH_EXIT, WATCH_CALL, WATCH_FILE };
enum {
	WATCH_READ = 1 << 0,
	WATCH_WRITE = 1 << 1,
	WATCH_REMOVE = 1 << 2,
	WATCH_RENAME = 1 << 3,
	WATCH_LINK = 1 << 4, /* another hard link */
};
#define WATCH_ADDRESS 128

enum {
	WATCH_EXACT = 1 << 0,	/* seen after the call, in the new program. Else: the request */
	WATCH_CUT = 1 << 1,	/* a text is cut */
	WATCH_UNKNOWN = 1 << 2, /* WATCH_EXIT: it was killed, by an unknown signal */
	WATCH_SIGNAL = 1 << 3,	/* WATCH_EXIT: code is the signal */
	WATCH_MATCHED = 1 << 4, /* WATCH_FILE: a watched path */
};

/* Written as a whole. A reader may see half of it: seq and seq_again differ then. */
struct watch_entry {
	uint64_t seq; /* grows, also over the cells of a session */
	uint64_t time_ms;
	uint32_t kind, flags;
	uint32_t pid, parent, uid; /* as the cell sees them */
	int32_t code;
	uint32_t args_len;
	char path[WATCH_PATH], cwd[WATCH_CWD];
	char args[WATCH_ARGS]; /* each with its NUL */
	uint32_t count;	       /* WATCH_FILE: so often in this second. It may still grow */
	uint64_t seq_again;
};
_Static_assert(sizeof(struct watch_entry) == 1024, "a whole number of words");

/* What the watcher of files is to record. cordond writes it when it makes the file, and the cursor
 * whenever it has read. */
#define WATCH_WISH_AT 4160
#define WATCH_PATTERNS 16 /* watched paths of a session */
#define WATCH_PATTERN 200 /* bytes of one, with its end */
#define WATCH_PATTERNS_TEXT (WATCH_PATTERNS * WATCH_PATTERN)
struct watch_wish {
	uint32_t version; /* WATCH_VERSION */
	uint32_t all;	  /* record every file, not only watched ones */
	uint64_t cursor;  /* cordond's: entries before this one are in the audit log */
	char patterns[WATCH_PATTERNS_TEXT]; /* lines */
};
_Static_assert(WATCH_WISH_AT >= sizeof(struct watch_file), "behind the counts");
_Static_assert(WATCH_WISH_AT + sizeof(struct watch_wish) <= WATCH_RING_AT, "in front of the ring");
