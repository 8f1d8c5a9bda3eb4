/* cell_file.h - file operations in a sandbox with the semantics of E2B, and how their failures are
 * reported.
 *
 * E2B's envd runs as root: it can access any file, and its new files belong to the requested user.
 * So the built-ins run as root of the cell with --for USER. A cell with a single id has no root.
 * There they run as that one user. */
#pragma once

#include "front/e2b/base/e2b_private.h"
#include "front/web/file_call.h"

#define CELL_FILE_ARGS_MAX 128

struct cell_file {
	char user[ENVD_USER_MAX]; /* as requested. "": the default user */
	const char *argv[CELL_FILE_ARGS_MAX];
	unsigned argc;
};

/* The arguments of a built-in, which follow one by one, borrowed until cell_file_start(). user was
 * set before. */
void cell_file_init(struct cell_file *f, const char *builtin);
void cell_file_add(struct cell_file *f, const char *argument);
/* r may be NULL for what outlives its request. */
int cell_file_start(const struct cell_file *f, struct file_call *c, struct request *r,
		    struct session *s, bool write, const struct file_call_events *events,
		    struct err *e) MUST_USE;

/* Did it fail because the sandbox is no more? */
bool cell_file_is_gone(const struct err *e);
/* Answer a call of the filesystem service, or of the file interface, whose built-in failed. path:
 * the one requested. */
void cell_file_fail_rpc(struct request *r, const struct cell_file *f, const char *path,
			const struct err *e);
void cell_file_fail_http(struct request *r, const struct cell_file *f, const char *path,
			 const struct err *e);
