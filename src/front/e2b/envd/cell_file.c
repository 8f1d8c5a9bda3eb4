#include "front/e2b/envd/cell_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "front/e2b/envd/rpc.h"
#include "front/web/reply.h"
#include "lib/base/str.h"

#define ANY (-1)

/* The user as words for an answer. */
static const char *name_of(const struct cell_file *f)
{
	return f->user[0] == '\0' ? FILE_CALL_USER : f->user;
}

/* The number of arguments is this program's own, so a full array is a mistake of it. */
void cell_file_add(struct cell_file *f, const char *argument)
{
	assert(f->argc < CELL_FILE_ARGS_MAX);
	f->argv[f->argc++] = argument;
}

void cell_file_init(struct cell_file *f, const char *builtin)
{
	f->argc = 0;
	cell_file_add(f, "--for");
	cell_file_add(f, name_of(f));
	cell_file_add(f, builtin);
}

int cell_file_start(const struct cell_file *f, struct file_call *c, struct request *r,
		    struct session *s, bool write, const struct file_call_events *events,
		    struct err *e)
{
	const struct cell_restrictions *restrictions = core_restrictions(session_core(s));

	/* By number: the names are the cell's to change. */
	c->user = restrictions != NULL && restrictions->ids == 1 ? FILE_CALL_USER : "0";
	return file_call_start(c, r, s, f->argv, f->argc, write, events, e);
}

/* ---- failures
 *
 * One table for both protocols: a row has a code for RPC and a status for HTTP. */

bool cell_file_is_gone(const struct err *e)
{
	return err_reason_is_gone(e->reason);
}

/* Either sys or code names the failure. The other one is ANY. */
struct cell_file_meaning {
	int code, sys;
	enum rpc_code rpc;
	int status;
	const char *words; /* the path follows a colon. NULL: those of the error */
};

/* The first matching row counts, so rows by errno come first. */
static const struct cell_file_meaning meanings[] = {
	{ ANY, ENOENT, RPC_NOT_FOUND, 404, "file not found: " },
	{ ANY, EISDIR, RPC_INVALID_ARGUMENT, 400, "path is a directory: " },
	{ ANY, ENOTDIR, RPC_INVALID_ARGUMENT, 400, "path is not a directory: " },
	{ ANY, EEXIST, RPC_INVALID_ARGUMENT, 400, "path already exists: " },
	{ ANY, ENAMETOOLONG, RPC_INVALID_ARGUMENT, 400, "path is too long: " },
	{ ANY, EINVAL, RPC_INVALID_ARGUMENT, 400, NULL },
	{ ANY, ELOOP, RPC_FAILED_PRECONDITION, 400, "cyclic symlink: " },
	{ ANY, ENOTEMPTY, RPC_FAILED_PRECONDITION, 400, NULL },
	{ ANY, EBUSY, RPC_FAILED_PRECONDITION, 409, NULL },
	{ ANY, ETXTBSY, RPC_FAILED_PRECONDITION, 409, NULL },
	{ ANY, EXDEV, RPC_FAILED_PRECONDITION, 400, NULL },
	{ ANY, EACCES, RPC_PERMISSION_DENIED, 403, NULL },
	{ ANY, EPERM, RPC_PERMISSION_DENIED, 403, NULL },
	{ ANY, EROFS, RPC_PERMISSION_DENIED, 403, NULL },
	{ ANY, ENOSPC, RPC_RESOURCE_EXHAUSTED, 507, "not enough disk space available" },
	{ ANY, EDQUOT, RPC_RESOURCE_EXHAUSTED, 507, "not enough disk space available" },
	{ ANY, EFBIG, RPC_RESOURCE_EXHAUSTED, 413, NULL },
	{ ANY, EMFILE, RPC_RESOURCE_EXHAUSTED, 429, NULL },
	{ ANY, ENFILE, RPC_RESOURCE_EXHAUSTED, 429, NULL },
	{ ANY, ENOMEM, RPC_RESOURCE_EXHAUSTED, 429, NULL },
	{ ANY, EAGAIN, RPC_RESOURCE_EXHAUSTED, 429, NULL },
	{ ERR_INVALID, ANY, RPC_INVALID_ARGUMENT, 400, NULL },
	{ ERR_DENIED, ANY, RPC_PERMISSION_DENIED, 403, NULL },
	{ ERR_NOT_FOUND, ANY, RPC_NOT_FOUND, 404, "file not found: " },
	{ ERR_CONFLICT, ANY, RPC_UNAVAILABLE, 503, NULL },
	{ ERR_LIMIT, ANY, RPC_RESOURCE_EXHAUSTED, 413, NULL },
	{ ERR_UNSUPPORTED, ANY, RPC_UNIMPLEMENTED, 400, NULL },
};

/* Never NULL. */
static const struct cell_file_meaning *meaning_of(const struct err *e)
{
	static const struct cell_file_meaning internal = { ANY, ANY, RPC_INTERNAL, 500, NULL };
	static const struct cell_file_meaning unavailable = { ANY, ANY, RPC_UNAVAILABLE, 503,
							      NULL };

	if (e->reason == REASON_UNAVAILABLE)
		return &unavailable;
	for (size_t i = 0; i < COUNT(meanings); i++) {
		const struct cell_file_meaning *m = &meanings[i];

		if (m->sys != ANY ? m->sys == e->sys : m->code == (int)e->code)
			return m;
	}
	return &internal;
}

/* Limited to the size of a message: a path may be longer. */
static void cell_file_compose(char ret[sizeof(((struct err *)NULL)->msg)],
			      const struct cell_file_meaning *m, const char *path,
			      const struct err *e)
{
	size_t cap = sizeof(e->msg);

	if (m->words == NULL)
		str_copy_to(ret, cap, e->msg);
	else
		(void)snprintf(ret, cap, "%s%s", m->words, strchr(m->words, ':') ? path : "");
}

/* A sandbox that is gone comes before any other failure. */
void cell_file_fail_rpc(struct request *r, const struct cell_file *f, const char *path,
			const struct err *e)
{
	const struct cell_file_meaning *m = meaning_of(e);
	char text[sizeof(e->msg)];

	if (cell_file_is_gone(e)) {
		sandbox_entry_gone(r);
		return;
	}
	if (e->sys == FILE_MSG_NO_USER) {
		rpc_fail(r, RPC_UNAUTHENTICATED, "invalid username: '%s'", name_of(f));
		return;
	}
	cell_file_compose(text, m, path, e);
	rpc_fail(r, m->rpc, "%s", text);
}

/* The words of E2B's file interface differ from those of its service. */
void cell_file_fail_http(struct request *r, const struct cell_file *f, const char *path,
			 const struct err *e)
{
	const struct cell_file_meaning *m = meaning_of(e);
	char text[sizeof(e->msg)];

	if (cell_file_is_gone(e)) {
		sandbox_entry_gone(r);
		return;
	}
	cell_file_compose(text, m, path, e);
	if (e->sys == FILE_MSG_NO_USER) {
		(void)snprintf(text, sizeof(text),
			       "error looking up user '%s': user: unknown user %s", name_of(f),
			       name_of(f));
		reply_code(r, 401, "unauthenticated", text);
		return;
	}
	if (m->status == 404)
		(void)snprintf(text, sizeof(text), "path '%s' does not exist", path);
	else if (e->sys == EISDIR)
		(void)snprintf(text, sizeof(text), "path '%s' is a directory", path);
	reply_code(r, m->status, "file", text);
}
