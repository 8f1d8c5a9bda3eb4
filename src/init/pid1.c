#include "pid1.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "keeper_msg.h"

static int setup_signals(void)
{
	static const unsigned long default_action[4]; /* the kernel's struct sigaction, all zero */
	sigset_t set;

	/* Programs of the cell must not inherit signals that a caller of the keeper ignored. By
	 * system call: libc refuses some numbers. */
	for (int sig = 1; sig <= 64; sig++)
		(void)syscall(SYS_rt_sigaction, sig, default_action, NULL, 8);
	(void)sigfillset(&set);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return -1;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int pid1_setup(const char *name)
{
	(void)prctl(PR_SET_NAME, name, 0, 0, 0);
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	/* Fails for those that are not open. */
	for (int fd = INIT_FD_ID_SLOT; fd <= INIT_FD_GUEST; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	return setup_signals();
}
