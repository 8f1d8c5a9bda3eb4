/* build_upload.c - archives that clients upload for COPY: files in STATE/uploads, and rows.
 *
 * An archive is named by its tenant, its template and a hash that the client chose. Nothing of the
 * content follows from that hash. cordon-storage writes it to a file of its own, and computes
 * its SHA-256 on the way (spool.h). The row is written when it is complete and on disk. A file
 * without a row is removed at the start, as is a row whose file has another size (a power cut).
 * Archives are never opened here: a cell unpacks them. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/disk/spool.h"
#include "daemon/images/build_private.h"
#include "daemon/images/build_upload.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

#define RESERVE_LEAST (1U << 20)
#define REMOVED_PIECE 8
#define UPLOADS_TENANT_MAX 1000 /* kept, however small they are */
/* That are written at a time. Others wait. A tenant without one gets one more: a few tenants that
 * send slowly do not keep it out. */
#define WRITTEN_MAX 24
#define WRITTEN_TENANT_MAX 8
#define UPLOADS_AT_ONCE_MAX \
	RECIPE_STEPS_MAX /* of a tenant, those that wait included: of one build */

/* A tenant that uploads. */
struct uploader {
	struct uploader *next, **link; /* of builds.uploaders */
	char tenant[STORE_ID_MAX];
	unsigned n;	  /* received, or waiting for it */
	unsigned written; /* of these */
	/* Those that wait, the oldest first. A turn looks at the first of each uploader. */
	struct build_upload *waiting, **waiting_end;
	uint64_t bytes; /* passed on, and in no row */
	bool is_over;	/* it has more than it may, and the oldest go */
};

enum upload_state { WAITS, WRITTEN, FAILED, KEPT };

struct build_upload {
	struct build_upload *next, **link; /* of uploader.waiting */
	uint64_t number;		   /* in the order in which all began */
	struct core *core;
	struct uploader *by; /* of its tenant. NULL: not counted any more */
	int fd;		     /* owned */
	struct spool spool;
	struct completions when_done;
	void (*on_room)(void *arg);
	void *arg;
	struct loop_task refused; /* ends it with `why`, not from within build_upload_put() */
	struct err why;
	enum upload_state state;
	struct store_build_upload row; /* bytes: those passed on */
};

/* The row goes first, so no row names a missing file. False: the store refuses. */
static bool remove_one(struct core *c, const char *file)
{
	struct err e;

	if (store_build_upload_delete(core_store(c), file, &e) < 0) {
		log_warn("upload could not be removed", "file=%s error=%s", file, e.msg);
		return false;
	}
	(void)unlinkat(builds_of(c)->uploads, file, 0);
	return true;
}

/* ---- who uploads: counted, so that no turn looks at all uploads for each of them */

/* Made if it does not exist. release_uploader() frees it when nothing counts on it. */
static struct uploader *find_uploader(struct builds *b, const char *tenant)
{
	struct uploader *by = b->uploaders;

	while (by != NULL && strcmp(by->tenant, tenant) != 0)
		by = by->next;
	if (by != NULL)
		return by;
	by = calloc(1, sizeof(*by));
	assert(by != NULL);
	str_copy(by->tenant, tenant);
	by->waiting_end = &by->waiting;
	LIST_PUSH(&b->uploaders, by);
	return by;
}

static void release_uploader(struct uploader *by)
{
	if (by->n > 0 || by->is_over)
		return;
	LIST_REMOVE(by);
	free(by);
}

/* ---- room: the oldest of a tenant go */

/* Remove the oldest of a tenant. False: there is none, or it stays. */
static bool remove_oldest(struct core *c, const char *tenant)
{
	struct store_build_upload row;
	struct err e;

	return store_build_upload_oldest(core_store(c), tenant, &row, &e) == 0 &&
	       remove_one(c, row.file);
}

/* More bytes or more archives than a tenant may keep. */
static bool is_over(struct core *c, const char *tenant)
{
	uint64_t sum = 0, n = 0;
	struct err e;

	return store_build_upload_sum(core_store(c), tenant, &sum, &n, &e) == 0 &&
	       (sum > core_config(c)->tenant_uploads_max || n > UPLOADS_TENANT_MAX);
}

static struct uploader *find_over(const struct builds *b)
{
	struct uploader *by = b->uploaders;

	while (by != NULL && !by->is_over)
		by = by->next;
	return by;
}

/* One of them. False: all tenants have room. */
static bool on_room_piece(struct job *j)
{
	struct builds *b = j->arg;
	struct uploader *by = find_over(b);

	if (by == NULL)
		return false;
	by->is_over = is_over(b->core, by->tenant) && remove_oldest(b->core, by->tenant);
	release_uploader(by);
	return true;
}

/* A large archive may push out a thousand small ones: the rest goes in pieces. */
static void make_room(struct uploader *by, struct builds *b)
{
	if (!is_over(b->core, by->tenant) || !remove_oldest(b->core, by->tenant))
		return;
	by->is_over = true;
	core_job_add(b->core, NULL, &b->room);
}

bool build_upload_delete_one(struct core *c, const char *tenant)
{
	return remove_oldest(c, tenant);
}

struct build_upload_removal {
	unsigned n;
	char files[REMOVED_PIECE][STORE_ID_MAX];
};

static int on_removed(const struct store_build_upload *row, void *cookie)
{
	struct build_upload_removal *v = cookie;

	memcpy(v->files[v->n++], row->file, sizeof(v->files[0]));
	return v->n == REMOVED_PIECE;
}

bool build_upload_delete_of(struct core *c, const char *tenant, const char *template_id,
			    bool *ret_more)
{
	struct build_upload_removal v = { 0 };
	struct err e;

	*ret_more = false;
	if (store_build_upload_of(core_store(c), tenant, template_id, on_removed, &v, &e) < 0)
		return false;
	for (unsigned i = 0; i < v.n; i++)
		if (!remove_one(c, v.files[i]))
			return false;
	*ret_more = v.n == REMOVED_PIECE;
	return true;
}

/* ---- uploads being received */

/* Every change of a state goes through here, so the counts of written archives hold. The upload
 * leaves the queue. */
static void set_state(struct build_upload *u, enum upload_state state)
{
	struct builds *b = builds_of(u->core);
	bool before = u->state == WRITTEN, now = state == WRITTEN;

	LIST_REMOVE_FROM(&u->by->waiting_end, u);
	u->state = state;
	b->written = b->written + now - before;
	u->by->written = u->by->written + now - before;
}

/* Out of the counts. */
static void build_upload_leave(struct build_upload *u)
{
	struct uploader *by = u->by;

	if (by == NULL)
		return;
	u->by = NULL;
	by->n--;
	by->bytes -= u->row.bytes;
	release_uploader(by);
}

/* ---- receiving */

/* The last thing done with u: its owner may drop it. */
static void build_upload_finish(struct build_upload *u, const struct err *e)
{
	struct completions told = { 0 };
	struct err copy = { 0 };

	if (e != NULL)
		copy = *e;
	spool_cancel(&u->spool);
	loop_defer(core_loop(u->core), &builds_of(u->core)->admit);
	completions_move(&u->when_done, &told);
	completions_end_all(&told, e == NULL ? NULL : &copy);
}

/* It counts until it is dropped: clients send the rest before they read the
 * answer. */
static void build_upload_fail(struct build_upload *u, const struct err *e)
{
	set_state(u, FAILED);
	build_upload_finish(u, e);
}

static void on_refused(struct loop_task *t)
{
	struct build_upload *u = t->arg;

	build_upload_fail(u, &u->why);
}

/* Write the row with the digest. A former archive's file is removed afterwards. */
static int build_upload_keep(struct build_upload *u, struct err *e)
{
	struct store_build_upload before;
	struct core *c = u->core;
	bool replaces = store_build_upload_get(core_store(c), u->row.tenant, u->row.template_id,
					       u->row.hash, &before, e) == 0;

	if (u->spool.bytes != u->row.bytes)
		return err_set(e, ERR_SYSTEM, "upload: cordon-storage has written another size");
	hex_encode(u->spool.sha256, sizeof(u->spool.sha256), u->row.digest);
	u->row.used_ms = core_now_ms();
	if (store_build_upload_put(core_store(c), &u->row, e) < 0)
		return -1;
	if (replaces)
		(void)unlinkat(builds_of(c)->uploads, before.file, 0);
	return 0;
}

/* The file is complete and on disk, or it never will be. */
static void on_spooled(struct spool *s, const struct err *e)
{
	struct build_upload *u = s->arg;
	struct err why;

	if (e == NULL && build_upload_keep(u, &why) < 0)
		e = &why;
	if (e != NULL) {
		build_upload_fail(u, e);
		return;
	}
	set_state(u, KEPT);
	make_room(u->by, builds_of(u->core));
	build_upload_leave(u);
	build_upload_finish(u, NULL);
}

static void on_spool_room(struct spool *s)
{
	const struct build_upload *u = s->arg;

	u->on_room(u->arg);
}

static void build_upload_start(struct build_upload *u)
{
	const struct spool_spec spec = { .tenant = u->row.tenant,
					 .bytes_max = core_config(u->core)->upload_max,
					 .reserve_percent =
						 (uint32_t)core_layers(u->core)->reserve_percent,
					 .file = u->fd };
	struct err e;

	set_state(u, WRITTEN);
	if (spool_start(&u->spool, core_storage(u->core), &spec, &e) < 0)
		build_upload_fail(u, &e);
	else
		u->on_room(u->arg);
}

/* With all places taken, a tenant without one still gets one. */
static bool may_be_written(const struct builds *b, const struct uploader *by)
{
	return by->written < (b->written < WRITTEN_MAX ? WRITTEN_TENANT_MAX : 1);
}

/* Begin the oldest that may be written now. */
static void on_admit(struct loop_task *t)
{
	struct builds *b = t->arg;
	struct build_upload *found = NULL;

	for (const struct uploader *by = b->uploaders; by != NULL; by = by->next)
		if (by->waiting != NULL && may_be_written(b, by) &&
		    (found == NULL || by->waiting->number < found->number))
			found = by->waiting;
	if (found == NULL)
		return;
	loop_defer(core_loop(b->core), &b->admit); /* until there is none */
	build_upload_start(found);
}

struct build_upload *build_upload_begin(struct core *c, const struct store_build_upload *name,
					struct completion *w, void (*on_room)(void *arg), void *arg,
					struct err *e)
{
	struct builds *b = builds_of(c);
	struct build_upload *u;
	struct uploader *by;

	if (layers_check_reserve(core_layers(c), RESERVE_LEAST, e) < 0)
		return NULL;
	by = find_uploader(b, name->tenant);
	if (by->n >= UPLOADS_AT_ONCE_MAX) {
		(void)err_set_reason(e, REASON_QUOTA_BUILDS,
				     "%u archives of this tenant are being uploaded, the most "
				     "there can be at a time",
				     by->n);
		return NULL;
	}
	u = calloc(1, sizeof(*u));
	assert(u != NULL);
	u->core = c;
	u->row = *name;
	u->spool = (struct spool){ .arg = u,
				   .on_room = on_spool_room,
				   .on_end = on_spooled,
				   .fd = -1,
				   .feed = { .fd = -1, .watch.fd = -1 },
				   .job.fd = -1 };
	u->refused = (struct loop_task){ .on_run = on_refused, .arg = u };
	u->on_room = on_room;
	u->arg = arg;
	rand_id("upl_", u->row.file, sizeof(u->row.file));
	u->fd = openat(b->uploads, u->row.file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (u->fd < 0) {
		IGNORED(err_sys(e, "upload"), "reported by NULL");
		free(u);
		release_uploader(by);
		return NULL;
	}
	u->number = ++b->uploads_begun;
	LIST_APPEND(&by->waiting_end, u);
	u->by = by;
	by->n++;
	completion_begin(w, core_loop(c), &u->when_done);
	loop_defer(core_loop(c), &b->admit);
	return u;
}

/* Of all that a tenant uploads at a time: one archive is always possible. */
static uint64_t build_upload_bound(const struct core *c)
{
	const struct config *g = core_config(c);

	return g->tenant_uploads_max > g->upload_max ? g->tenant_uploads_max : g->upload_max;
}

static int build_upload_check(const struct build_upload *u, size_t len, struct err *e)
{
	if (u->row.bytes + len > core_config(u->core)->upload_max)
		return err_set(e, ERR_LIMIT, "the archive is larger than upload_max");
	if (u->by->bytes + len > build_upload_bound(u->core)) /* not yet in any row */
		return err_set_reason(e, REASON_QUOTA_BUILDS,
				      "the archives that this tenant uploads at a time are larger "
				      "than tenant_uploads_max");
	return 0;
}

/* Bytes of a refused upload are swallowed, because the client sends them before it reads the
 * answer. */
size_t build_upload_put(struct build_upload *u, const uint8_t *data, size_t len)
{
	size_t n;

	if (u->state != WRITTEN)
		return u->state == WAITS ? 0 : len;
	if (build_upload_check(u, len, &u->why) < 0) {
		set_state(u, FAILED);
		spool_cancel(&u->spool);
		loop_defer(core_loop(u->core), &u->refused);
		return len;
	}
	n = spool_put(&u->spool, data, len);
	u->row.bytes += n;
	u->by->bytes += n;
	return n;
}

bool build_upload_end(struct build_upload *u)
{
	return u->state == WRITTEN ? spool_end(&u->spool) : u->state != WAITS;
}

void build_upload_drop(struct build_upload *u)
{
	if (u == NULL)
		return;
	loop_task_cancel(core_loop(u->core), &u->refused);
	spool_cancel(&u->spool);
	fd_close(u->fd);
	if (u->state != KEPT) {
		set_state(u, FAILED);
		build_upload_leave(u);
		(void)unlinkat(builds_of(u->core)->uploads, u->row.file, 0);
		loop_defer(core_loop(u->core), &builds_of(u->core)->admit);
	}
	free(u);
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

/* Files without a row were being received when the daemon died. */
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

	b->admit = (struct loop_task){ .on_run = on_admit, .arg = b };
	b->room = (struct job){ .on_piece = on_room_piece, .arg = b };
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

void build_upload_release(struct core *c)
{
	struct builds *b = builds_of(c);
	struct uploader *by;

	loop_task_cancel(core_loop(c), &b->admit);
	core_job_cancel(c, &b->room);
	while ((by = find_over(b)) != NULL) {
		by->is_over = false;
		release_uploader(by);
	}
}
