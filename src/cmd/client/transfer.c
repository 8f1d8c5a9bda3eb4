/* transfer.c - see transfer.h. First the unpacking of untrusted archives, then requests for
 * single files and trees in both directions.
 *
 * Downloads are bounded by max_bytes and replace their target only when they are whole. Uploads
 * read local files as they are at that time. */
#include "cmd/client/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "cmd/client/compose.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/pack.h"
#include "cmd/client/progress.h"
#include "cmd/client/saved_file.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/units.h"
#include "lib/wire/tar_head.h"

/* ---- unpack: a tar archive from a cell becomes files below a directory of this machine
 *
 * Programs in the cell chose the names and contents, and this program may run as root. So every
 * entry is opened from the target directory, component by component, with openat2(2) flags that
 * follow no link on the way. ".." is refused. Only files, directories and symbolic links are made.
 * They belong to the caller, and setuid bits are dropped. A symbolic link is created as it is and
 * never followed here, not even one that existed before, unless it is the target directory itself.
 *
 * Only the formats that the server writes are read: ustar headers and pax extensions. */

/* The next bytes of the archive, as they come: > 0, 0 at the end, -1 with e set. */
typedef ssize_t unpack_read_fn(void *arg, void *buf, size_t cap, struct err *e);

struct unpack_count {
	uint64_t files, directories, links, skipped;
};

/* Every directory below the target is opened with these flags: neither "..", nor a link, nor a
 * link of /proc can lead outside. */
#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
/* Components of one path. */
#define PARTS_MAX 128

/* One archive on its way to files. mask is the umask of the caller, which the modes respect. */
struct unpack {
	int top;
	unpack_read_fn *read;
	void *arg;
	struct unpack_count *count;
	mode_t mask;
};

/* Short reads are usual on a network. The end of input within an entry is an error, so a cut
 * archive is never taken for a whole one. */
static int read_exactly(struct unpack *u, void *ret, size_t len, struct err *e)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = u->read(u->arg, (char *)ret + at, len - at, e);

		if (n < 0)
			return -1;
		if (n == 0)
			return err_set(e, ERR_INVALID, "the archive ends too early");
		at += (size_t)n;
	}
	return 0;
}

/* The body and its padding, to fd, or nowhere if it is -1. */
static int read_body(struct unpack *u, uint64_t size, int fd, struct err *e)
{
	static char buffer[65536];

	for (uint64_t left = size; left > 0;) {
		size_t n = left < sizeof(buffer) ? (size_t)left : sizeof(buffer);

		if (read_exactly(u, buffer, n, e) < 0 ||
		    (fd >= 0 && saved_file_put(fd, buffer, n, e) < 0))
			return -1;
		left -= n;
	}
	return read_exactly(u, buffer, tar_head_padding(size), e);
}

/* 1: *ret is an entry. 0: the end marker. A pax header replaces fields of the entry behind it.
 * Only one is accepted for an entry, and its size is bounded. Directories and links have no
 * body. */
static int next_entry(struct unpack *u, struct tar_head *ret, struct err *e)
{
	static char body[TAR_HEAD_PAX_MAX + TAR_HEAD_BLOCK];
	struct tar_head_pax pax = { 0 };
	uint8_t block[TAR_HEAD_BLOCK];
	int n;

	for (;;) {
		if (read_exactly(u, block, sizeof(block), e) < 0)
			return -1;
		n = tar_head_read(block, ret, e);
		if (n != 0)
			return n < 0 ? -1 : 0;
		if (ret->type != TAR_HEAD_PAX)
			break;
		if (ret->size > TAR_HEAD_PAX_MAX || pax.path != NULL || pax.link != NULL)
			return err_set(e, ERR_INVALID,
				       "the archive has an extended header that is too large");
		if (read_exactly(u, body, (size_t)ret->size + tar_head_padding(ret->size), e) < 0 ||
		    tar_head_pax_read(body, (size_t)ret->size, &pax, e) < 0)
			return -1;
	}
	if (pax.path != NULL)
		memcpy(ret->path, pax.path, strlen(pax.path) + 1);
	if (pax.link != NULL)
		memcpy(ret->link, pax.link, strlen(pax.link) + 1);
	if (pax.has_size)
		ret->size = pax.size;
	if (ret->type == TAR_HEAD_DIR || ret->type == TAR_HEAD_SYMLINK)
		ret->size = 0;
	return 1;
}

/* The directory below at with this name, made if it is missing. */
static int transfer_step(int at, const char *name)
{
	if (mkdirat(at, name, 0777) < 0 && errno != EEXIST)
		return -1;
	return kernel_openat2(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, BENEATH);
}

/* Take the path apart: open the directory of its last part (owned by the caller) and name that,
 * "" if there is none. The path is written to. Missing directories on the way are made, since an
 * archive need not list them. */
static int transfer_find(struct unpack *u, char *path, const char **ret_name, struct err *e)
{
	OWN_FD at = fcntl(u->top, F_DUPFD_CLOEXEC, 3);
	char *name = path + strspn(path, "/");

	for (int parts = 0; at >= 0; parts++) {
		size_t n = strcspn(name, "/"), gap = strspn(name + n, "/");
		bool last = name[n + gap] == '\0', here = n == 1 && *name == '.';
		int next;

		name[n] = '\0';
		if (strcmp(name, "..") == 0 || n > NAME_MAX || parts == PARTS_MAX)
			return err_set(
				e, ERR_INVALID,
				"the archive has an entry whose path has '..' or is too long");
		if (last) {
			*ret_name = here ? "" : name;
			return TAKE_FD(at);
		}
		next = here ? fcntl(at, F_DUPFD_CLOEXEC, 3) : transfer_step(at, name);
		fd_close(at);
		at = next;
		name += n + gap;
	}
	return err_sys(e, "open the directory of an entry");
}

/* An existing directory is used and gets the mode of the entry. */
static int unpack_make_directory(const struct unpack *u, int dir, const char *name,
				 const struct tar_head *h, struct err *e)
{
	OWN_FD fd = transfer_step(dir, name);

	/* Writable for its owner, so that later entries can be created in it. */
	if (fd < 0 || fchmod(fd, ((h->mode & 0777) | 0700) & ~u->mask) < 0)
		return err_sys(e, "make directory '%.100s'", name);
	u->count->directories++;
	return 0;
}

/* A file or link in the way is removed and never written through: it may be a link to somewhere
 * else. A directory in the way is an error. */
static int transfer_clear(int dir, const char *name, struct err *e)
{
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return err_sys(e, "replace '%.100s'", name);
	return 0;
}

/* O_EXCL after the removal: what another program puts there in between is not followed. The mode
 * comes last, so that a file is closed to others while it grows. */
static int make_file(struct unpack *u, int dir, const char *name, const struct tar_head *h,
		     struct err *e)
{
	const struct timespec times[2] = { { 0, UTIME_NOW }, { h->mtime, 0 } };

	if (transfer_clear(dir, name, e) < 0)
		return -1;
	OWN_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "make '%.100s'", name);
	if (read_body(u, h->size, fd, e) < 0)
		return -1;
	if (ftruncate(fd, (off_t)h->size) < 0)
		return err_sys(e, "set length of '%.100s'", name);
	if (fchmod(fd, h->mode & 0777 & ~u->mask) < 0 || futimens(fd, times) < 0)
		return err_sys(e, "set mode of '%.100s'", name);
	u->count->files++;
	return 0;
}

/* Entries of other kinds are counted and skipped. The body of each is read to its end in any
 * case. */
static int make_entry(struct unpack *u, struct tar_head *h, struct err *e)
{
	const char *name = "";
	OWN_FD dir = -1;

	if (h->type != TAR_HEAD_FILE && h->type != TAR_HEAD_DIR && h->type != TAR_HEAD_SYMLINK) {
		u->count->skipped++;
		return read_body(u, h->size, -1, e);
	}
	dir = transfer_find(u, h->path, &name, e);
	if (dir < 0)
		return -1;
	if (*name == '\0' && h->type == TAR_HEAD_DIR)
		return 0; /* the top itself */
	if (*name == '\0')
		return err_set(e, ERR_INVALID, "the archive has an entry without a name");
	if (h->type == TAR_HEAD_DIR)
		return unpack_make_directory(u, dir, name, h, e);
	if (h->type == TAR_HEAD_FILE)
		return make_file(u, dir, name, h, e);
	if (transfer_clear(dir, name, e) < 0)
		return -1;
	if (symlinkat(h->link, dir, name) < 0)
		return err_sys(e, "make link '%.100s'", name);
	u->count->links++;
	return 0;
}

/* Extract below the directory top (borrowed). Files extracted before an error stay. umask(2) can
 * be read only by setting it. */
static int unpack_tree(int top, unpack_read_fn *read, void *arg, struct unpack_count *ret,
		       struct err *e)
{
	static struct tar_head h;
	struct unpack u = { .top = top, .read = read, .arg = arg, .count = ret };
	char rest[4096];
	int n;

	u.mask = umask(0);
	(void)umask(u.mask);
	*ret = (struct unpack_count){ 0 };
	while ((n = next_entry(&u, &h, e)) > 0)
		if (make_entry(&u, &h, e) < 0)
			return -1;
	if (n < 0)
		return -1;
	/* The second block of the end marker, and whatever fills up the last record. */
	for (uint64_t total = 0; (n = (int)read(arg, rest, sizeof(rest), e)) > 0;) {
		total += (uint64_t)n;
		if (total > (1U << 20))
			return err_set(e, ERR_INVALID, "the archive has no end marker");
	}
	return n < 0 ? -1 : 0;
}

/* "/v1/sessions/{id}/files[/part]?path=...&user=..." */
static void place_target(struct target *t, const struct transfer_place *p, const char *part)
{
	id_match_target(t, p->session, "files");
	if (part != NULL)
		target_part(t, part);
	target_query(t, "path", p->path);
	target_query(t, "user", p->user);
}

/* A missing file is a kind and no error. All other refusals are errors. Links are followed,
 * because a copy means the file behind them. */
int transfer_stat(struct api_call *a, const struct transfer_place *p, enum transfer_kind *ret,
		  unsigned *ret_mode, struct err *e)
{
	OWN_JSON *entry = NULL;
	struct target t;
	const char *type;

	place_target(&t, p, "stat");
	target_query(&t, "follow", "true");
	*ret = TRANSFER_MISSING;
	if (api_call_json(a, "GET", &t, NULL, &entry, e) < 0)
		return a->status == 404 && strcmp(a->code, "file_not_found") == 0 ? 0 : -1;
	type = member_text(entry, "type", "");
	if (ret_mode != NULL)
		*ret_mode = (unsigned)strtoul(member_text(entry, "mode", "0644"), NULL, 8);
	*ret = strcmp(type, "file") == 0	? TRANSFER_FILE
	       : strcmp(type, "directory") == 0 ? TRANSFER_DIRECTORY
						: TRANSFER_OTHER;
	return 0;
}

/* A body that shows its progress. */
struct upload_source {
	int fd;
	struct progress progress;
};

static ssize_t transfer_feed(void *arg, void *buf, size_t cap, struct err *e)
{
	struct upload_source *f = arg;
	ssize_t n;

	do
		n = read(f->fd, buf, cap);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "read %.150s", f->progress.name);
	progress_add(&f->progress, (size_t)n);
	return n;
}

/* The server's description of the written entry. *ret is NULL if there is none. */
static int answer_of(struct api_call *a, json_t **ret, struct err *e)
{
	OWN_MEM char *text = NULL;
	size_t len = 0;

	*ret = NULL;
	if (client_read_all(a->client, API_CALL_ANSWER_MAX, &text, &len, e) < 0)
		return -1;
	*ret = len == 0 ? NULL : json_loadb(text, len, 0, NULL);
	return 0;
}

/* The mode of a regular file is sent, without setuid bits. Anything else that can be read has no
 * length, and its body ends with its input. The caller closes fd. */
int transfer_send_file(struct api_call *a, const struct transfer_place *p, int fd, const char *name,
		       json_t **ret, struct err *e)
{
	struct upload_source f = { .fd = fd };
	struct client_request r = { .method = "PUT",
				    .type = "application/octet-stream",
				    .source = transfer_feed,
				    .source_arg = &f };
	struct target t;
	struct stat st;
	char mode[8];
	int result;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "%.150s", name);
	place_target(&t, p, NULL);
	if (S_ISREG(st.st_mode)) {
		(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)(st.st_mode & 0777));
		target_query(&t, "mode", mode);
		r.source_len = (uint64_t)st.st_size;
		if (st.st_size == 0)
			r.source = NULL;
	}
	progress_init(&f.progress, name, S_ISREG(st.st_mode) ? r.source_len : UINT64_MAX);
	result = api_call_send(a, &r, &t, e);
	progress_end(&f.progress);
	return result < 0 ? -1 : answer_of(a, ret, e);
}

/* An existing directory is no error. */
static int make_directory(struct api_call *a, const struct transfer_place *p, struct err *e)
{
	OWN_JSON *body = json_object();
	struct target t;

	id_match_target(&t, p->session, "files");
	target_part(&t, "mkdir");
	if (compose_text(body, "path", "the path", p->path, e) < 0 ||
	    compose_text(body, "user", "--user", p->user, e) < 0)
		return -1;
	if (json_object_set_new(body, "parents", json_true()) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return api_call_json(a, "POST", &t, body, NULL, e);
}

/* The child packs while the request reads. Both have to succeed: an archive cut short by a
 * failure of the child has no end marker, and the server refuses it. An error of the request
 * counts first. */
int transfer_send_tree(struct api_call *a, const struct transfer_place *p, const char *dir,
		       json_t **ret, struct err *e)
{
	struct upload_source f = { .fd = -1 };
	struct client_request r = { .method = "PUT",
				    .type = "application/x-tar",
				    .source = transfer_feed,
				    .source_arg = &f };
	struct err unread = { 0 };
	struct target t;
	bool skipped = false;
	pid_t child = -1;
	int sent, read;

	if (make_directory(a, p, e) < 0)
		return -1;
	f.fd = pack_start(dir, &child, e);
	if (f.fd < 0)
		return -1;
	place_target(&t, p, "tar");
	progress_init(&f.progress, dir, UINT64_MAX);
	sent = api_call_send(a, &r, &t, e);
	progress_end(&f.progress);
	fd_close(f.fd);
	read = pack_end(child, &skipped, &unread);
	if (sent < 0)
		return -1;
	if (read < 0) {
		*e = unread;
		return -1;
	}
	return answer_of(a, ret, e);
}

/* The body of an answer, with the bound that the user gave. A cell can send a file of holes that
 * is far larger than this machine's disk. */
struct drain {
	struct api_call *a;
	uint64_t max; /* bytes that may come. 0: any number */
	struct progress progress;
};

static int too_long(const char *name, uint64_t max, struct err *e)
{
	char text[32];

	units_format_bytes(max, text, sizeof(text));
	return err_set(e, ERR_LIMIT, "%.150s: more than %s; --max-size allows more", name, text);
}

/* The bound is checked after each piece, because the length in the head is the server's word. */
static ssize_t transfer_drain(void *arg, void *buf, size_t cap, struct err *e)
{
	struct drain *d = arg;
	ssize_t n = client_read(d->a->client, buf, cap, e);

	if (n <= 0)
		return n;
	progress_add(&d->progress, (size_t)n);
	if (d->max > 0 && d->progress.done > d->max)
		return too_long(d->progress.name, d->max, e);
	return n;
}

/* Begin to read the body of the answer, unless its length is above the limit. */
static int drain_begin(struct drain *d, const char *name, struct err *e)
{
	uint64_t length = client_length(d->a->client);

	if (d->max > 0 && length != UINT64_MAX && length > d->max)
		return too_long(name, d->max, e);
	progress_init(&d->progress, name, length);
	return 0;
}

/* Where bytes of a body go. */
typedef int put_fn(void *to, const void *bytes, size_t n, struct err *e);

static int put_fd(void *to, const void *bytes, size_t n, struct err *e)
{
	return io_write_all(*(const int *)to, bytes, n, e);
}

static int put_saved(void *to, const void *bytes, size_t n, struct err *e)
{
	return saved_file_write(to, bytes, n, e);
}

/* Read all of the body, and give it to `put`. */
static int drain_all(struct drain *d, const char *name, put_fn *put, void *to, struct err *e)
{
	static char buffer[65536];
	ssize_t n;
	int result = 0;

	if (drain_begin(d, name, e) < 0)
		return -1;
	while (result == 0 && (n = transfer_drain(d, buffer, sizeof(buffer), e)) != 0)
		result = n < 0 ? -1 : put(to, buffer, (size_t)n, e);
	progress_end(&d->progress);
	return result;
}

/* The mode from the server, without setuid, setgid and sticky bits. */
static mode_t mode_of_answer(struct api_call *a)
{
	char text[16];
	mode_t mask = umask(0);
	unsigned mode = 0;

	(void)umask(mask);
	if (!client_header(a->client, "X-Cordon-Mode", text, sizeof(text)))
		return 0666 & ~mask;
	for (const char *c = text; *c >= '0' && *c <= '7'; c++)
		mode = (mode << 3 | (unsigned)(*c - '0')) & 07777;
	return mode & 0777 & ~mask;
}

/* The target is replaced when all has arrived, and is untouched after an error. */
static int transfer_save(struct drain *d, const char *to, struct err *e)
{
	struct saved_file f;
	int result = -1;

	if (saved_file_open(&f, to, e) == 0 && drain_all(d, to, put_saved, &f, e) == 0)
		result = saved_file_commit(&f, mode_of_answer(d->a), e);
	saved_file_release(&f);
	return result;
}

/* Without a name the bytes go to stdout. An existing device or pipe is written to. */
int transfer_get_file(struct api_call *a, const struct transfer_place *p, const char *to,
		      struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct drain d = { .a = a, .max = p->max_bytes };
	int out = STDOUT_FILENO;
	struct target t;
	struct stat st;

	place_target(&t, p, NULL);
	if (api_call_send(a, &r, &t, e) < 0)
		return -1;
	if (to == NULL)
		return drain_all(&d, p->path, put_fd, &out, e);
	/* A device or pipe is written to, not replaced. */
	if (stat(to, &st) < 0 || S_ISREG(st.st_mode))
		return transfer_save(&d, to, e);
	OWN_FD fd = open(to, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "%.150s", to);
	return drain_all(&d, to, put_fd, &fd, e);
}

int transfer_get_tar(struct api_call *a, const struct transfer_place *p, int to, struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct drain d = { .a = a, .max = p->max_bytes };
	struct target t;

	place_target(&t, p, "tar");
	if (api_call_send(a, &r, &t, e) < 0)
		return -1;
	return drain_all(&d, p->path, put_fd, &to, e);
}

/* The directory is made before the request, so a name that cannot be used costs no transfer.
 * Skipped entries are counted in one line. */
int transfer_get_tree(struct api_call *a, const struct transfer_place *p, const char *to,
		      struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct drain d = { .a = a, .max = p->max_bytes };
	struct unpack_count count;
	int out = STDOUT_FILENO;
	struct target t;
	int result;

	place_target(&t, p, "tar");
	if (to != NULL && mkdir(to, 0777) < 0 && errno != EEXIST)
		return err_sys(e, "%.150s", to);
	OWN_FD top = to == NULL ? -1 : open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to != NULL && top < 0)
		return err_sys(e, "%.150s", to);
	if (api_call_send(a, &r, &t, e) < 0)
		return -1;
	if (to == NULL)
		return drain_all(&d, p->path, put_fd, &out, e);
	progress_init(&d.progress, to, UINT64_MAX);
	result = unpack_tree(top, transfer_drain, &d, &count, e);
	progress_end(&d.progress);
	if (result == 0 && count.skipped > 0)
		(void)fprintf(stderr, "cordon: %llu entries left out: neither file nor link\n",
			      (unsigned long long)count.skipped);
	return result;
}
