/* file_msg.h - the records that built-ins of cordon-init write (cell/init/files/builtin.h) and
 * cordond reads (front/web/file_call.c). doc/file-protocol.md describes them.
 *
 * A stream of records: u32 length of the body, u8 kind, body. Little-endian, no padding. Records
 * are untrusted: the cell may have taken over the writer. So each kind has one exact layout, each
 * string a bound and a NUL, and the decoder returns the whole record or an error. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/file_meta.h"

#define FILE_MSG_HEAD 5U
#define FILE_MSG_BODY_MAX 21504U
#define FILE_MSG_MAX (FILE_MSG_HEAD + FILE_MSG_BODY_MAX)
#define FILE_MSG_PATH_MAX 4096U /* with NUL, as all bounds of strings here */
#define FILE_MSG_NAME_MAX 64U
#define FILE_MSG_ENTRY_VERSION 2 /* written. Those before it are read, too */

/* `sys` of an ERROR whose cause is an unknown user of --for. No errno of the kernel. */
#define FILE_MSG_NO_USER 4095

/* The input of `write` and `tar-in` is chunks of u32 length and bytes. A chunk of length 0 marks
 * the end. Input that ends without it is discarded. */
#define FILE_MSG_CHUNK_HEAD 4U
#define FILE_MSG_CHUNK_MAX (1U << 20)

enum file_msg_kind {
	FILE_MSG_ERROR = 1, /* the last record. Exit status 1 */
	FILE_MSG_ENTRY,	    /* one file */
	FILE_MSG_DATA,	    /* so many bytes of content follow this record */
	FILE_MSG_END,	  /* a summary. The last record of list, remove, tar-in, kill, processes */
	FILE_MSG_READY,	  /* watch: changes are reported from now on */
	FILE_MSG_EVENT,	  /* watch: something changed */
	FILE_MSG_PROCESS, /* one process */
	FILE_MSG_KINDS
};

enum file_msg_type {
	FILE_MSG_FILE,
	FILE_MSG_DIR,
	FILE_MSG_SYMLINK,
	FILE_MSG_FIFO,
	FILE_MSG_SOCKET,
	FILE_MSG_CHAR,
	FILE_MSG_BLOCK,
	FILE_MSG_TYPES
};

enum file_msg_what {
	FILE_MSG_CREATE,
	FILE_MSG_WRITE,
	FILE_MSG_REMOVE,
	FILE_MSG_RENAME, /* path is now `to`. "": it left the tree */
	FILE_MSG_CHMOD,
	FILE_MSG_OVERFLOW, /* events were lost */
	FILE_MSG_LIMITED,  /* too many directories: changes below path are not reported */
	FILE_MSG_GONE,	   /* the watched directory was removed. The last event */
	FILE_MSG_WHATS
};

/* Flags of ENTRY. */
enum {
	FILE_MSG_EXISTED = 1 << 0, /* mkdir: it was there before. write: replaced or appended to */
	FILE_MSG_ENTRY_FLAGS = (1 << 1) - 1,
};

/* Flags of END. */
enum {
	FILE_MSG_TRUNCATED = 1 << 0, /* there is more than was listed */
	FILE_MSG_END_FLAGS = (1 << 1) - 1,
};

struct file_msg_entry {
	uint8_t type; /* enum file_msg_type */
	uint16_t flags;
	uint32_t mode; /* permissions, at most 07777 */
	uint32_t uid, gid;
	uint64_t size;
	int64_t mtime_ns;
	const char *owner, *group; /* names the cell has for them, "" if none */
	const char *path;	   /* absolute. In a list, relative to the first entry's */
	const char *target;	   /* of a symlink, else "" */
	/* For a symlink whose target exists and is allowed: the target's path without links, type
	 * and mode. Else "", 0, 0. */
	const char *resolved;
	uint8_t target_type;
	uint32_t target_mode;
	const char *abs;       /* absolute, as requested: no link resolved. "": too long */
	struct file_meta meta; /* of the file, of a symlink's target */
};

struct file_msg_data {
	uint64_t len;
};

struct file_msg_end {
	uint32_t flags;
	uint64_t count;	  /* entries listed, removed or made. Processes */
	uint64_t bytes;	  /* tar-in: content of files */
	uint64_t skipped; /* entries that could not be listed, or are not made (devices) */
};

struct file_msg_event {
	uint8_t what;	       /* enum file_msg_what */
	uint8_t is_dir;	       /* 0 or 1 */
	uint8_t has_entry;     /* 0 or 1: the next record is its ENTRY */
	const char *path, *to; /* relative to the watched directory, which itself is "" */
};

struct file_msg_process {
	uint32_t pid, ppid, uid;
	uint8_t state;	  /* the letter of proc(5) */
	int64_t start_ms; /* since 1970 */
	uint64_t rss_bytes, cpu_us;
	uint64_t mark;	  /* its mark (cell/init/base/tree_mark.h): which execution it belongs to.
			     UINT64_MAX    none */
	const char *name; /* comm */
	const char *command; /* arguments, joined by spaces, cut off at FILE_MSG_PATH_MAX - 1 */
};

struct file_msg {
	enum file_msg_kind kind;
	union {
		struct err error; /* sys is 0 if no call failed: policy, limits, bad arguments */
		struct file_msg_entry entry;
		struct file_msg_data data;
		struct file_msg_end end;
		struct file_msg_event event;
		struct file_msg_process process;
	};
};

/* Read the record at the start of the bytes. Return how many bytes it takes, 0 if it is not all
 * there yet (never with FILE_MSG_MAX bytes), -1 (ERR_INVALID, *ret untouched) if it is malformed.
 * Strings point into the bytes. They may hold anything but NUL. The message of an ERROR is made
 * safe to print. */
int file_msg_next(const uint8_t *bytes, size_t len, struct file_msg *ret, struct err *e) MUST_USE;

/* Write one record into FILE_MSG_MAX bytes. Return its size, or 0 if a string is too long. Other
 * values out of range are the caller's bug. */
size_t file_msg_write(const struct file_msg *m, uint8_t *ret) MUST_USE;

/* "file", "directory", "symlink", ... and "create", "write", ...: the words of the API. */
const char *file_msg_type_name(enum file_msg_type type);
const char *file_msg_what_name(enum file_msg_what what);

void file_msg_chunk_write(uint8_t head[FILE_MSG_CHUNK_HEAD], uint32_t len);

/* The length of the chunk that begins with this head. -1 if it exceeds FILE_MSG_CHUNK_MAX. */
int64_t file_msg_chunk_read(const uint8_t head[FILE_MSG_CHUNK_HEAD]);
