/* storage_msg.c - checks requests to cordon-storage, whose only check this is: all requests pass
 * storage_msg_check() first. A new operation is a row of shapes[]. */
#include "lib/wire/storage_msg.h"

#include <assert.h>
#include <string.h>

bool storage_msg_is_id(const char *s, size_t cap)
{
	size_t n = strnlen(s, cap);

	if (n == 0 || n == cap || ((s[0] | 0x20) < 'a' || (s[0] | 0x20) > 'z'))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
		      (s[i] >= '0' && s[i] <= '9') || s[i] == '_' || s[i] == '-'))
			return false;
	return true;
}

static int storage_check_id(const char *id, struct err *e)
{
	return storage_msg_is_id(id, STORAGE_ID_MAX) ? 0 : err_set(e, ERR_INVALID, "malformed id");
}

static int storage_check_stack(uint32_t n, const char ids[][STORAGE_ID_MAX], struct err *e)
{
	if (n > STORAGE_STACK_MAX)
		return err_set(e, ERR_INVALID, "%u layers, at most %d", n, STORAGE_STACK_MAX);
	for (uint32_t i = 0; i < n; i++)
		if (storage_check_id(ids[i], e) < 0)
			return -1;
	return 0;
}

/* One component of a path, or nothing. */
static bool storage_is_place(const char *s)
{
	size_t n = strnlen(s, STORAGE_PLACE_MAX);

	return n < STORAGE_PLACE_MAX && s[0] != '.' && memchr(s, '/', n) == NULL;
}

static int storage_check_places(const char at[][STORAGE_PLACE_MAX], struct err *e)
{
	for (unsigned i = 0; i < STORAGE_HOST_MAX; i++)
		if (!storage_is_place(at[i]) || (i == 0 && at[i][0] != '\0'))
			return err_set(e, ERR_INVALID, "malformed place");
	return 0;
}

static int storage_check_unpack(const union storage_request *r, struct err *e)
{
	const struct storage_unpack *u = &r->unpack;

	if (u->format >= STORAGE_FORMATS || (u->flags & ~(uint32_t)STORAGE_UNPACK_FLAGS) != 0)
		return err_set(e, ERR_INVALID, "unknown format or flag");
	if (u->bytes_max == 0 || u->bytes_max > UINT64_MAX / 4 || u->entries_max == 0 ||
	    u->entries_max > UINT32_MAX || u->silence_ms > INT32_MAX || u->from > UINT64_MAX / 4 ||
	    u->length > UINT64_MAX / 4 || u->reserve_percent > 100)
		return err_set(e, ERR_INVALID, "a limit is out of range");
	if ((u->flags & STORAGE_SEARCH) != 0 && u->format != STORAGE_CAPTURE)
		return err_set(e, ERR_INVALID, "only captures are searched");
	if ((u->flags & STORAGE_NAME) != 0 && (u->flags & STORAGE_SEARCH) == 0)
		return err_set(e, ERR_INVALID, "names of files, and no search");
	if (storage_check_places(u->at, e) < 0)
		return -1;
	return storage_check_id(u->layer, e) < 0 ? -1 : storage_check_stack(u->nlower, u->lower, e);
}

static int storage_check_remove(const union storage_request *r, struct err *e)
{
	return storage_check_id(r->remove.layer, e);
}

static int storage_check_base(uint32_t flags, const char *base, struct err *e)
{
	if (flags != STORAGE_FOLD_BOTTOM && flags != STORAGE_FOLD_HOST && flags != STORAGE_FOLD_DIR)
		return err_set(e, ERR_INVALID, "an unknown flag");
	if (strnlen(base, STORAGE_BASE_MAX) == STORAGE_BASE_MAX ||
	    (flags != STORAGE_FOLD_BOTTOM) != (base[0] != '\0') || base[0] == '.' ||
	    strchr(base, '/') != NULL)
		return err_set(e, ERR_INVALID, "malformed base");
	return 0;
}

static int storage_check_fold(const union storage_request *r, struct err *e)
{
	const struct storage_fold *f = &r->fold;

	if (storage_check_base(f->flags, f->base, e) < 0)
		return -1;
	if (f->nbelow >= f->nfrom || f->reserve_percent > 100)
		return err_set(e, ERR_INVALID,
			       "no layers above those that stay, or a limit is out of range");
	return storage_check_id(f->layer, e) < 0 ? -1 : storage_check_stack(f->nfrom, f->from, e);
}

static int storage_check_root(const union storage_request *r, struct err *e)
{
	const struct storage_root *o = &r->root;

	if (storage_check_base(o->flags, o->base, e) < 0)
		return -1;
	if ((o->nfrom == 0 && o->flags == STORAGE_FOLD_BOTTOM) || o->zero != 0 ||
	    o->reserve_percent > 100 || o->bytes_max == 0 || o->bytes_max > UINT64_MAX / 4)
		return err_set(e, ERR_INVALID, "no layers, or a limit is out of range");
	if (storage_check_places(o->at, e) < 0)
		return -1;
	return storage_check_id(o->layer, e) < 0 ? -1 : storage_check_stack(o->nfrom, o->from, e);
}

static int storage_check_memory(const union storage_request *r, struct err *e)
{
	const struct storage_memory *m = &r->memory;

	if ((m->bytes_max > 0) != (r->head.op != STORAGE_MEMORY_LOAD) || m->zero != 0 ||
	    m->reserve_percent > 100 || m->bytes_max > UINT64_MAX / 4)
		return err_set(e, ERR_INVALID, "a limit is out of range");
	if (r->head.op == STORAGE_MEMORY_COPY)
		return m->layer[0] == '\0' ? 0 : err_set(e, ERR_INVALID, "a copy is no layer");
	return storage_check_id(m->layer, e);
}

static int storage_check_disk(const union storage_request *r, struct err *e)
{
	const struct storage_disk *d = &r->disk;
	bool make = r->head.op == STORAGE_DISK_MAKE;

	if ((d->flags & ~(uint32_t)(make ? STORAGE_DISK_FLAGS : 0)) != 0 || d->zero != 0)
		return err_set(e, ERR_INVALID, "unknown flag");
	if ((d->bytes > 0) != make || d->bytes > INT64_MAX || (d->inodes > 0) != make ||
	    d->inodes > UINT32_MAX)
		return err_set(e, ERR_INVALID, "a size is out of range");
	return storage_check_id(d->id, e);
}

static int storage_check_arrange(const union storage_request *r, struct err *e)
{
	const struct storage_arrange *a = &r->arrange;

	if (a->nlower == 0 || a->zero != 0)
		return err_set(e, ERR_INVALID, "no layers");
	if (storage_check_id(a->host, e) < 0)
		return -1;
	return storage_check_id(a->layer, e) < 0 ? -1 : storage_check_stack(a->nlower, a->lower, e);
}

static int storage_check_survey(const union storage_request *r, struct err *e)
{
	uint64_t max = r->survey.bytes_max;

	if (max == 0 || max > UINT64_MAX / 4 || r->survey.reserve_percent > 100)
		return err_set(e, ERR_INVALID, "a limit is out of range");
	return 0;
}

/* The canonical text of a UUID, in small letters. */
static bool storage_is_uuid(const char *s)
{
	for (size_t i = 0; i < 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-'
			 : !(s[i] >= '0' && s[i] <= '9') && !(s[i] >= 'a' && s[i] <= 'f'))
			return false;
	}
	return s[36] == '\0';
}

static int storage_check_volume(const union storage_request *r, struct err *e)
{
	const struct storage_volume *v = &r->volume;

	if (!storage_is_uuid(v->volume) || v->image > 1 || v->zero != 0 || v->bytes > INT64_MAX)
		return err_set(e, ERR_INVALID, "malformed volume");
	return 0;
}

/* "/", or "/a/b" without empty, "." and ".." components. */
static bool storage_is_clean(const char *s)
{
	if (strnlen(s, STORAGE_PATH_MAX) == STORAGE_PATH_MAX || s[0] != '/')
		return false;
	for (const char *p = s + 1; p[-1] != '\0' && s[1] != '\0';) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n + 1;
	}
	return true;
}

static int storage_check_content(const union storage_request *r, struct err *e)
{
	const struct storage_content *c = &r->content;
	const uint32_t ids[] = { c->uid, c->gid };

	for (size_t i = 0; i < COUNT(ids); i++)
		if (ids[i] > STORAGE_CONTENT_ID_MAX && ids[i] != STORAGE_CONTENT_UNSET)
			return err_set(e, ERR_INVALID, "an id is out of range");
	if (!storage_is_uuid(c->volume) || c->what == 0 || c->what >= STORAGE_CONTENT_WHATS ||
	    (c->flags & ~(uint32_t)STORAGE_CONTENT_FLAGS) != 0 ||
	    (c->mode > 07777 && c->mode != STORAGE_CONTENT_UNSET) || c->depth == 0 ||
	    c->depth > 64 || c->reserve_percent > 100 || c->zero != 0 || !storage_is_clean(c->path))
		return err_set(e, ERR_INVALID, "malformed operation on a volume");
	return 0;
}

static int storage_check_spool(const union storage_request *r, struct err *e)
{
	const struct storage_spool *s = &r->spool;

	if (s->bytes_max == 0 || s->bytes_max > UINT64_MAX / 4 || s->reserve_percent > 100 ||
	    (s->flags & ~(uint32_t)STORAGE_SPOOL_FLAGS) != 0)
		return err_set(e, ERR_INVALID, "a limit is out of range, or an unknown flag");
	return 0;
}

/* Relative, and none of its parts is "..". */
static bool storage_is_path(const char *path, size_t cap)
{
	if (strnlen(path, cap) == cap || path[0] == '/')
		return false;
	for (const char *at = path; at != NULL; at = strchr(at, '/')) {
		at += *at == '/';
		if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'))
			return false;
	}
	return true;
}

static int storage_check_files(const union storage_request *r, struct err *e)
{
	const struct storage_files *f = &r->files;

	if (f->nlower == 0 || f->limit == 0 || f->limit > STORAGE_FILES_MAX ||
	    !storage_is_path(f->path, sizeof(f->path)))
		return err_set(e, ERR_INVALID, "no layers, or a malformed path or limit");
	return storage_check_stack(f->nlower, f->lower, e);
}

/* Size of the request, descriptors that come with it, what else is checked, is it a stream. */
static const struct {
	size_t size, nfds;
	int (*check)(const union storage_request *r, struct err *e);
	bool stream;
} shapes[] = {
	[STORAGE_UNPACK] = { sizeof(struct storage_unpack), 1, storage_check_unpack },
	[STORAGE_REMOVE] = { sizeof(struct storage_remove), 0, storage_check_remove },
	[STORAGE_LIST] = { sizeof(struct storage_list), 1, NULL },
	[STORAGE_FOLD] = { sizeof(struct storage_fold), 0, storage_check_fold },
	[STORAGE_ARRANGE] = { sizeof(struct storage_arrange), 0, storage_check_arrange },
	[STORAGE_SURVEY] = { sizeof(struct storage_survey), 3, storage_check_survey },
	[STORAGE_FILES] = { sizeof(struct storage_files), 1, storage_check_files },
	[STORAGE_DISK_MAKE] = { sizeof(struct storage_disk), 0, storage_check_disk },
	[STORAGE_DISK_CHECK] = { sizeof(struct storage_disk), 0, storage_check_disk },
	[STORAGE_DISK_REMOVE] = { sizeof(struct storage_disk), 0, storage_check_disk },
	[STORAGE_DISK_LIST] = { sizeof(struct storage_list), 1, NULL },
	[STORAGE_VOLUME_MAKE] = { sizeof(struct storage_volume), 0, storage_check_volume },
	[STORAGE_VOLUME_REMOVE] = { sizeof(struct storage_volume), 0, storage_check_volume },
	[STORAGE_VOLUME_USAGE] = { sizeof(struct storage_volume), 0, storage_check_volume },
	[STORAGE_CONTENT] = { sizeof(struct storage_content), 1, storage_check_content, true },
	[STORAGE_SPOOL] = { sizeof(struct storage_spool), 1, storage_check_spool, true },
	[STORAGE_ROOT_MAKE] = { sizeof(struct storage_root), 0, storage_check_root },
	[STORAGE_ROOT_OPEN] = { sizeof(struct storage_remove), 0, storage_check_remove },
	[STORAGE_MEMORY_SAVE] = { sizeof(struct storage_memory), 2, storage_check_memory },
	[STORAGE_MEMORY_LOAD] = { sizeof(struct storage_memory), 2, storage_check_memory },
	[STORAGE_MEMORY_COPY] = { sizeof(struct storage_memory), 4, storage_check_memory },
	[STORAGE_LOOK] = { sizeof(struct storage_list), 0, NULL },
	[STORAGE_SIZES] = { sizeof(struct storage_list), 1, NULL },
};
static_assert(COUNT(shapes) == STORAGE_OPS, "a shape for every operation");

bool storage_msg_is_stream(const union storage_request *r)
{
	if (r->head.op == STORAGE_UNPACK)
		return (r->unpack.flags & STORAGE_FROM_REGISTRY) != 0;
	return r->head.op < STORAGE_OPS && shapes[r->head.op].stream;
}

static size_t storage_fds_of(const union storage_request *r, size_t len)
{
	size_t more = 0;

	if (r->head.op == STORAGE_CONTENT && len == sizeof(r->content))
		more = (size_t)(r->content.what == STORAGE_CONTENT_WRITE) +
		       (size_t)((r->content.flags & STORAGE_CONTENT_ROOT) != 0);
	if (r->head.op == STORAGE_UNPACK && len == sizeof(r->unpack))
		more = (size_t)((r->unpack.flags & STORAGE_SEARCH) != 0) +
		       (size_t)((r->unpack.flags & STORAGE_NAME) != 0);
	if (r->head.op == STORAGE_SPOOL && len == sizeof(r->spool))
		more = (r->spool.flags & STORAGE_SPOOL_FILE) != 0;
	return shapes[r->head.op].nfds + more;
}

int storage_msg_check(const void *bytes, size_t len, size_t nfds, struct err *e)
{
	union storage_request r;

	if (len < sizeof(r.head) || len > sizeof(r))
		return err_set(e, ERR_INVALID, "request of %zu bytes", len);
	memcpy(&r, bytes, len);
	if (r.head.op >= STORAGE_OPS || shapes[r.head.op].size == 0)
		return err_set(e, ERR_INVALID, "unknown operation %u", r.head.op);
	if (len != shapes[r.head.op].size || nfds != storage_fds_of(&r, len))
		return err_set(e, ERR_INVALID, "operation %u: %zu bytes and %zu descriptors",
			       r.head.op, len, nfds);
	if (r.head.job == 0 || r.head.deadline_ms == 0 || r.head.deadline_ms > INT32_MAX)
		return err_set(e, ERR_INVALID, "operation %u: no job or no deadline", r.head.op);
	if (shapes[r.head.op].check != NULL && shapes[r.head.op].check(&r, e) < 0)
		return err_wrap(e, "operation %u", r.head.op);
	return 0;
}

int storage_msg_check_reply(struct storage_reply *r, size_t len, struct err *e)
{
	if (len != sizeof(*r) || r->version != STORAGE_VERSION || r->op >= STORAGE_OPS)
		return err_set(e, ERR_SYSTEM, "cordon-storage has another version");
	if (r->err.code != ERR_NONE)
		err_sanitize(&r->err);
	return 0;
}
