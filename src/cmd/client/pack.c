/* pack.c - see pack.h. One recursive walk writes heads and bodies in the order of the directory.
 * The names come from the local disk and may change at any moment, so every open is relative to
 * the directory above and follows no link. */
#include "cmd/client/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cmd/client/show.h"
#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/wire/tar_head.h"

#define DEPTH_MAX 64 /* the server's limit */
#define SKIPPED 3    /* exit status of the child */

/* One walk over a directory. path is relative to its top, grows with each level and is cut again
 * behind it. */
struct pack {
	int to;
	bool skipped;
	pack_fn *keeps; /* NULL: all */
	void *arg;
	uint64_t files; /* other than directories */
	char path[TAR_HEAD_PATH_MAX];
};

/* For padding, the end marker, and files that became shorter. */
static int put_zeros(struct pack *p, uint64_t len, struct err *e)
{
	static const char zeros[65536];

	for (; len > 0; len -= len < sizeof(zeros) ? len : sizeof(zeros))
		if (io_write_all(p->to, zeros, len < sizeof(zeros) ? (size_t)len : sizeof(zeros),
				 e) < 0)
			return -1;
	return 0;
}

/* A head that does not fit into ustar gets a pax header before it. Owners are left out: the
 * server gives all to the session's user. */
static int put_head(struct pack *p, const struct tar_head *h, struct err *e)
{
	static struct tar_head pax = { .type = TAR_HEAD_PAX, .mode = 0644, .path = "PaxHeader" };
	static char body[2 * TAR_HEAD_PATH_MAX + 128];
	uint8_t block[TAR_HEAD_BLOCK], first[TAR_HEAD_BLOCK];

	if (!tar_head_write(h, block)) {
		pax.size = tar_head_pax_write(h, body, sizeof(body));
		if (!tar_head_write(&pax, first))
			return err_set(e, ERR_LIMIT, "pax header does not fit");
		if (io_write_all(p->to, first, sizeof(first), e) < 0 ||
		    io_write_all(p->to, body, (size_t)pax.size, e) < 0 ||
		    put_zeros(p, tar_head_padding(pax.size), e) < 0)
			return -1;
	}
	return io_write_all(p->to, block, sizeof(block), e);
}

/* An entry that cannot be packed is named and left out. The rest is still useful. */
static int pack_skip(struct pack *p, const char *why)
{
	p->skipped = true;
	(void)fputs("cordon: left out: ", stderr);
	show_text(p->path, stderr);
	(void)fprintf(stderr, ": %s\n", why);
	return 0;
}

/* A file that shrinks in the meantime is filled up with zeros, as tar(1) does: its length stands
 * in the head already. One that grows is cut at that length. O_NONBLOCK keeps a FIFO in the
 * place of the file from blocking. */
static int put_file(struct pack *p, int dir, const char *name, struct tar_head *h, struct err *e)
{
	static char buffer[65536];
	struct stat st;
	uint64_t left;
	OWN_FD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return pack_skip(p, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return pack_skip(p, "no longer a file");
	h->type = TAR_HEAD_FILE;
	h->size = left = (uint64_t)st.st_size;
	if (put_head(p, h, e) < 0)
		return -1;
	while (left > 0) {
		ssize_t n = read(fd, buffer, left < sizeof(buffer) ? (size_t)left : sizeof(buffer));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (io_write_all(p->to, buffer, (size_t)n, e) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	if (left > 0)
		(void)pack_skip(p, "it became shorter; padded with zeros");
	return put_zeros(p, left + tar_head_padding(h->size), e);
}

static int put_directory(struct pack *p, int fd, unsigned depth, struct err *e);

/* Links are packed as links and never followed, so nothing outside of the directory is read. */
static int put_entry(struct pack *p, int dir, const char *name, unsigned depth, struct err *e)
{
	static struct tar_head h;
	struct stat st;
	ssize_t n;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return pack_skip(p, strerror(errno));
	if (p->keeps != NULL && !p->keeps(p->path, S_ISDIR(st.st_mode), p->arg))
		return 0;
	p->files += !S_ISDIR(st.st_mode);
	h = (struct tar_head){ .mode = st.st_mode & 0777, .mtime = st.st_mtim.tv_sec };
	str_copy(h.path, p->path);
	if (S_ISREG(st.st_mode))
		return put_file(p, dir, name, &h, e);
	if (S_ISDIR(st.st_mode)) {
		OWN_FD fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0 || depth == DEPTH_MAX)
			return pack_skip(p, fd < 0 ? strerror(errno) : "too deep");
		h.type = TAR_HEAD_DIR;
		h.path[strlen(h.path) + 1] = '\0';
		h.path[strlen(h.path)] = '/';
		return put_head(p, &h, e) < 0 ? -1 : put_directory(p, TAKE_FD(fd), depth + 1, e);
	}
	n = S_ISLNK(st.st_mode) ? readlinkat(dir, name, h.link, sizeof(h.link) - 1) : -1;
	if (n < 0)
		return pack_skip(p,
				 S_ISLNK(st.st_mode) ? strerror(errno) : "neither file nor link");
	h.link[n] = '\0';
	h.type = TAR_HEAD_SYMLINK;
	return put_head(p, &h, e);
}

/* Take fd. The order is that of readdir(), so two archives of the same files may differ in their
 * order. */
static int put_directory(struct pack *p, int fd, unsigned depth, struct err *e)
{
	size_t at = strlen(p->path);
	DIR *d = fdopendir(fd);
	struct dirent *entry;
	int result = 0;

	if (d == NULL) {
		fd_close(fd);
		return err_sys(e, "read directory %.150s", p->path);
	}
	while (result == 0 && (entry = readdir(d)) != NULL) {
		const char *name = entry->d_name;
		int n;

		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		n = snprintf(p->path + at, sizeof(p->path) - at, "%s%s", at > 0 ? "/" : "", name);
		/* One byte more for the slash that a directory gets. */
		if (n < 0 || at + (size_t)n + 2 > sizeof(p->path))
			result = pack_skip(p, "the path is too long");
		else
			result = put_entry(p, fd, name, depth, e);
		p->path[at] = '\0';
	}
	(void)closedir(d);
	return result;
}

/* In the child. Its messages go to stderr at once. The status tells the parent the rest. */
static void NORETURN write_archive(int dir, int to)
{
	static struct pack p;
	struct err e = { 0 };

	p.to = to;
	if (put_directory(&p, dir, 0, &e) < 0 ||
	    put_zeros(&p, 2 * (uint64_t)TAR_HEAD_BLOCK, &e) < 0) {
		/* A broken pipe is reported by the other side. */
		if (e.sys != EPIPE)
			(void)fprintf(stderr, "cordon: %s\n", e.msg);
		_exit(1);
	}
	_exit(p.skipped ? SKIPPED : 0);
}

/* In this process, for archives that go to memory or a file and cannot block. */
int pack_write(int to, const char *dir, pack_fn *keeps, void *arg, uint64_t *ret_files,
	       struct err *e)
{
	static struct pack p;
	int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (top < 0)
		return err_sys(e, "%.150s", dir);
	p = (struct pack){ .to = to, .keeps = keeps, .arg = arg };
	if (put_directory(&p, top, 0, e) < 0 || put_zeros(&p, 2 * (uint64_t)TAR_HEAD_BLOCK, e) < 0)
		return -1;
	*ret_files = p.files;
	return 0;
}

/* In a child, because the request reads the pipe while the archive grows. The descriptors are
 * close-on-exec, and the child executes nothing. */
int pack_start(const char *dir, pid_t *ret_child, struct err *e)
{
	int ends[2];
	OWN_FD top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (top < 0)
		return err_sys(e, "%.150s", dir);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	(void)fflush(stdout);
	*ret_child = fork();
	if (*ret_child < 0)
		return err_sys(e, "fork");
	if (*ret_child == 0) {
		fd_close(TAKE_FD(from));
		write_archive(TAKE_FD(top), to);
	}
	return TAKE_FD(from);
}

/* SKIPPED is a success with exceptions. */
int pack_end(pid_t child, bool *ret_skipped, struct err *e)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait");
	*ret_skipped = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
	if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && !*ret_skipped))
		return err_set(e, ERR_SYSTEM, "the directory could not be read to its end");
	return 0;
}
