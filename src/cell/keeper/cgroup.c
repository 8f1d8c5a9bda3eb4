/* cgroup.c - a cell's cgroup: makes, limits, enters, finds, freezes, kills and removes it. See
 * cgroup.h.
 *
 * After its creation a cell's cgroup is found by the name of its directory only, so a keeper can
 * work on cells that another keeper made. Names come from checked requests (keeper_msg_check()) and
 * have no '/'. */
#include "cell/keeper/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "lib/base/io.h"
#include "lib/base/kernel.h"

#define FREEZE_MS 200

struct cgroup_name {
	char text[sizeof(CELL_CGROUP_PREFIX) + CELL_ID_MAX + 16];
};

/* The cell's directory, or a file in it if file begins with '/'. */
static struct cgroup_name cgroup_name(const char *id, const char *file)
{
	struct cgroup_name n;

	(void)snprintf(n.text, sizeof(n.text), CELL_CGROUP_PREFIX "%s%s", id, file);
	return n;
}

void cgroup_release(struct cgroup *g)
{
	io_close_all((int *)g, sizeof(*g) / sizeof(int));
}

/* Between mkdir and flock another program's cgroups_sweep() may take the directory for one that no
 * keeper holds. It removes only directories that it has locked. So when the lock is held here,
 * either the directory is still there and stays, or it was removed and is made again. */
static int cgroup_make_dir(int parent, const char *name, mode_t mode, int *ret_fd, struct err *e)
{
	for (int tries = 0; tries < 8; tries++) {
		struct stat ours, there;

		if (mkdirat(parent, name, mode) < 0) {
			(void)err_sys(e, "mkdir cgroup %s", name);
			e->code = e->sys == EEXIST ? ERR_CONFLICT : e->code;
			return -1;
		}
		OWN_FD fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && flock(fd, LOCK_SH) == 0 && fstat(fd, &ours) == 0 &&
		    fstatat(parent, name, &there, 0) == 0 && ours.st_ino == there.st_ino) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
	}
	return err_set(e, ERR_CONFLICT, "cgroup %s: another process keeps removing it", name);
}

static int cgroup_write_limits(const struct cgroup_parents *p, const struct cgroup *g,
			       const struct cell_limits *l, struct err *e)
{
	for (unsigned i = 0; i < p->how->nfiles; i++) {
		const struct keeper_limit_file *f = &p->how->files[i];
		uint64_t value;
		char text[24];

		memcpy(&value, (const char *)l + f->limit, sizeof(value));
		if (value == 0 ||
		    (f->optional != 0 && faccessat(g->dirs[f->dir], f->name, F_OK, 0) < 0))
			continue;
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)(value * f->times));
		if (io_write_file(g->dirs[f->dir], f->name, text, e) < 0)
			return -1;
	}
	return 0;
}

static int cgroup_make(const struct cgroup_parents *p, unsigned i, const char *name, mode_t mode,
		       struct cgroup *ret, struct err *e)
{
	if (p->dirs[i] < 0)
		return 0;
	if (cgroup_make_dir(p->dirs[i], name, mode, &ret->dirs[i], e) < 0)
		return -1;
	if (p->how->enter[0] == '\0' || i == p->how->unified)
		return 0;
	ret->enter[i] = openat(ret->dirs[i], p->how->enter, O_WRONLY | O_CLOEXEC);
	return ret->enter[i] < 0 ? err_sys(e, "open %s", p->how->enter) : 0;
}

int cgroup_create(const struct cgroup_parents *p, const struct keeper_create *r, struct cgroup *ret,
		  struct err *e)
{
	struct cgroup_name name = cgroup_name(r->id, "");
	mode_t mode = (r->flags & CELL_LINGER) != 0 ? 01755 : 0755;
	int result = 0;

	for (unsigned i = 0; result == 0 && i < CELL_CGROUP_DIRS; i++)
		result = cgroup_make(p, i, name.text, mode, ret, e);
	if (result == 0 && cgroup_write_limits(p, ret, &r->limits, e) == 0)
		return 0;
	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++)
		if (ret->dirs[i] >= 0)
			(void)unlinkat(p->dirs[i], name.text, AT_REMOVEDIR);
	cgroup_release(ret);
	return -1;
}

int cgroup_limit_disk(const struct cgroup *g, dev_t device, const struct cell_limits *l,
		      struct err *e)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "%u:%u", major(device), minor(device));

	if (l->read_bps > 0)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " rbps=%llu",
			      (unsigned long long)l->read_bps);
	if (l->write_bps > 0)
		(void)snprintf(text + n, sizeof(text) - (size_t)n, " wbps=%llu",
			       (unsigned long long)l->write_bps);
	if (l->read_bps == 0 && l->write_bps == 0)
		return 0;
	return io_write_file(g->dirs[0], "io.max", text, e);
}

int cgroup_enter(const struct cgroup *g, struct err *e)
{
	/* "0" is the writing thread itself: the kernel then skips the lock that makes moving
	 * another process slow (cgroup_procs_write_start, since Linux 5.6). */
	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++)
		if (g->enter[i] >= 0 && write(g->enter[i], "0", 1) != 1)
			return err_sys(e, "enter cgroup");
	return 0;
}

int cgroup_unified(const struct cgroup_parents *p, const int *dirs)
{
	return dirs[p->how->unified];
}

/* The process ids in a directory, as many as fit. cgroup_kill_members() is repeated until none is
 * left. */
static void cgroup_read_members(int parent, const char *id, char *ret_text, size_t cap)
{
	OWN_FD fd = openat(parent, cgroup_name(id, "/cgroup.procs").text, O_RDONLY | O_CLOEXEC);
	size_t got = 0;
	ssize_t n;

	while (fd >= 0 && got < cap - 1 && (n = read(fd, ret_text + got, cap - 1 - got)) > 0)
		got += (size_t)n;
	while (got > 0 && ret_text[got - 1] != '\n')
		got--; /* of a number without its end */
	ret_text[got] = '\0';
}

/* The pidfd is opened first, then the list is read, then the process is still alive: so the number
 * in the list means the process of the pidfd, and not an earlier one with the same number. */
static int cgroup_open_one(int parent, const char *id, pid_t pid)
{
	static char text[65536];
	OWN_FD pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd < 0)
		return -1;
	cgroup_read_members(parent, id, text, sizeof(text));
	for (char *at = text; *at != '\0'; at++)
		if (strtol(at, &at, 10) == pid)
			return kernel_pidfd_send_signal(pidfd, 0) < 0 ? -1 : TAKE_FD(pidfd);
	return -1;
}

int cgroup_open_member(const struct cgroup_parents *p, const char *id, pid_t pid)
{
	for (unsigned i = 0; i < CELL_CGROUP_DIRS; i++)
		if (p->dirs[i] >= 0)
			return cgroup_open_one(p->dirs[i], id, pid);
	return -1;
}

static void cgroup_kill_members(int parent, const char *id)
{
	static char text[65536];
	struct err e;

	if (io_write_file(parent, cgroup_name(id, "/cgroup.kill").text, "1", &e) == 0)
		return;
	cgroup_read_members(parent, id, text, sizeof(text));
	for (char *at = text; *at != '\0'; at++) {
		OWN_FD pidfd = cgroup_open_one(parent, id, (pid_t)strtol(at, &at, 10));

		if (pidfd >= 0)
			(void)kernel_pidfd_send_signal(pidfd, SIGKILL);
	}
}

int cgroup_freeze(const struct cgroup_parents *p, const char *id, bool on, struct err *e)
{
	int parent = cgroup_unified(p, p->dirs);
	char text[256] = "";

	if (parent < 0)
		return err_set(e, ERR_UNSUPPORTED, "pause needs cgroup v2");
	OWN_FD events =
		openat(parent, cgroup_name(id, "/cgroup.events").text, O_RDONLY | O_CLOEXEC);
	if (events < 0)
		return err_set(e, ERR_NOT_FOUND, "no cell %s", id);
	if (io_write_file(parent, cgroup_name(id, "/cgroup.freeze").text, on ? "1" : "0", e) < 0)
		return -1;
	for (unsigned ms = 0; on && ms <= FREEZE_MS; ms++) {
		struct pollfd changed = { .fd = events, .events = POLLPRI };
		ssize_t n = pread(events, text, sizeof(text) - 1, 0);

		text[n < 0 ? 0 : n] = '\0';
		if (strstr(text, "frozen 1") != NULL)
			return 0;
		(void)poll(&changed, 1, 1);
	}
	if (!on)
		return 0;
	return err_set_reason(e, REASON_NOT_FROZEN,
			      "cell %s: a program is in a system call for more than %d ms", id,
			      FREEZE_MS);
}

int cgroup_destroy(const struct cgroup_parents *p, const char *id, unsigned patience_ms,
		   struct err *e)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	/* v2 first: its cgroup.kill kills all processes, and the other directories are empty then.
	 */
	for (unsigned i = CELL_CGROUP_DIRS; i-- > 0;) {
		if (p->dirs[i] < 0)
			continue;
		while (unlinkat(p->dirs[i], cgroup_name(id, "").text, AT_REMOVEDIR) < 0) {
			if (errno == ENOENT)
				break;
			if (errno != EBUSY)
				return err_sys(e, "rmdir cgroup of %s", id);
			if (patience_ms-- == 0)
				return err_set(e, ERR_CONFLICT,
					       "cell %s: some processes are still alive", id);
			cgroup_kill_members(p->dirs[i], id);
			(void)nanosleep(&pause, NULL);
		}
	}
	return 0;
}
