/* unpack_capture.c - see unpack_capture.h. Such archives are made by one program, so everything
 * that it does not write is refused: a name twice, a directory that is missing, a link on the way,
 * kinds that it leaves out, owners that no cell has. */
#include "unpack_capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "member_dir.h"
#include "member_make.h"

#define PLACES_MAX 40
#define BLOCK 4096U
#define ID_MAX 65535U

struct capture {
	struct unpack_capture *u;
	struct tar_reader *reader;
	struct member_dir dir;
	unsigned places; /* that were begun */
	uint64_t members;
	bool whole;
};

/* ---- paths */

/* The number of the place that a path begins with; -1: none. *ret_rest: what follows it. */
static int place_of(const char *path, const char **ret_rest)
{
	char *end;
	unsigned long n = strtoul(path, &end, 10);

	if (path[0] < '0' || path[0] > '9' || (path[0] == '0' && end != path + 1) ||
	    end > path + 2 || (*end != '/' && *end != '\0') || n >= PLACES_MAX)
		return -1;
	*ret_rest = *end == '/' ? end + 1 : end;
	return (int)n;
}

static bool is_plain(const char *path)
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

/* A path in a place that was begun. */
static int check_path(const struct capture *c, const char *path, struct err *e)
{
	const char *rest = "";
	int place = place_of(path, &rest);

	if (place < 0 || (unsigned)place >= c->places || *rest == '\0' || !is_plain(path))
		return err_set(e, ERR_INVALID, "not a path in a place");
	return 0;
}

/* ---- places of a guest, which has one file system */

static const char *place_at(const struct capture *c, unsigned place)
{
	return c->u->at == NULL || place >= STORAGE_HOST_MAX ? "" : c->u->at[place];
}

/* "0/usr/bin" becomes "1/bin" if place 1 is /usr. Numbers have one digit: it is shorter then. */
static void move_to_place(const struct capture *c, char *path)
{
	for (unsigned i = 1; i < STORAGE_HOST_MAX && strncmp(path, "0/", 2) == 0; i++) {
		size_t n = strlen(place_at(c, i));

		if (n == 0 || strncmp(path + 2, place_at(c, i), n) != 0 ||
		    (path[2 + n] != '/' && path[2 + n] != '\0'))
			continue;
		path[0] = (char)('0' + i);
		memmove(path + 1, path + 2 + n, strlen(path + 2 + n) + 1);
	}
}

/* ---- members */

static int count(struct capture *c, uint64_t bytes, struct err *e)
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

static int make_directory(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *name;

	if (count(c, BLOCK + member_bytes(m), e) < 0 ||
	    member_dir_enter(&c->dir, m->head.path, &name, e) < 0)
		return -1;
	if (mkdirat(c->dir.fd, name, 0700) < 0)
		return member_fail(e, "make", m->head.path);
	OWN_FD fd = openat(c->dir.fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return member_fail(e, "open", m->head.path);
	return member_set_dir(fd, m, &c->u->ids, e);
}

static int make_file(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *name;

	if (count(c, member_bytes(m), e) < 0 ||
	    member_dir_enter(&c->dir, m->head.path, &name, e) < 0)
		return -1;
	return member_make_file(c->dir.fd, name, m, c->reader, &c->u->ids, e);
}

static int make_small(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *name;

	if (count(c, 0, e) < 0 || member_dir_enter(&c->dir, m->head.path, &name, e) < 0)
		return -1;
	if (m->head.type == TAR_HEAD_SYMLINK)
		return member_make_symlink(c->dir.fd, name, m, &c->u->ids, e);
	if (m->head.type == TAR_HEAD_FIFO)
		return member_make_fifo(c->dir.fd, name, m, &c->u->ids, e);
	if (m->head.major != 0 || m->head.minor != 0)
		return err_set(e, ERR_INVALID, "a device");
	return mknodat(c->dir.fd, name, S_IFCHR, 0) < 0 ? member_fail(e, "hide", m->head.path) : 0;
}

static int make_link(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *name, *target;
	int fd = -1;

	if (check_path(c, m->head.link, e) < 0 || count(c, 0, e) < 0 ||
	    member_dir_open(&c->dir, m->head.link, &target, &fd, e) < 0)
		return -1;
	OWN_FD from = fd;
	if (member_dir_enter(&c->dir, m->head.path, &name, e) < 0)
		return -1;
	return linkat(from, target, c->dir.fd, name, 0) < 0 ? member_fail(e, "link", m->head.path)
							    : 0;
}

/* The other places of a guest have the owner and mode of the first until their own come. */
static int begin_others(struct capture *c, const struct tar_member *m, struct err *e)
{
	static struct tar_member other; /* large */

	for (; place_at(c, c->places)[0] != '\0'; c->places++) {
		other = *m;
		(void)snprintf(other.head.path, sizeof(other.head.path), "%u", c->places);
		if (make_directory(c, &other, e) < 0)
			return -1;
	}
	return 0;
}

static int set_place(struct capture *c, const struct tar_member *m, struct err *e)
{
	if (member_dir_leave(&c->dir, e) < 0)
		return -1;
	OWN_FD fd =
		openat(c->u->top, m->head.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return member_fail(e, "open", m->head.path);
	return member_set_dir(fd, m, &c->u->ids, e);
}

static int begin_place(struct capture *c, const struct tar_member *m, struct err *e)
{
	const char *rest;
	int place = place_of(m->head.path, &rest);

	if (place > 0 && (unsigned)place < c->places && place_at(c, (unsigned)place)[0] != '\0')
		return set_place(c, m, e);
	if (place != (int)c->places)
		return err_set(e, ERR_INVALID, "places are out of order");
	c->places++;
	if (make_directory(c, m, e) < 0)
		return -1;
	return place == 0 ? begin_others(c, m, e) : 0;
}

static int take_entry(struct capture *c, const struct tar_member *m, struct err *e)
{
	const struct tar_head *h = &m->head;
	const char *rest;

	if (h->uid > ID_MAX || h->gid > ID_MAX)
		return err_set(e, ERR_INVALID, "owner %llu:%llu: ids are below 65536",
			       (unsigned long long)h->uid, (unsigned long long)h->gid);
	if (h->type == TAR_HEAD_DIR && place_of(h->path, &rest) >= 0 && *rest == '\0')
		return begin_place(c, m, e);
	if (check_path(c, h->path, e) < 0)
		return -1;
	switch (h->type) {
	case TAR_HEAD_DIR:
		return make_directory(c, m, e);
	case TAR_HEAD_FILE:
		return make_file(c, m, e);
	case TAR_HEAD_HARDLINK:
		return make_link(c, m, e);
	case TAR_HEAD_SYMLINK:
	case TAR_HEAD_FIFO:
	case TAR_HEAD_CHAR:
		return make_small(c, m, e);
	default:
		return err_set(e, ERR_INVALID, "a member of an unknown kind");
	}
}

/* "whole" with the number of members before it, or "failed" with a reason. */
static int take_end(struct capture *c, const struct tar_member *m, struct err *e)
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
static void cut_slash(struct tar_head *h)
{
	size_t n = strlen(h->path);

	if (h->type == TAR_HEAD_DIR && n > 1 && h->path[n - 1] == '/')
		h->path[n - 1] = '\0';
}

static int take_member(struct capture *c, struct tar_member *m, struct err *e)
{
	cut_slash(&m->head);
	if (c->whole)
		return err_set(e, ERR_INVALID, "a member behind the last one");
	if (strcmp(m->head.path, "whole") == 0 || strcmp(m->head.path, "failed") == 0)
		return take_end(c, m, e);
	c->members++;
	move_to_place(c, m->head.path);
	if (m->head.type == TAR_HEAD_HARDLINK)
		move_to_place(c, m->head.link);
	return take_entry(c, m, e) < 0 ? err_wrap(e, "%.120s", m->head.path) : 0;
}

static int take_all(struct capture *c, struct err *e)
{
	static struct tar_member m;
	int rc;

	while ((rc = tar_reader_next(c->reader, &m, e)) == 0) {
		/* Its name, its target and its attributes; then its content. */
		if (capture_search_check(c->u->search, m.head.path, e) < 0)
			return -1;
		if (take_member(c, &m, e) < 0 ||
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
		result = take_all(c, e);
	if (c->dir.fd >= 0)
		fd_close(c->dir.fd);
	tar_reader_free(c->reader);
	free(c);
	return result;
}
