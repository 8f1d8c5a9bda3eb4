#include "volume_access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "e2b_private.h"
#include "layers.h"
#include "reply.h"
#include "rfc3339.h"
#include "volume_token.h"

#define ROOM_LEAST (1U << 20)

/* The only part of the contract whose code is a text. */
static void fail(struct request *r, const struct failure *f)
{
	char text[256 + 6 * sizeof(((struct err *)NULL)->msg)], code[8];
	struct json j;

	(void)snprintf(code, sizeof(code), "%d", f->status);
	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_text(&j, "code", code);
	json_text(&j, "message", f->message);
	json_close(&j, '}');
	exchange_reply(r->x, f->status, "application/json", j.text, j.len);
}

static const struct dialect content_dialect = { .interface = "e2b", .fail = fail };

/* ---- the token */

static bool bearer(const struct request *r, struct http1_span *ret)
{
	static const char scheme[] = "Bearer ";
	const struct http1_request *q = exchange_request(r->x);

	if (http1_find(q->headers, q->headers_n, "authorization", ret) != 1 ||
	    ret->n < sizeof(scheme) || strncasecmp(ret->p, scheme, sizeof(scheme) - 1) != 0)
		return false;
	ret->p += sizeof(scheme) - 1;
	ret->n -= sizeof(scheme) - 1;
	return true;
}

bool volume_access(struct request *r, struct store_volume *ret)
{
	char key[STORE_ID_MAX];
	struct http1_span token;
	struct err e = { 0 };
	int found;

	r->dialect = &content_dialect;
	if (!bearer(r, &token)) {
		reply_code(r, 401, "unauthorized", "the token of the volume is missing");
		return false;
	}
	/* No difference is made between a volume that does not exist and a wrong token. */
	found = store_volume_get(core_store(r->core), r->id, ret, &e);
	if (found < 0 && e.code != ERR_NOT_FOUND) {
		reply_error(r, &e);
		return false;
	}
	if (found < 0 || ret->state != STORE_VOLUME_READY ||
	    !volume_token_check(&e2b_of(r)->key, ret, core_now_ms(), token, key)) {
		reply_code(r, 401, "unauthorized", "the token of the volume is not valid");
		return false;
	}
	r->tenant = tenant_of_key(r->core, key, &r->scopes, &r->grant, &e);
	if (r->tenant == NULL && e.code != ERR_NOT_FOUND) {
		reply_error(r, &e);
		return false;
	}
	if (r->tenant == NULL) {
		reply_code(r, 401, "unauthorized", "the key that the token was made for has ended");
		return false;
	}
	if (tenant_check(r->tenant, &e) < 0 || request_count(r, &e) < 0) {
		reply_error(r, &e);
		return false;
	}
	exchange_set_account(r->x, tenant_account(r->tenant), true);
	return true;
}

/* ---- parameters */

int volume_access_clean(const char *path, char ret[CONTENT_PATH_MAX], struct err *e)
{
	size_t len = 0;

	if (*path == '\0')
		return err_set(e, ERR_INVALID, "path: is missing");
	while (*path != '\0') {
		size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0) {
			while (len > 0 && ret[--len] != '/')
				;
		} else if (n > 0 && (n != 1 || *path != '.')) {
			if (len + n + 2 > CONTENT_PATH_MAX)
				return err_set(e, ERR_INVALID, "path: is too long");
			ret[len++] = '/';
			memcpy(ret + len, path, n);
			len += n;
		}
		path += n + (path[n] == '/');
	}
	if (len == 0)
		ret[len++] = '/';
	ret[len] = '\0';
	return 0;
}

static int read_number(struct request *r, const char *name, uint64_t max, uint32_t *ret,
		       struct err *e)
{
	uint64_t value = STORAGE_CONTENT_UNSET;

	if (request_number(r, name, 0, max, &value, e) < 0)
		return -1;
	*ret = (uint32_t)value;
	return 0;
}

int volume_access_params(struct request *r, struct storage_content *ret, struct err *e)
{
	char path[CONTENT_PATH_MAX];
	bool force = false;

	if (request_text(r, "path", path, sizeof(path), e) < 0 ||
	    volume_access_clean(path, ret->path, e) < 0 ||
	    read_number(r, "uid", STORAGE_CONTENT_ID_MAX, &ret->uid, e) < 0 ||
	    read_number(r, "gid", STORAGE_CONTENT_ID_MAX, &ret->gid, e) < 0 ||
	    read_number(r, "mode", 07777, &ret->mode, e) < 0 ||
	    request_bool(r, "force", &force, e) < 0)
		return -1;
	ret->flags = force ? STORAGE_CONTENT_FORCE : 0;
	return 0;
}

/* ---- answers */

static void shape_time(struct json *j, const char *name, int64_t ns)
{
	char text[RFC3339_MAX];

	rfc3339_write(ns < 0 ? 0 : (uint64_t)ns / 1000000, text);
	json_text(j, name, text);
}

void volume_access_shape(struct json *j, const struct content_entry *e)
{
	static const char *const types[CONTENT_TYPES] = { [CONTENT_UNKNOWN] = "unknown",
							  [CONTENT_FILE] = "file",
							  [CONTENT_DIRECTORY] = "directory",
							  [CONTENT_SYMLINK] = "symlink" };
	const char *slash = strrchr(e->path, '/');

	json_open(j, NULL, '{');
	json_text(j, "name", slash == NULL || slash[1] == '\0' ? "/" : slash + 1);
	json_text(j, "type", types[e->type]);
	json_text(j, "path", e->path);
	json_uint(j, "size", e->size);
	json_uint(j, "mode", e->mode);
	json_uint(j, "uid", e->uid);
	json_uint(j, "gid", e->gid);
	shape_time(j, "atime", e->atime_ns);
	shape_time(j, "mtime", e->mtime_ns);
	shape_time(j, "ctime", e->ctime_ns);
	if (e->type == CONTENT_SYMLINK)
		json_text(j, "target", e->target);
	json_close(j, '}');
}

/* Status by errno; those of an operation that differ come first. 0: of any operation. */
static const struct {
	int sys, status;
	uint32_t what;
} statuses[] = {
	{ EISDIR, 404, STORAGE_CONTENT_READ },
	{ EINVAL, 400, STORAGE_CONTENT_REMOVE },
	{ ENOENT, 404, 0 },
	{ ENOTDIR, 400, 0 },
	{ EISDIR, 409, 0 },
	{ EEXIST, 409, 0 },
	{ ENOTEMPTY, 409, 0 },
	{ EBUSY, 409, 0 },
	{ ELOOP, 400, 0 },
	{ EINVAL, 400, 0 },
	{ ENAMETOOLONG, 400, 0 },
	{ EACCES, 403, 0 },
	{ EPERM, 403, 0 },
	{ EROFS, 403, 0 },
	{ ENOSPC, 507, 0 },
	{ EDQUOT, 507, 0 },
	{ EFBIG, 413, 0 },
};

/* A volume whose disk is full has errors of its device, or has become read-only by one. */
static bool is_full(const struct request *r, const struct err *e)
{
	struct err ignored;

	return e->reason == REASON_NONE && (e->sys == EIO || e->sys == EROFS) &&
	       layers_check_reserve(core_layers(r->core), ROOM_LEAST, &ignored) < 0;
}

void volume_access_fail(struct request *r, uint32_t what, const struct err *e)
{
	if (is_full(r, e)) {
		reply_code(r, 507, "storage_full", e->msg);
		return;
	}
	if (e->reason == REASON_NONE && e->code != ERR_CONFLICT)
		for (size_t i = 0; i < COUNT(statuses); i++)
			if (statuses[i].sys == e->sys &&
			    (statuses[i].what == 0 || statuses[i].what == what)) {
				reply_code(r, statuses[i].status, "content", e->msg);
				return;
			}
	if (e->reason == REASON_NONE && e->code == ERR_LIMIT && what == STORAGE_CONTENT_LIST)
		reply_code(r, 400, "invalid", e->msg);
	else
		reply_error(r, e);
}
