/* build_upload.c - archives that clients upload for COPY: files in STATE/uploads, and rows.
 *
 * An archive is named by its tenant, its template and a hash that the client chose; nothing of the
 * content follows from that hash. It is written to a file of its own, whose SHA-256 is computed on
 * the way; the row is written when it is complete. A file without a row is removed at the start, as
 * is a row whose file has another size (a power cut). Archives are never opened here: a cell
 * unpacks them. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "build_private.h"
#include "build_upload.h"
#include "hex.h"
#include "io.h"
#include "list.h"
#include "log.h"
#include "rand.h"

#define RESERVE_LEAST (1U << 20)
#define UPLOADS_TENANT_MAX 1000 /* that are kept, however small they are */

struct build_upload {
	struct build_upload *next, **link; /* of builds.receiving */
	struct core *core;
	int dir; /* borrowed */
	int fd;	 /* owned */
	struct sha256 hash;
	struct store_build_upload row;
};

static void remove_one(struct core *c, const char *file)
{
	struct err e;

	if (store_build_upload_delete(core_store(c), file, &e) < 0)
		log_warn("upload could not be removed", "file=%s error=%s", file, e.msg);
	else
		(void)unlinkat(builds_of(c)->uploads, file, 0);
}

/* ---- room: the oldest of a tenant go */

struct eviction {
	const char *tenant;
	char file[STORE_ID_MAX];
};

static int on_oldest(const struct store_build_upload *row, void *cookie)
{
	struct eviction *v = cookie;

	if (strcmp(row->tenant, v->tenant) != 0)
		return 0;
	memcpy(v->file, row->file, sizeof(v->file));
	return 1;
}

static void make_room(struct core *c, const char *tenant)
{
	uint64_t sum = 0, n = 0;
	struct err e;

	while (store_build_upload_sum(core_store(c), tenant, &sum, &n, &e) == 0 &&
	       (sum > core_config(c)->tenant_uploads_max || n > UPLOADS_TENANT_MAX)) {
		struct eviction v = { .tenant = tenant };

		if (store_build_upload_each(core_store(c), on_oldest, &v, &e) < 0 ||
		    v.file[0] == '\0')
			return;
		remove_one(c, v.file);
	}
}

bool build_upload_delete_one(struct core *c, const char *tenant)
{
	struct eviction v = { .tenant = tenant };
	struct err e;

	if (store_build_upload_each(core_store(c), on_oldest, &v, &e) < 0 || v.file[0] == '\0')
		return false;
	remove_one(c, v.file);
	return true;
}

/* ---- receiving */

struct build_upload *build_upload_begin(struct core *c, const char *tenant, const char *template_id,
					const char *hash, struct err *e)
{
	struct build_upload *u;

	if (layers_check_reserve(core_layers(c), RESERVE_LEAST, e) < 0)
		return NULL;
	u = calloc(1, sizeof(*u));
	assert(u != NULL);
	u->core = c;
	u->dir = builds_of(c)->uploads;
	(void)snprintf(u->row.tenant, sizeof(u->row.tenant), "%s", tenant);
	(void)snprintf(u->row.template_id, sizeof(u->row.template_id), "%s", template_id);
	(void)snprintf(u->row.hash, sizeof(u->row.hash), "%s", hash);
	rand_id("upl_", u->row.file, sizeof(u->row.file));
	sha256_init(&u->hash);
	u->fd = openat(u->dir, u->row.file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (u->fd >= 0) {
		LIST_PUSH(&builds_of(c)->receiving, u);
		return u;
	}
	IGNORED(err_sys(e, "upload"), "reported by NULL");
	free(u);
	return NULL;
}

/* Of all that a tenant uploads at a time: one archive is always possible. */
static uint64_t bound(const struct core *c)
{
	const struct config *g = core_config(c);

	return g->tenant_uploads_max > g->upload_max ? g->tenant_uploads_max : g->upload_max;
}

/* Bytes that the tenant is uploading: they are on the disk, and not yet in any row. */
static uint64_t in_flight(const struct core *c, const char *tenant)
{
	uint64_t sum = 0;

	for (const struct build_upload *u = builds_of(c)->receiving; u != NULL; u = u->next)
		if (strcmp(u->row.tenant, tenant) == 0)
			sum += u->row.bytes;
	return sum;
}

int build_upload_write(struct build_upload *u, const void *data, size_t len, struct err *e)
{
	if (u->row.bytes + len > core_config(u->core)->upload_max)
		return err_set(e, ERR_LIMIT, "the archive is larger than upload_max");
	if (in_flight(u->core, u->row.tenant) + len > bound(u->core))
		return err_set_reason(e, REASON_QUOTA_BUILDS,
				      "the archives that this tenant uploads at a time are larger "
				      "than tenant_uploads_max");
	if (io_write_all(u->fd, data, len, e) < 0) {
		if (e->sys == ENOSPC || e->sys == EDQUOT)
			return err_set_reason(e, REASON_STORAGE_FULL,
					      "upload: the disk of the server is full");
		return err_wrap(e, "upload");
	}
	sha256_add(&u->hash, data, len);
	u->row.bytes += len;
	return 0;
}

void build_upload_drop(struct build_upload *u)
{
	if (u == NULL)
		return;
	LIST_REMOVE(u);
	fd_close(u->fd);
	(void)unlinkat(u->dir, u->row.file, 0);
	free(u);
}

int build_upload_end(struct build_upload *u, struct err *e)
{
	struct store_build_upload before;
	uint8_t digest[SHA256_SIZE];
	struct core *c = u->core;
	bool replaces = store_build_upload_get(core_store(c), u->row.tenant, u->row.template_id,
					       u->row.hash, &before, e) == 0;

	sha256_end(&u->hash, digest);
	hex_encode(digest, sizeof(digest), u->row.digest);
	u->row.used_ms = core_now_ms();
	if (store_build_upload_put(core_store(c), &u->row, e) < 0) {
		build_upload_drop(u);
		return -1;
	}
	if (replaces)
		(void)unlinkat(u->dir, before.file, 0);
	LIST_REMOVE(u);
	fd_close(u->fd);
	make_room(c, u->row.tenant);
	free(u);
	return 0;
}

/* ---- use */

bool build_upload_there(struct core *c, const char *tenant, const char *template_id,
			const char *hash)
{
	struct store_build_upload row;
	struct err e;

	return store_build_upload_get(core_store(c), tenant, template_id, hash, &row, &e) == 0;
}

int build_upload_open(struct core *c, const char *tenant, const char *template_id, const char *hash,
		      struct store_build_upload *ret, struct err *e)
{
	int fd;

	if (store_build_upload_get(core_store(c), tenant, template_id, hash, ret, e) < 0)
		return -1;
	ret->used_ms = core_now_ms();
	IGNORED(store_build_upload_put(core_store(c), ret, e), "it only goes earlier");
	fd = openat(builds_of(c)->uploads, ret->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_sys(e, "upload %.64s", hash) : fd;
}

/* ---- the start */

struct sweep {
	struct core *core;
	unsigned n;
	char files[256][STORE_ID_MAX]; /* that do not fit their rows */
};

static int on_row(const struct store_build_upload *row, void *cookie)
{
	struct sweep *w = cookie;
	struct stat st;

	if (w->n < COUNT(w->files) &&
	    (fstatat(builds_of(w->core)->uploads, row->file, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	     !S_ISREG(st.st_mode) || (uint64_t)st.st_size != row->bytes))
		memcpy(w->files[w->n++], row->file, STORE_ID_MAX);
	return 0;
}

static void remove_unknown(struct core *c)
{
	int fd = openat(builds_of(c)->uploads, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct err e;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.' &&
		    store_build_upload_has(core_store(c), entry->d_name, &e) == 0)
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir != NULL)
		(void)closedir(dir);
}

int build_upload_setup(struct core *c, struct err *e)
{
	struct builds *b = builds_of(c);
	int state = core_options(c)->state_fd;
	struct sweep *w;

	if (mkdirat(state, "uploads", 0700) < 0 && errno != EEXIST)
		return err_sys(e, "uploads");
	b->uploads = openat(state, "uploads", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (b->uploads < 0)
		return err_sys(e, "uploads");
	w = calloc(1, sizeof(*w));
	assert(w != NULL);
	w->core = c;
	if (store_build_upload_each(core_store(c), on_row, w, e) < 0) {
		free(w);
		return -1;
	}
	for (unsigned i = 0; i < w->n; i++)
		remove_one(c, w->files[i]);
	free(w);
	remove_unknown(c);
	return 0;
}
