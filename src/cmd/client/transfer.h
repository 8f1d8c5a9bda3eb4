/* transfer.h - files and trees between this machine and a session. */
#pragma once

#include "cmd/client/api_call.h"

/* One side of a copy in a session. A file or directory of a session. All texts are borrowed. */
struct transfer_place {
	const char *session; /* full id */
	const char *path;    /* as the server takes it: relative to the home of the user */
	const char *user;    /* NULL: the server's default */
	uint64_t max_bytes;  /* that may come from there. 0: any number */
};

enum transfer_kind { TRANSFER_MISSING, TRANSFER_FILE, TRANSFER_DIRECTORY, TRANSFER_OTHER };

/* The kind of the file, links followed. ret_mode: its mode. May be NULL. */
int transfer_stat(struct api_call *a, const struct transfer_place *p, enum transfer_kind *ret,
		  unsigned *ret_mode, struct err *e) MUST_USE;

/* fd: a file, whose size and mode are taken over, or anything that can be read. *ret describes the
 * written entry, owned by the caller. */
int transfer_send_file(struct api_call *a, const struct transfer_place *p, int fd, const char *name,
		       json_t **ret, struct err *e) MUST_USE;
/* Everything below the local directory, into the new one at p. *ret is the server's count. */
int transfer_send_tree(struct api_call *a, const struct transfer_place *p, const char *dir,
		       json_t **ret, struct err *e) MUST_USE;

/* Into a file, replaced when all of it has arrived, or to stdout if to is NULL. */
int transfer_get_file(struct api_call *a, const struct transfer_place *p, const char *to,
		      struct err *e) MUST_USE;
/* Into a new local directory. As a tar archive to stdout if to is NULL. */
int transfer_get_tree(struct api_call *a, const struct transfer_place *p, const char *to,
		      struct err *e) MUST_USE;
/* The archive, into a descriptor. */
int transfer_get_tar(struct api_call *a, const struct transfer_place *p, int to,
		     struct err *e) MUST_USE;
