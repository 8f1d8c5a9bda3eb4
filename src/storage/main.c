/* main.c - cordon-storage: keeps on disk what outlives a cell: layers, volumes, disks. Only the
 * order of its start is here.
 *
 *   storage_jail.c   what the program and its workers give up
 *   storage_jobs.c   channel D: a process for each request
 *   storage_ops.c    the table of operations, each in op_<name>.c
 *
 * It is started by cordon serve with the channel to cordond and the storage folder, and ends when
 * the channel closes. What it reads was written by cells or comes from the network; what it writes
 * has owners and modes of their choice, in a folder that no other user of the machine can enter. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "fd_std.h"
#include "image_tool.h"
#include "kernel.h"
#include "log.h"
#include "storage_jail.h"
#include "storage_jobs.h"
#include "storage_ops.h"
#include "supervisor_msg.h"

/* Of cordon run: the program makes one root image, and ends. */
#define IMAGE_WORD "--image="

/* "--start=F:L": format and level of the log, as the numbers of log.h. */
static void read_word(const char *word)
{
	unsigned format, level;

	/* NOLINTNEXTLINE(cert-err34-c): one digit fits */
	if (sscanf(word, "--start=%1u:%1u", &format, &level) == 2 && format < LOG_FORMATS &&
	    level < LOG_LEVELS)
		log_setup((enum log_format)format, (enum log_level)level);
}

static int start(struct err *e)
{
	if (op_arrange_setup(STORAGE_FD_AUTHORITY, e) < 0)
		return -1;
	if (storage_jail_enter(e) < 0)
		return err_wrap(e, "jail");
	if (storage_jail_lock(STORAGE_FD_DIR, e) < 0 || storage_ops_setup(e) < 0)
		return -1;
	return storage_jail_confine(e) < 0 ? err_wrap(e, "confine") : 0;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };

	fd_std_fill();
	if (argc == 2 && strncmp(argv[1], IMAGE_WORD, strlen(IMAGE_WORD)) == 0)
		return image_tool_main(argv[1] + strlen(IMAGE_WORD));
	if (fcntl(STORAGE_FD_CHANNEL, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(STORAGE_FD_DIR, F_SETFD, FD_CLOEXEC) < 0) {
		(void)fprintf(stderr, "cordon-storage: must be started by cordon serve\n");
		return 2;
	}
	for (int fd = STORAGE_FD_AUTHORITY; fd < STORAGE_FDS_END; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* not all need be there */
	(void)kernel_close_range(STORAGE_FDS_END, ~0U);
	if (argc == 2)
		read_word(argv[1]);
	/* Executed by descriptor, it has no name. */
	(void)prctl(PR_SET_NAME, "cordon-storage", 0, 0, 0);
	(void)umask(022);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL);
	if (start(&e) < 0) {
		log_error("cordon-storage cannot start", "error=%s", e.msg);
		storage_jobs_refuse(STORAGE_FD_CHANNEL, &e);
		return SERVE_EXIT_CANNOT_START;
	}
	return storage_jobs_serve(STORAGE_FD_CHANNEL);
}
