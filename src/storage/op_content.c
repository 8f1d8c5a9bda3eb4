/* op_content.c - an operation on the content of a volume: opens the volume, and does the rest in a
 * worker that can reach nothing else (content.h). */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "content.h"
#include "storage_jail.h"
#include "storage_ops.h"

static void NORETURN work(const struct storage_run *run, int volume)
{
	const struct storage_content *r = &run->r->content;
	struct content c = { .r = r,
			     .volume = volume,
			     .out = run->fds[0],
			     .in = r->what == STORAGE_CONTENT_WRITE ? run->fds[1] : -1,
			     .single = storage_jail_ids().single,
			     .shift = storage_jail_ids().shift };
	struct content_record failed = { .kind = CONTENT_ERROR };

	if (storage_jail_confine_worker(&(struct storage_worker_dirs){ .dir = volume },
					&failed.error) == 0) {
		c.data = openat(volume, "data", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (c.data >= 0) {
			content_run(&c);
			_exit(0);
		}
		IGNORED(err_sys(&failed.error, "open the volume"), "sent below");
	}
	IGNORED(content_put(&c, &failed), "the reader is gone");
	_exit(1);
}

/* Its directory, or the mount of its image that came with the request. */
static int open_volume(const struct storage_run *run, struct err *e)
{
	const struct storage_content *r = &run->r->content;
	struct stat st;
	int fd;

	if ((r->flags & STORAGE_CONTENT_ROOT) != 0) {
		fd = fcntl(run->fds[1 + (r->what == STORAGE_CONTENT_WRITE)], F_DUPFD_CLOEXEC, 3);
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
			return fd;
		if (fd >= 0)
			fd_close(fd);
		return err_set(e, ERR_INVALID, "the mount of the volume is no directory");
	}
	OWN_FD volumes = storage_ops_open_volumes(e);
	if (volumes < 0)
		return -1;
	fd = openat(volumes, r->volume, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? storage_ops_fail(e, "open the volume") : fd;
}

int op_content(struct storage_run *run, struct err *e)
{
	int opened = open_volume(run, e);
	pid_t pid;

	if (opened < 0)
		return -1;
	OWN_FD volume = opened;
	pid = fork();
	if (pid == 0)
		work(run, volume);
	if (pid < 0)
		return err_sys(e, "fork");
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0; /* what happened is in the answer that it has written */
}
