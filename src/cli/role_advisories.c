/* role_advisories.c - gives each cordon-egress the list of packages that are known as malicious
 * (packages/advisories.h), when it starts and whenever the file in the state directory has changed.
 *
 * The program has no files, so it gets a descriptor, as of resolv.conf. The list is long, and is
 * looked up in a mapping: it is copied once into sealed memory that all processes share, so that
 * no process can cut it short below them. Called by the supervisor's loop; the file is an
 * operator's, but the directory may be the server's user's, so the path may lead to anything. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "io.h"
#include "log.h"
#include "supervisor.h"

#define LOOK_MS 5000
#define LIST_MAX (256LL << 20)

/* The last file that was copied; an absent one has a stamp of zeroes. */
static struct {
	struct file_stamp stamp;
	int fd; /* owned; -1: none, or an empty one is to be sent */
} list = { .fd = -1 };

static struct file_stamp stamp_of(const struct stat *st)
{
	return (struct file_stamp){ .device = st->st_dev,
				    .file = st->st_ino,
				    .size = st->st_size,
				    .s = st->st_mtim.tv_sec,
				    .ns = st->st_mtim.tv_nsec };
}

static bool is_same(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->device == b->device && a->file == b->file && a->size == b->size && a->s == b->s &&
	       a->ns == b->ns;
}

static int copy(int from, int to, off_t size)
{
	while (size > 0) {
		ssize_t n = sendfile(to, from, NULL, (size_t)size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		size -= n;
	}
	return fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

/* A sealed copy, empty without a file; -1: it cannot be made. */
static int make_copy(const char *path, struct file_stamp *ret)
{
	OWN_FD file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	OWN_FD to = memfd_create("advisories", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st = { 0 };

	*ret = (struct file_stamp){ 0 };
	if (file >= 0 && fstat(file, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= LIST_MAX)
		*ret = stamp_of(&st);
	if (to < 0 || copy(file, to, ret->size) < 0)
		return -1;
	return TAKE_FD(to);
}

/* The list as it is now, copied again only if the file has changed. */
static int current(const char *path)
{
	struct stat st;
	struct file_stamp now = { 0 };

	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= LIST_MAX)
		now = stamp_of(&st);
	if (list.fd >= 0 && is_same(&now, &list.stamp))
		return list.fd;
	fd_close(list.fd);
	list.fd = make_copy(path, &list.stamp);
	if (list.fd < 0)
		log_warn("the list of advisories cannot be copied", "path=%s", path);
	return list.fd;
}

uint64_t role_advisories_look(struct supervisor *v, struct worker *w)
{
	const char word = EGRESS_CONTROL_ADVISORIES;
	uint64_t now = clock_now_ns();
	char path[256];
	struct err e;
	int fd;

	if (w->control < 0)
		return UINT64_MAX;
	if (now < w->list_ns)
		return w->list_ns;
	w->list_ns = now + LOOK_MS * CLOCK_MS;
	(void)snprintf(path, sizeof(path), "%.200s/advisories", v->s->config.state_dir);
	fd = current(path);
	if (fd < 0 || is_same(&w->list, &list.stamp))
		return w->list_ns;
	if (io_send(w->control, &word, 1, &fd, 1, &e) < 0)
		log_warn("cannot send the list of advisories", "error=%s", e.msg);
	else
		w->list = list.stamp;
	return w->list_ns;
}

void role_advisories_forget(struct worker *w)
{
	w->list = (struct file_stamp){ 0 };
	w->list_ns = 0;
}
