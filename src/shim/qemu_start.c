/* qemu_start.c - see qemu_start.h.
 *
 * QEMU opens kernel and initramfs by their paths, and the cell's Landlock rules refuse to open a
 * file again that is not below the cell's root; memory files are not concerned. So these two are
 * copied into memory files unless they are such already. QEMU comes from the cell's root, which is
 * made of the machine's programs, or as a descriptor. */
#include "qemu_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "qemu_command.h"

#define QEMU_PATH "/usr/bin/qemu-system-x86_64"
#define KVM_PATH "/dev/kvm"
#define BOOT_FILE_MAX (512ULL << 20) /* of a kernel or initramfs; Debian's are below 60 MiB */
#define CALIBRATE_MS 20

/* How fast this machine's time stamp counter is; 0 where there is none. */
static uint64_t tsc_khz(void)
{
#if defined(__x86_64__)
	const struct timespec wait = { .tv_nsec = CALIBRATE_MS * (long)CLOCK_MS };
	uint64_t from_ns = clock_now_ns(), from = __builtin_ia32_rdtsc();

	(void)nanosleep(&wait, NULL);
	uint64_t ticks = __builtin_ia32_rdtsc() - from, ns = clock_now_ns() - from_ns;
	return ticks * CLOCK_MS / (ns == 0 ? 1 : ns);
#else
	return 0;
#endif
}

/* The keeper makes /dev/kvm in a cell only if the machine's KVM was found good. */
static int choose_accel(uint32_t wanted, enum boot_accel *ret, struct err *e)
{
	bool there = access(KVM_PATH, R_OK | W_OK) == 0;

	if (wanted == BOOT_ACCEL_KVM && !there)
		return err_set(e, ERR_UNSUPPORTED, "the cell has no usable " KVM_PATH);
	*ret = wanted == BOOT_ACCEL_TCG || !there ? BOOT_ACCEL_TCG : BOOT_ACCEL_KVM;
	return 0;
}

/* A memory file with the content of that file, or the file itself if it is one. */
static int as_memory_file(int from, int *ret, struct err *e)
{
	off_t at = 0;
	ssize_t n = 1;

	if (fcntl(from, F_GET_SEALS) >= 0) {
		*ret = fcntl(from, F_DUPFD_CLOEXEC, 3);
		return *ret < 0 ? err_sys(e, "descriptors for QEMU") : 0;
	}
	OWN_FD copy = memfd_create("boot-file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (copy < 0)
		return err_sys(e, "make a memory file");
	while (n > 0 && (uint64_t)at < BOOT_FILE_MAX)
		n = sendfile(copy, from, &at, 1U << 20);
	if (n < 0)
		return err_sys(e, "copy a file for the guest");
	if (n > 0)
		return err_set(e, ERR_LIMIT, "a kernel or initramfs is too large");
	*ret = TAKE_FD(copy);
	return 0;
}

static int of_request(const struct boot_request *r, const int *fds, enum boot_fd which)
{
	int at = boot_fds_index(r->fds, which);

	return at < 0 ? -1 : fds[at];
}

/* In the child, which has one thread and never returns. All descriptors are close-on-exec. */
static void NORETURN execute(const struct qemu_command *c, const struct qemu_plan *p, int engine,
			     int console)
{
	const int kept[] = { p->control_fd, p->stream_fd, p->kernel_fd,
			     p->initrd_fd,  p->root_fd,	  p->ram_fd };
	char none[] = "LC_ALL=C", *envp[] = { none, NULL }, path[32] = QEMU_PATH;
	sigset_t all;

	for (size_t i = 0; i < COUNT(kept); i++)
		if (kept[i] >= 0 && fcntl(kept[i], F_SETFD, 0) < 0)
			_exit(126);
	if (dup2(console, 1) < 0 || dup2(console, 2) < 0)
		_exit(126);
	/* An emulator asks for huge pages for translated code, and for tables of which it uses a
	 * page: two MiB of each session. */
	if (p->accel == BOOT_ACCEL_TCG)
		(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	(void)sigemptyset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (engine >= 0)
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", engine);
	(void)execve(path, c->argv, envp);
	(void)dprintf(2, "cordon-shim: execute %s: error %d\n", path, errno);
	_exit(127);
}

static int run(const struct qemu_plan *p, int engine, int console, pid_t *ret, struct err *e)
{
	struct qemu_command c;

	if (qemu_command_make(p, &c, e) < 0)
		return -1;
	*ret = fork();
	if (*ret < 0)
		return err_sys(e, "start QEMU");
	if (*ret == 0)
		execute(&c, p, engine, console);
	return 0;
}

static int pair(int *ret_ours, int *ret_theirs, struct err *e)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "sockets for QEMU");
	*ret_ours = ends[0];
	*ret_theirs = ends[1];
	return fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "sockets for QEMU") : 0;
}

/* With the sockets made; kernel and initrd are set here. */
static int start_with(struct qemu_plan *p, const int *fds, int console, pid_t *ret, struct err *e)
{
	const struct boot_request *r = p->request;
	int kernel = -1, initrd = -1, status = 0;

	if ((r->flags & BOOT_RESTORE) == 0)
		status = as_memory_file(of_request(r, fds, BOOT_FD_KERNEL), &kernel, e) < 0 ||
			 as_memory_file(of_request(r, fds, BOOT_FD_INITRD), &initrd, e) < 0;
	OWN_FD own_kernel = kernel, own_initrd = initrd;
	if (status != 0)
		return -1;
	p->kernel_fd = own_kernel;
	p->initrd_fd = own_initrd;
	if (p->accel == BOOT_ACCEL_TCG && own_kernel >= 0)
		p->tsc_khz = tsc_khz();
	return run(p, of_request(r, fds, BOOT_FD_ENGINE), console, ret, e);
}

int qemu_start(const struct boot_request *r, const int *fds, int console, struct qemu_process *ret,
	       struct err *e)
{
	struct qemu_plan p = { .request = r,
			       .control_fd = -1,
			       .stream_fd = -1,
			       .root_fd = of_request(r, fds, BOOT_FD_ROOT),
			       .ram_fd = of_request(r, fds, BOOT_FD_RAM),
			       .kernel_fd = -1,
			       .initrd_fd = -1 };
	int control = -1, stream = -1, status;

	status = choose_accel(r->accel, &p.accel, e) < 0 || pair(&control, &p.control_fd, e) < 0 ||
		 pair(&stream, &p.stream_fd, e) < 0;
	OWN_FD our_control = control, our_stream = stream;
	OWN_FD their_control = p.control_fd, their_stream = p.stream_fd;
	if (status != 0 || start_with(&p, fds, console, &ret->pid, e) < 0)
		return -1;
	(void)their_control, (void)their_stream;
	ret->accel = p.accel;
	ret->control_fd = TAKE_FD(our_control);
	ret->stream_fd = TAKE_FD(our_stream);
	return 0;
}
