#include "lib/wire/content_msg.h"

#include <string.h>

struct content_head {
	uint32_t kind, len; /* of the body */
};

/* The body of ENTRY. Path and target follow, without their NUL. */
struct content_msg_entry {
	uint64_t size;
	int64_t atime_ns, mtime_ns, ctime_ns;
	uint32_t type, mode, uid, gid;
	uint32_t path_len, target_len;
};

static size_t content_put(uint8_t *ret, uint32_t kind, const void *body, size_t len)
{
	const struct content_head h = { .kind = kind, .len = (uint32_t)len };

	memcpy(ret, &h, sizeof(h));
	if (len > 0)
		memmove(ret + sizeof(h), body, len);
	return sizeof(h) + len;
}

static size_t content_put_entry(const struct content_entry *e, uint8_t *ret)
{
	const struct content_msg_entry b = {
		.size = e->size,
		.atime_ns = e->atime_ns,
		.mtime_ns = e->mtime_ns,
		.ctime_ns = e->ctime_ns,
		.type = e->type,
		.mode = e->mode,
		.uid = e->uid,
		.gid = e->gid,
		.path_len = (uint32_t)strnlen(e->path, CONTENT_PATH_MAX - 1),
		.target_len = (uint32_t)strnlen(e->target, CONTENT_PATH_MAX - 1)
	};
	uint8_t *at = ret + sizeof(struct content_head);

	memcpy(at, &b, sizeof(b));
	memcpy(at + sizeof(b), e->path, b.path_len);
	memcpy(at + sizeof(b) + b.path_len, e->target, b.target_len);
	return content_put(ret, CONTENT_ENTRY, at, sizeof(b) + b.path_len + b.target_len);
}

size_t content_msg_write(const struct content_record *r, uint8_t *ret)
{
	switch (r->kind) {
	case CONTENT_ERROR:
		return content_put(ret, r->kind, &r->error, sizeof(r->error));
	case CONTENT_ENTRY:
		return content_put_entry(&r->entry, ret);
	case CONTENT_DATA:
		return content_put(ret, r->kind, &r->len, sizeof(r->len));
	case CONTENT_END:
		break;
	}
	return content_put(ret, CONTENT_END, NULL, 0);
}

static int content_malformed(struct err *e)
{
	return err_set(e, ERR_SYSTEM, "internal protocol error: malformed answer of storage");
}

static int content_get_text(const uint8_t *bytes, uint32_t len, char ret[CONTENT_PATH_MAX])
{
	if (memchr(bytes, '\0', len) != NULL)
		return -1;
	memcpy(ret, bytes, len);
	ret[len] = '\0';
	return 0;
}

static int content_get_entry(const uint8_t *body, size_t len, struct content_entry *ret)
{
	struct content_msg_entry b;

	if (len < sizeof(b))
		return -1;
	memcpy(&b, body, sizeof(b));
	if (b.path_len >= CONTENT_PATH_MAX || b.target_len >= CONTENT_PATH_MAX ||
	    len != sizeof(b) + b.path_len + b.target_len || b.type >= CONTENT_TYPES ||
	    b.mode > 07777)
		return -1;
	*ret = (struct content_entry){ .size = b.size,
				       .atime_ns = b.atime_ns,
				       .mtime_ns = b.mtime_ns,
				       .ctime_ns = b.ctime_ns,
				       .type = b.type,
				       .mode = b.mode,
				       .uid = b.uid,
				       .gid = b.gid };
	body += sizeof(b);
	if (content_get_text(body, b.path_len, ret->path) < 0)
		return -1;
	return content_get_text(body + b.path_len, b.target_len, ret->target);
}

static int content_get_body(struct content_record *ret, const uint8_t *body, size_t len)
{
	switch (ret->kind) {
	case CONTENT_ERROR:
		if (len != sizeof(ret->error))
			return -1;
		memcpy(&ret->error, body, len);
		err_sanitize(&ret->error);
		return ret->error.code == ERR_NONE ? -1 : 0;
	case CONTENT_ENTRY:
		return content_get_entry(body, len, &ret->entry);
	case CONTENT_DATA:
		if (len != sizeof(ret->len))
			return -1;
		memcpy(&ret->len, body, len);
		return ret->len > INT64_MAX ? -1 : 0;
	case CONTENT_END:
		return len == 0 ? 0 : -1;
	}
	return -1;
}

int content_msg_read(const uint8_t *bytes, size_t len, struct content_record *ret, struct err *e)
{
	struct content_head h;

	if (len < sizeof(h))
		return 0;
	memcpy(&h, bytes, sizeof(h));
	if (h.len > CONTENT_RECORD_MAX - sizeof(h) || h.kind < CONTENT_ERROR ||
	    h.kind > CONTENT_END)
		return content_malformed(e);
	if (len < sizeof(h) + h.len)
		return 0;
	ret->kind = (enum content_kind)h.kind;
	if (content_get_body(ret, bytes + sizeof(h), h.len) < 0)
		return content_malformed(e);
	return (int)(sizeof(h) + h.len);
}
