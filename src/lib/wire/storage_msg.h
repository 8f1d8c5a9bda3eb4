/* storage_msg.h - channel D: the requests of cordond to cordon-storage, and its answers. Used by
 * storage/main.c and daemon/disk/storage_link.c. doc/archive-format.md describes the files on disk.
 *
 * One SOCK_SEQPACKET message for each request and answer. Requests of one kind have one exact size.
 * Both ends are built together and run on one machine, so layouts are native. Requests are worked
 * on side by side, so answers come in any order: each has the job number of its request. Invariant:
 * layers are named by ids, never by paths. An operation is a row of the table in storage_msg.c, a
 * row of storage/storage_ops.c and a file there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define STORAGE_VERSION 6
#define STORAGE_ID_MAX 72     /* of a layer, with its NUL */
#define STORAGE_STACK_MAX 128 /* layers in one request */
#define STORAGE_BASE_MAX 256  /* of a name in template_dir, with its NUL */
#define STORAGE_HOST_MAX 4    /* places of the host template */
#define STORAGE_PLACE_MAX 16
#define STORAGE_FDS_MAX 4   /* of one request */
#define STORAGE_JOBS_MAX 46 /* requests at a time. More are refused */
/* The bound for requests that wait for clients and registries (is_stream): content of volumes,
 * uploads and imports, pulls. */
#define STORAGE_STREAMS_MAX 128
#define STORAGE_CONTENT_MAX 64 /* of these: CONTENT. The rest is left for SPOOL */
#define STORAGE_SHA256 32

/* Descriptors that cordon-storage is started with. */
enum {
	STORAGE_FD_CHANNEL = 3,
	STORAGE_FD_DIR = 4,	  /* the storage folder */
	STORAGE_FD_AUTHORITY = 5, /* the certificate that images shall trust: op_arrange.c */
	/* Read-only, for FOLD, ROOT_MAKE, ARRANGE. Each may be missing: template_dir, then the
	 * folder with the root directories of the host template, then its other places. */
	STORAGE_FD_TEMPLATES,
	STORAGE_FD_HOST,
	STORAGE_FDS_END = STORAGE_FD_HOST + STORAGE_HOST_MAX,
};

enum storage_op {
	STORAGE_HELLO, /* sent by cordon-storage when it is ready, or has failed to start */
	STORAGE_UNPACK,
	STORAGE_REMOVE,
	STORAGE_LIST,
	STORAGE_FOLD,
	STORAGE_DISK_MAKE,
	STORAGE_DISK_CHECK,
	STORAGE_DISK_REMOVE,
	STORAGE_DISK_LIST,
	STORAGE_ARRANGE,
	STORAGE_SURVEY,
	STORAGE_FILES,
	STORAGE_VOLUME_MAKE,
	STORAGE_VOLUME_REMOVE,
	STORAGE_VOLUME_USAGE,
	STORAGE_CONTENT,
	STORAGE_SPOOL,
	STORAGE_LOOK,
	STORAGE_ROOT_MAKE,
	STORAGE_ROOT_OPEN,
	STORAGE_MEMORY_SAVE,
	STORAGE_MEMORY_LOAD,
	STORAGE_MEMORY_COPY,
	STORAGE_SIZES,
	STORAGE_OPS
};

/* The beginning of every request. */
struct storage_head {
	uint32_t op;
	uint32_t deadline_ms; /* the job is ended after this. Not 0 */
	uint64_t job;	      /* of the sender's choice, unique while it has no answer. Not 0 */
};

/* UNPACK's input. */
enum storage_format {
	STORAGE_CAPTURE,   /* cell/init/changes/capture.c: a cell's changes */
	STORAGE_OCI_LAYER, /* a layer of an image, by the rules of OCI */
	STORAGE_ROOTFS,	   /* a whole root file system */
	STORAGE_FORMATS
};

enum {
	STORAGE_WANT_SHA256 = 1 << 0, /* the answer has the hash of the uncompressed stream */
	/* The stream must have the given hash. */
	STORAGE_CHECK_SHA256 = 1 << 1,
	/* It comes as slowly as a registry sends it. */
	STORAGE_FROM_REGISTRY = 1 << 2,
	/* A second descriptor comes along, of a file with texts: each has its length before it, in
	 * four bytes. The first STORAGE_HOST_MAX are where places are, the others values of
	 * secrets. REASON_SECRETS_IN_FILES: one of these is in a name or in the content. */
	STORAGE_SEARCH = 1 << 3,
	/* With SEARCH: a value is no error. A third descriptor comes along, of an empty file, in
	 * which a struct storage_found is written. */
	STORAGE_NAME = 1 << 4,
	STORAGE_UNPACK_FLAGS = (1 << 5) - 1,
};

#define STORAGE_FOUND_MAX 16
#define STORAGE_FOUND_PATH_MAX 112

/* Files with values: how many there are, and the paths of the first, as a cell sees them, with '*'
 * for values in them. A longer path is cut off. */
struct storage_found {
	uint64_t count;
	char paths[STORAGE_FOUND_MAX][STORAGE_FOUND_PATH_MAX];
};

/* Make a layer from the archive read from the one descriptor, until its end. The layer is on disk,
 * whole, when the answer comes. An error leaves nothing of it. ERR_CONFLICT: there is a layer with
 * that id. REASON_STORAGE_FULL: no room. */
struct storage_unpack {
	struct storage_head head;
	uint32_t format;
	uint32_t flags;
	uint64_t bytes_max;   /* of the layer, as the answer counts them */
	uint64_t entries_max; /* files, directories and so on */
	/* The archive's part of the descriptor's file. Length 0: all that comes from it. */
	uint64_t from, length;
	uint8_t sha256[STORAGE_SHA256];
	char layer[STORAGE_ID_MAX];
	/* OCI layers: the layers below, the lowest first, for the entries of theirs that the layer
	 * hides. */
	uint32_t nlower;
	/* How long the descriptor may have nothing to read, for a guest's descriptor. 0: as long as
	 * the job may take. */
	uint32_t silence_ms;
	char lower[STORAGE_STACK_MAX][STORAGE_ID_MAX];
	/* CAPTURE, of a guest: all of its changes are in place 0. Those below these directories
	 * belong to the other places of the base ("" for each that it does not have). */
	char at[STORAGE_HOST_MAX][STORAGE_PLACE_MAX];
	uint32_t reserve_percent, zero; /* of the file system that stay free */
};

/* Removes a layer. One that does not exist is no error. */
struct storage_remove {
	struct storage_head head;
	char layer[STORAGE_ID_MAX];
};

/* LIST, DISK_LIST: writes the ids of all layers, or of all sessions with a disk, to the one
 * descriptor, each ended by NUL. */
struct storage_list {
	struct storage_head head;
};

/* LOOK does nothing: its answer has, as every answer, the room that the disk has. It is a struct
 * storage_list without a descriptor. */

/* SIZES, a struct storage_list: writes a struct storage_size for each image of a session's disk and
 * of a volume to the one descriptor. A volume without an image has none. */
struct storage_size {
	uint64_t bytes;		 /* of the blocks that the sparse file has */
	char id[STORAGE_ID_MAX]; /* of the session, or of the volume */
};

/* The base below FOLD's layers: exactly one of these. */
enum {
	STORAGE_FOLD_BOTTOM = 1 << 0, /* nothing: they are a whole file system */
	STORAGE_FOLD_HOST = 1 << 1,   /* the host template */
	STORAGE_FOLD_DIR = 1 << 2,    /* the directory `base` of template_dir */
};

/* Makes one layer from several, the lowest first: all layers of a stack, its lowest ones or, with
 * nbelow, those above some that stay. Their files are linked, not copied. */
struct storage_fold {
	struct storage_head head;
	uint32_t flags;
	uint32_t nfrom;		  /* 1 and up */
	uint32_t nbelow;	  /* the lowest of them, fewer than all: only looked at */
	uint32_t reserve_percent; /* of the file system that stay free */
	char layer[STORAGE_ID_MAX];
	/* One component of a path, no leading dot. FOLD_DIR: in template_dir. FOLD_HOST: the root
	 * directory among those of the host template, which changes with the machine's packages. */
	char base[STORAGE_BASE_MAX];
	char from[STORAGE_STACK_MAX][STORAGE_ID_MAX];
};

/* Makes the root image of a stack, the lowest first: an erofs file with all that a cell of it would
 * see. It is a layer of its own. The answer has its size, and a descriptor for reading it. flags
 * and base: the files below the layers, as for FOLD. ROOT_OPEN, a struct storage_remove, gives the
 * descriptor again. REASON_TOO_LARGE: the image would have more than bytes_max. */
struct storage_root {
	struct storage_head head;
	uint32_t flags;
	uint32_t nfrom;		  /* 0 and up. Without a base 1 */
	uint32_t reserve_percent; /* of the file system that stay free */
	uint32_t zero;
	uint64_t bytes_max;
	char layer[STORAGE_ID_MAX];
	char base[STORAGE_BASE_MAX];
	/* Where the places of the host template are: "" for the first, then names in "/". "": there
	 * are no more. */
	char at[STORAGE_HOST_MAX][STORAGE_PLACE_MAX];
	char from[STORAGE_STACK_MAX][STORAGE_ID_MAX];
};

/* A memory image, a layer of its own: the memory and device state of a stopped virtual machine.
 * MEMORY_SAVE: two descriptors of sealed memfds, memory and devices. The answer has the number of
 * nonzero bytes. MEMORY_LOAD: two of empty memfds, to be filled and sealed. ERR_NOT_FOUND: there is
 * none. MEMORY_COPY: two sealed ones, then two empty ones, which become their copies and are
 * sealed. There is no layer. */
struct storage_memory {
	struct storage_head head;
	uint32_t reserve_percent, zero;
	uint64_t bytes_max;	    /* SAVE, COPY: bytes that the answer counts. LOAD: 0 */
	char layer[STORAGE_ID_MAX]; /* COPY: "" */
};

enum {
	STORAGE_DISK_SYNC = 1 << 0, /* MAKE: it is on the machine's disk when the answer comes */
	STORAGE_DISK_FLAGS = (1 << 1) - 1,
};

/* The disk of a session: an ext4 image, named by the session's id. MAKE formats a new one. An
 * existing one, left by a request without an answer, is replaced. CHECK repairs the remains of a
 * crash, and is called before an image is used again. ERR_CONFLICT: it is in use, ERR_NOT_FOUND:
 * there is none. REMOVE: one that does not exist is no error. */
struct storage_disk {
	struct storage_head head;
	uint32_t flags, zero;
	uint64_t bytes, inodes; /* MAKE. Else 0 */
	char id[STORAGE_ID_MAX];
};

/* Makes the layer that an image needs on top so that sessions can be made of it: users,
 * directories, names of hosts, certificates. */
struct storage_arrange {
	struct storage_head head;
	uint32_t nlower; /* 1 and up: layers of the image, the lowest first */
	uint32_t zero;
	char layer[STORAGE_ID_MAX];
	char host[STORAGE_ID_MAX]; /* the host template's root directory, for Cordon's programs */
	char lower[STORAGE_STACK_MAX][STORAGE_ID_MAX];
};

/* The kind of an archive for an import. */
enum storage_survey_kind { STORAGE_SURVEY_ROOTFS, STORAGE_SURVEY_OCI, STORAGE_SURVEY_DOCKER };

#define STORAGE_SURVEY_LAYERS_MAX 127
#define STORAGE_SURVEY_TAG_MAX 256

/* Three descriptors: the archive, an empty file for it without its compression, and a file for the
 * result: a struct storage_survey_result, then the bytes of the image's configuration. */
struct storage_survey {
	struct storage_head head;
	uint64_t bytes_max;		/* of the archive without compression */
	uint32_t reserve_percent, zero; /* of the file system that stay free */
};

struct storage_survey_layer {
	uint64_t offset, size;
};

struct storage_survey_result {
	uint32_t kind;
	uint32_t in_spare; /* layers are in the second file */
	uint32_t nlayers;
	uint32_t config_len;
	uint8_t digest[STORAGE_SHA256];	  /* of the manifest or, of a docker-archive, the config */
	char tag[STORAGE_SURVEY_TAG_MAX]; /* of a docker-archive */
	struct storage_survey_layer layers[STORAGE_SURVEY_LAYERS_MAX];
};

/* VOLUME_MAKE makes a volume, whole when the answer comes. An existing one is removed first.
 * VOLUME_REMOVE removes it. One that does not exist is no error. VOLUME_USAGE: the answer has its
 * bytes and entries. */
struct storage_volume {
	struct storage_head head;
	char volume[STORAGE_ID_MAX]; /* a UUID */
	uint32_t image;		     /* 1: a file system in a file. 0: a directory */
	uint32_t zero;
	uint64_t bytes; /* MAKE of an image: its size */
};

enum storage_content_what {
	STORAGE_CONTENT_LIST = 1,
	STORAGE_CONTENT_STAT,
	STORAGE_CONTENT_MAKE, /* a directory */
	STORAGE_CONTENT_CHANGE,
	STORAGE_CONTENT_REMOVE,
	STORAGE_CONTENT_READ,
	STORAGE_CONTENT_WRITE,
	STORAGE_CONTENT_WHATS
};

enum {
	STORAGE_CONTENT_FORCE = 1 << 0, /* make parents, and replace a file */
	STORAGE_CONTENT_ROOT = 1 << 1,	/* the volume is the mount of the last descriptor */
	STORAGE_CONTENT_FLAGS = (1 << 2) - 1,
};

#define STORAGE_CONTENT_UNSET UINT32_MAX /* of uid, gid, mode: the default, or as it is */
#define STORAGE_CONTENT_ID_MAX 65535
#define STORAGE_PATH_MAX 4096

/* An operation on the content of a volume. Descriptors: the end of a pipe that the answer is
 * written to (content_msg.h). WRITE: then the end of one that the content is read from. ROOT: then
 * the mount. The answer on the channel says only that it has ended. */
struct storage_content {
	struct storage_head head;
	char volume[STORAGE_ID_MAX];
	uint32_t what, flags;
	uint32_t uid, gid, mode;
	uint32_t depth;		  /* LIST: 1 and up */
	uint32_t reserve_percent; /* WRITE, MAKE: of the file system that stay free */
	uint32_t zero;
	uint64_t entries_max, bytes_max;
	char path[STORAGE_PATH_MAX]; /* clean: "/" or "/a/b" without empty, "." or ".." parts */
};

enum {
	STORAGE_SPOOL_FILE = 1 << 0,   /* the second descriptor is the file, still empty */
	STORAGE_SPOOL_SHA256 = 1 << 1, /* the answer has the hash of the content */
	STORAGE_SPOOL_FLAGS = (1 << 2) - 1,
};

/* Writes the content that comes from the first descriptor, in chunks as those of CONTENT's WRITE,
 * to a file. Without STORAGE_SPOOL_FILE this is one without a name: the answer has a descriptor of
 * it for reading and writing, and it is gone when no process has it open. A given file is on disk
 * when the answer comes. The answer has the bytes. ERR_CONFLICT: the content was cut off.
 * REASON_TOO_LARGE, REASON_STORAGE_FULL: as they say. */
struct storage_spool {
	struct storage_head head;
	uint64_t bytes_max;
	uint32_t reserve_percent; /* of the file system that stay free */
	uint32_t flags;
};

#define STORAGE_FILES_MAX 4096 /* names in one answer */
#define STORAGE_FILES_PATH 4096
#define STORAGE_FILES_NAME 256
#define STORAGE_FILES_LINK 512

/* Lists a directory of layers, the lowest first, as a cell sees them at "/". The names are written
 * to the one descriptor, sorted: a struct storage_file for each. */
struct storage_files {
	struct storage_head head;
	uint32_t nlower; /* 1 and up */
	uint32_t limit;	 /* 1 to STORAGE_FILES_MAX */
	char lower[STORAGE_STACK_MAX][STORAGE_ID_MAX];
	char path[STORAGE_FILES_PATH]; /* relative to the top, no ".." */
};

struct storage_file {
	uint32_t mode; /* with the type, as st_mode */
	uint32_t uid, gid;
	uint32_t zero;
	uint64_t size;
	int64_t mtime;
	char name[STORAGE_FILES_NAME];
	char link[STORAGE_FILES_LINK]; /* may be cut off */
};

union storage_request {
	struct storage_head head;
	struct storage_unpack unpack;
	struct storage_remove remove;
	struct storage_list list;
	struct storage_fold fold;
	struct storage_root root;
	struct storage_memory memory;
	struct storage_arrange arrange;
	struct storage_survey survey;
	struct storage_files files;
	struct storage_disk disk;
	struct storage_volume volume;
	struct storage_content content;
	struct storage_spool spool;
};

struct storage_reply {
	uint32_t op;
	uint32_t version;
	uint64_t job;
	struct err err; /* code ERR_NONE: it worked */
	/* UNPACK, FOLD: the layer's size: content of files in blocks of 4 KiB, and 4 KiB for each
	 * directory. SPOOL: bytes of the content. REMOVE: 0. */
	uint64_t bytes, entries;
	uint8_t sha256[STORAGE_SHA256]; /* if it was wanted */
	/* The file system of the storage folder, in any answer. disk_device: st_dev. */
	uint64_t disk_bytes, disk_free, disk_files, disk_files_free, disk_device;
}; /* may come with one descriptor */

/* Can this be the id of a layer: a letter, then letters, digits, '_' and '-'? */
bool storage_msg_is_id(const char *s, size_t cap);

/* Does a request last as long as a client or a registry takes? These have a bound of their own, so
 * that slow clients do not hold up other requests. */
bool storage_msg_is_stream(const union storage_request *r);

/* Check a request: operation, size, every bound, every string, and the number of descriptors that
 * came with it. Pure. */
int storage_msg_check(const void *bytes, size_t len, size_t nfds, struct err *e) MUST_USE;

/* Check an answer, and make its error safe to print. */
int storage_msg_check_reply(struct storage_reply *r, size_t len, struct err *e) MUST_USE;
