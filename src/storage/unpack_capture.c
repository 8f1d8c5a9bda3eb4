/* unpack_capture.c - see unpack_capture.h. Such archives are made by one program, so everything
 * that it does not write is refused: a name twice, a missing directory, a link on the way, kinds
 * that it leaves out, owners that no cell has. */
#include "storage/unpack_capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/mask/mask.h"
#include "lib/wire/storage_msg.h"
#include "lib/wire/tar_head.h"
#include "storage/member_make.h"

/* ---- values of secrets */

#define FILE_MAX (4U << 20)
#define SHOWN_MAX (STORAGE_FOUND_PATH_MAX - 1) /* bytes of a path */

struct capture_search {
	struct mask *mask;
	struct mask_work work;
	char at[STORAGE_HOST_MAX][STORAGE_PLACE_MAX + 1];
	struct storage_found *found;  /* borrowed. NULL: a value is an error */
	uint64_t noted;		      /* of the values: their files are in found */
	char last[TAR_HEAD_PATH_MAX]; /* the last noted path */
};

static void on_bytes(void *arg, const void *bytes, size_t n)
{
	struct capture_search *s = arg;

	mask_work_count(s->mask, &s->work, bytes, n);
}

/* The next text of the file. False: there is no whole one. */
static bool search_next_text(const char **at, const char *end, const char **ret, size_t *ret_len)
{
	uint32_t n;

	if ((size_t)(end - *at) < sizeof(n))
		return false;
	memcpy(&n, *at, sizeof(n));
	if ((size_t)(end - *at) - sizeof(n) < n)
		return false;
	*ret = *at + sizeof(n);
	*ret_len = n;
	*at += sizeof(n) + n;
	return true;
}

/* First a text for each place, then the values. mask_new() keeps hashes of them only. */
static int search_read_texts(struct capture_search *s, const char *at, const char *end,
			     struct err *e)
{
	static const char *values[MASK_VALUES_MAX];
	static size_t lens[MASK_VALUES_MAX];
	const char *text;
	size_t n = 0, len;

	for (unsigned i = 0; i < STORAGE_HOST_MAX; i++) {
		if (!search_next_text(&at, end, &text, &len) || len >= sizeof(s->at[i]))
			return err_set(e, ERR_INVALID, "the file of values: malformed places");
		memcpy(s->at[i], text, len);
	}
	while (at < end) {
		if (n == MASK_VALUES_MAX || !search_next_text(&at, end, &values[n], &lens[n]))
			return err_set(e, ERR_INVALID, "the file of values: malformed");
		n++;
	}
	s->mask = mask_new(values, lens, n, NULL, 0, e);
	return s->mask == NULL ? -1 : 0;
}

static int search_read_file(struct capture_search *s, int fd, struct err *e)
{
	struct stat st;
	size_t got = 0;
	int result = -1;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "the file of values");
	if (st.st_size <= 0 || st.st_size > FILE_MAX)
		return err_set(e, ERR_INVALID, "the file of values has %lld bytes",
			       (long long)st.st_size);
	OWN_MEM char *bytes = malloc((size_t)st.st_size);
	if (bytes == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	while (got < (size_t)st.st_size) {
		ssize_t n = pread(fd, bytes + got, (size_t)st.st_size - got, (off_t)got);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	if (got < (size_t)st.st_size)
		result = err_set(e, ERR_SYSTEM, "the file of values cannot be read");
	else
		result = search_read_texts(s, bytes, bytes + got, e);
	explicit_bzero(bytes, (size_t)st.st_size);
	return result;
}

struct capture_search *capture_search_new(int fd, struct stream_in *in, struct storage_found *found,
					  struct err *e)
{
	struct capture_search *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	if (search_read_file(s, fd, e) < 0) {
		capture_search_free(s);
		return NULL;
	}
	s->found = found;
	stream_in_set_watch(in, on_bytes, s);
	return s;
}

void capture_search_free(struct capture_search *s)
{
	if (s == NULL)
		return;
	mask_work_release(&s->work);
	mask_free(s->mask);
	free(s);
}

/* "1/bin/x" is /usr/bin/x if place 1 is /usr. */
static const char *search_place_of(const struct capture_search *s, const char **path)
{
	char *end;
	unsigned long place = strtoul(*path, &end, 10);

	if (end == *path || *end != '/' || place >= STORAGE_HOST_MAX)
		return "";
	*path = end;
	return s->at[place];
}

/* The path as a cell sees it, without values. Overwritten by the next call. */
static const char *search_show(const struct capture_search *s, const char *path)
{
	static char shown[STORAGE_PLACE_MAX + TAR_HEAD_PATH_MAX + 2];
	const char *place = search_place_of(s, &path);

	/* Masked whole, then cut: a cut value is not found. */
	(void)snprintf(shown, sizeof(shown), "%s%s", place, path);
	(void)mask_text(s->mask, NULL, (uint8_t *)shown, strlen(shown));
	shown[SHOWN_MAX] = '\0';
	return shown;
}

/* Looked at before a member is made and after that: a file is noted once. */
static void search_note(struct capture_search *s, const char *path)
{
	struct storage_found *f = s->found;

	s->noted = s->work.places;
	if (f->count > 0 && strcmp(s->last, path) == 0)
		return;
	(void)snprintf(s->last, sizeof(s->last), "%s", path);
	if (f->count < STORAGE_FOUND_MAX)
		(void)snprintf(f->paths[f->count], sizeof(f->paths[0]), "%s", search_show(s, path));
	f->count++;
}

/* Note a value in the current member, or fail with REASON_SECRETS_IN_FILES. path: the member's, as
 * in the archive. s may be NULL: nothing is looked for. */
static int capture_search_check(struct capture_search *s, const char *path, struct err *e)
{
	const char *shown;

	if (s == NULL || s->work.places == s->noted)
		return 0;
	if (s->found != NULL) {
		search_note(s, path);
		return 0;
	}
	shown = search_show(s, path);
	return err_set_reason(e, REASON_SECRETS_IN_FILES,
			      "%s has a value of the session's secrets, which other sessions "
			      "would get: remove it there, or set captured_secrets to name",
			      shown);
}

#define PLACES_MAX 40
#define BLOCK 4096U
#define ID_MAX 65535U

/* One capture while it is unpacked. whole: the last member has come. */
struct capture {
	struct unpack_capture *u;
	struct tar_reader *reader;
	struct member_dir dir;
	unsigned places; /* begun */
	uint64_t members;
	bool whole;
};

/* ---- paths */

/* The number of the place that a path begins with. -1: none. *ret_rest: what follows it. */
static int capture_place_of(const char *path, const char **ret_rest)
{
	char *end;
	unsigned long n = strtoul(path, &end, 10);

	if (path[0] < '0' || path[0] > '9' || (path[0] == '0' && end != path + 1) ||
	    end > path + 2 || (*end != '/' && *end != '\0') || n >= PLACES_MAX)
		return -1;
	*ret_rest = *end == '/' ? end + 1 : end;
	return (int)n;
}

/* No empty, "." or ".." component and no slash at the end. */
static bool capture_is_plain(const char *path)
{
	for (; *path != '\0'; path += strspn(path, "/") == 1) {
		size_t n = strcspn(path, "/");

		if (n == 0 || (n == 1 && path[0] == '.') ||
		    (n == 2 && path[0] == '.' && path[1] == '.') ||
		    (path[n] == '/' && path[n + 1] == '\0'))
			return false;
		path += n;
	}
	return true;
}

/* A path in a begun place. */
static int capture_check_path(const struct capture *c, const char *path, struct err *e)
{
	const char *rest = "";
	int place = capture_place_of(path, &rest);

	if (place < 0 || (unsigned)place >= c->places || *rest == '\0' || !capture_is_plain(path))
		return err_set(e, ERR_INVALID, "not a path in a place");
	return 0;
}

/* ---- places of a guest with its one file system */

static const char *capture_place_at(const struct capture *c, unsigned place)
{
	return c->u->at == NULL || place >= STORAGE_HOST_MAX ? "" : c->u->at[place];
}

/* "0/usr/bin" becomes "1/bin" if place 1 is /usr. Numbers have one digit: it is shorter then. */
static void capture_move_to_place(const struct capture *c, char *path)
{
	for (unsigned i = 1; i < STORAGE_HOST_MAX && strncmp(path, "0/", 2) == 0; i++) {
		size_t n = strlen(capture_place_at(c, i));

		if (n == 0 || strncmp(path + 2, capture_place_at(c, i), n) != 0 ||
		    (path[2 + n] != '/' && path[2 + n] != '\0'))
			continue;
		path[0] = (char)('0' + i);
		memmove(path + 1, path + 2 + n, strlen(path + 2 + n) + 1);
	}
}

/* ---- members */

static int capture_count(struct capture *c, uint64_t bytes, struct err *e)
{
	struct layer_count *n = &c->u->count;
	uint64_t blocks = (bytes + BLOCK - 1) / BLOCK * BLOCK;

	if (n->entries >= n->entries_max)
		return err_set(e, ERR_LIMIT, "more than %llu files",
			       (unsigned long long)n->entries_max);
	if (blocks > n->bytes_max - n->bytes)
		return err_set(e, ERR_LIMIT, "more than %llu bytes of files",
			       (unsigned long long)n->bytes_max);
	n->entries++;
	n->bytes += blocks;
	return 0;
}

static int capture_make_directory(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *name;

	if (capture_count(c, BLOCK + member_bytes(m), e) < 0 ||
	    member_dir_enter(&c->dir, m->head.path, &name, e) < 0)
		return -1;
	if (mkdirat(c->dir.fd, name, 0700) < 0)
		return member_fail(e, "make", m->head.path);
	OWN_FD fd = openat(c->dir.fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return member_fail(e, "open", m->head.path);
	return member_set_dir(fd, m, &c->u->ids, e);
}

static int capture_make_file(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *name;

	if (capture_count(c, member_bytes(m), e) < 0 ||
	    member_dir_enter(&c->dir, m->head.path, &name, e) < 0)
		return -1;
	return member_make_file(c->dir.fd, name, m, c->reader, &c->u->ids, e);
}

static int capture_make_small(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *name;

	if (capture_count(c, 0, e) < 0 || member_dir_enter(&c->dir, m->head.path, &name, e) < 0)
		return -1;
	if (m->head.type == TAR_HEAD_SYMLINK)
		return member_make_symlink(c->dir.fd, name, m, &c->u->ids, e);
	if (m->head.type == TAR_HEAD_FIFO)
		return member_make_fifo(c->dir.fd, name, m, &c->u->ids, e);
	if (m->head.major != 0 || m->head.minor != 0)
		return err_set(e, ERR_INVALID, "a device");
	return mknodat(c->dir.fd, name, S_IFCHR, 0) < 0 ? member_fail(e, "hide", m->head.path) : 0;
}

/* The target must be in the layer already. A link to another place is one file on disk, too. */
static int capture_make_link(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *name, *target;
	int fd = -1;

	if (capture_check_path(c, m->head.link, e) < 0 || capture_count(c, 0, e) < 0 ||
	    member_dir_open(&c->dir, m->head.link, &target, &fd, e) < 0)
		return -1;
	OWN_FD from = fd;
	if (member_dir_enter(&c->dir, m->head.path, &name, e) < 0)
		return -1;
	return linkat(from, target, c->dir.fd, name, 0) < 0 ? member_fail(e, "link", m->head.path)
							    : 0;
}

/* The other places of a guest have the owner and mode of the first until their own come. */
static int capture_begin_others(struct capture *c, const struct tar_member *m, struct err *e)
{
	static struct tar_member other; /* large */

	for (; capture_place_at(c, c->places)[0] != '\0'; c->places++) {
		other = *m;
		(void)snprintf(other.head.path, sizeof(other.head.path), "%u", c->places);
		if (capture_make_directory(c, &other, e) < 0)
			return -1;
	}
	return 0;
}

/* The place exists since place 0. Its own owner, mode and time have come now. */
static int capture_set_place(struct capture *c, const struct tar_member *m, struct err *e)
{
	if (member_dir_leave(&c->dir, e) < 0)
		return -1;
	OWN_FD fd =
		openat(c->u->top, m->head.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return member_fail(e, "open", m->head.path);
	return member_set_dir(fd, m, &c->u->ids, e);
}

/* Places come in order of their numbers, each before its entries. */
static int capture_begin_place(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *rest;
	int place = capture_place_of(m->head.path, &rest);

	if (place > 0 && (unsigned)place < c->places &&
	    capture_place_at(c, (unsigned)place)[0] != '\0')
		return capture_set_place(c, m, e);
	if (place != (int)c->places)
		return err_set(e, ERR_INVALID, "places are out of order");
	c->places++;
	if (capture_make_directory(c, m, e) < 0)
		return -1;
	return place == 0 ? capture_begin_others(c, m, e) : 0;
}

static int capture_take_entry(struct capture *c, const struct tar_member *m, struct err *e)
{
	const struct tar_head *h = &m->head;
	const char *rest;

	if (h->uid > ID_MAX || h->gid > ID_MAX)
		return err_set(e, ERR_INVALID, "owner %llu:%llu: ids are below 65536",
			       (unsigned long long)h->uid, (unsigned long long)h->gid);
	if (h->type == TAR_HEAD_DIR && capture_place_of(h->path, &rest) >= 0 && *rest == '\0')
		return capture_begin_place(c, m, e);
	if (capture_check_path(c, h->path, e) < 0)
		return -1;
	switch (h->type) {
	case TAR_HEAD_DIR:
		return capture_make_directory(c, m, e);
	case TAR_HEAD_FILE:
		return capture_make_file(c, m, e);
	case TAR_HEAD_HARDLINK:
		return capture_make_link(c, m, e);
	case TAR_HEAD_SYMLINK:
	case TAR_HEAD_FIFO:
	case TAR_HEAD_CHAR:
		return capture_make_small(c, m, e);
	default:
		return err_set(e, ERR_INVALID, "a member of an unknown kind");
	}
}

/* "whole" with the number of members before it, or "failed" with a reason. */
static int capture_take_end(struct capture *c, const struct tar_member *m, struct err *e)
{
	char text[256], want[32];
	size_t n = 0;
	ssize_t got;

	if (m->head.type != TAR_HEAD_FILE || m->is_sparse || m->head.size >= sizeof(text))
		return err_set(e, ERR_INVALID, "a malformed last member");
	while ((got = tar_reader_body(c->reader, text + n, sizeof(text) - n, e)) > 0)
		n += (size_t)got;
	if (got < 0)
		return -1;
	text[n] = '\0';
	if (strcmp(m->head.path, "failed") == 0)
		return err_set(e, ERR_LIMIT, "the changes cannot be captured: %.200s", text);
	(void)snprintf(want, sizeof(want), "%llu", (unsigned long long)c->members);
	if (strcmp(text, want) != 0)
		return err_set(e, ERR_INVALID, "members are missing");
	c->whole = true;
	return 0;
}

/* Most programs write names of directories with a slash behind them. */
static void capture_cut_slash(struct tar_head *h)
{
	size_t n = strlen(h->path);

	if (h->type == TAR_HEAD_DIR && n > 1 && h->path[n - 1] == '/')
		h->path[n - 1] = '\0';
}

static int capture_take_member(struct capture *c, struct tar_member *m, struct err *e)
{
	capture_cut_slash(&m->head);
	if (c->whole)
		return err_set(e, ERR_INVALID, "a member behind the last one");
	if (strcmp(m->head.path, "whole") == 0 || strcmp(m->head.path, "failed") == 0)
		return capture_take_end(c, m, e);
	c->members++;
	capture_move_to_place(c, m->head.path);
	if (m->head.type == TAR_HEAD_HARDLINK)
		capture_move_to_place(c, m->head.link);
	return capture_take_entry(c, m, e) < 0 ? err_wrap(e, "%.120s", m->head.path) : 0;
}

static int capture_take_all(struct capture *c, struct err *e)
{
	static struct tar_member m;
	int rc;

	while ((rc = tar_reader_next(c->reader, &m, e)) == 0) {
		/* Its name, its target and its attributes. Then its content. */
		if (capture_search_check(c->u->search, m.head.path, e) < 0)
			return -1;
		if (capture_take_member(c, &m, e) < 0 ||
		    capture_search_check(c->u->search, m.head.path, e) < 0)
			return -1;
	}
	if (rc < 0)
		return -1;
	if (!c->whole || c->places == 0)
		return err_set(e, ERR_INVALID, "the archive of changes was cut short");
	return member_dir_leave(&c->dir, e);
}

int unpack_capture(struct stream_in *in, struct unpack_capture *u, struct err *e)
{
	struct capture *c = calloc(1, sizeof(*c));
	int result = -1;

	if (c == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	c->u = u;
	member_dir_init(&c->dir, u->top);
	c->reader = tar_reader_new(in, e);
	if (c->reader != NULL)
		result = capture_take_all(c, e);
	if (c->dir.fd >= 0)
		fd_close(c->dir.fd);
	tar_reader_free(c->reader);
	free(c);
	return result;
}
