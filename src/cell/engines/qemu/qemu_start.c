/* qemu_start.c - see qemu_start.h.
 *
 * QEMU opens kernel and initramfs by their paths, and the cell's Landlock rules refuse to reopen a
 * file outside of the cell's root. Memory files are not concerned. So these two are copied into
 * memory files unless they are such already. QEMU comes from the cell's root, made of the machine's
 * programs, or as a descriptor. */
#include "cell/engines/qemu/qemu_start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/wire/boot_msg.h"

#define QEMU_PATH "/usr/bin/qemu-system-x86_64"
#define KVM_PATH "/dev/kvm"
#define BOOT_FILE_MAX (512ULL << 20) /* of a kernel or initramfs, Debian's are below 60 MiB */
#define CALIBRATE_MS 20

/* The command line of QEMU for one guest. Used by engine_qemu.c.
 *
 * A clone must have exactly the devices of the guest that its memory image was made from, so the
 * same code makes both. Its parts: no firmware settings of the user, no default devices, one serial
 * line (the console), one virtio-serial port (the guest's stream), one read-only disk. A clone is
 * given neither kernel nor command line: these are in its memory. Pure. */

#define QEMU_WORDS_MAX 64

#define QEMU_TEXT_MAX 4096

/* Descriptors are numbers in QEMU's process, -1 where there is none. */
struct qemu_plan {
	const struct boot_request *request;
	enum boot_accel accel; /* KVM or TCG */
	uint64_t tsc_khz;      /* of this machine, a cold start with TCG needs it */
	int control_fd, stream_fd;
	int kernel_fd, initrd_fd; /* memory files, a cold start */
	int root_fd;		  /* open for reading only */
	int ram_fd;		  /* a clone */
};

struct qemu_command {
	char text[QEMU_TEXT_MAX];
	size_t used;
	char *argv[QEMU_WORDS_MAX + 1];
	unsigned n;
	bool full;
};

/* reboot=t panic=-1: a kernel that panics makes a triple fault at once, which QEMU (-no-reboot)
 * reports and ends by. init_on_free: a program's freed memory is not in later images, and free
 * memory takes no room in them. init_on_alloc would clear the same memory again. The crypto
 * self-tests, the timer check and the watch over the clock cost a third of the boot and find
 * nothing in a virtual machine. */
#define KERNEL_LINE                                                          \
	"console=ttyS0 quiet reboot=t panic=-1 tsc=reliable no_timer_check " \
	"cryptomgr.notests random.trust_cpu=on audit=0 init_on_free=1 init_on_alloc=0"

/* norandmaps: QEMU 7.2 translates code again for each address that it is at, so a program at random
 * addresses is translated whenever it is started. That is more than half of the time of a short
 * one, and memory of QEMU each time. Without tsc_early_khz (below) the kernel waits for a timer
 * that this machine has not. */
#define TCG_LINE "norandmaps"

#define SANDBOX "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

static void PRINTF(2, 3) qemu_start_command_word(struct qemu_command *c, const char *fmt, ...)
{
	size_t room = sizeof(c->text) - c->used;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(c->text + c->used, room, fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= room || c->n >= QEMU_WORDS_MAX) {
		c->full = true;
		return;
	}
	c->argv[c->n++] = c->text + c->used;
	c->argv[c->n] = NULL;
	c->used += (size_t)n + 1;
}

static void qemu_start_command_option(struct qemu_command *c, const char *name, const char *value)
{
	qemu_start_command_word(c, "%s", name);
	qemu_start_command_word(c, "%s", value);
}

/* Emulation executes the string instructions by bytes that a kernel takes if the processor says
 * that they are fast. Without the two flags it copies by words. */
#define TCG_CPU "max,-erms,-fsrm"

/* A machine without firmware devices that a guest could use. The real-time clock stays: without one
 * the kernel waits for seconds. */
static void qemu_start_command_add_machine(struct qemu_command *c, const struct qemu_plan *p)
{
	qemu_start_command_option(c, "-M",
				  "microvm,acpi=on,rtc=on,pit=off,pic=off,suppress-vmdesc=on,"
				  "memory-backend=ram");
	qemu_start_command_option(
		c, "-accel", p->accel == BOOT_ACCEL_KVM ? "kvm" : "tcg,thread=multi,tb-size=64");
	qemu_start_command_option(c, "-cpu", p->accel == BOOT_ACCEL_KVM ? "host" : TCG_CPU);
	qemu_start_command_word(c, "-smp");
	qemu_start_command_word(c, "%" PRIu32, p->request->vcpus);
	qemu_start_command_word(c, "-m");
	qemu_start_command_word(c, "%" PRIu64 "M", p->request->memory_bytes >> 20);
	qemu_start_command_word(c, "-nodefaults");
	qemu_start_command_word(c, "-no-user-config");
	qemu_start_command_word(c, "-no-reboot");
	qemu_start_command_option(c, "-display", "none");
	qemu_start_command_option(c, "-sandbox", SANDBOX);
	/* The cell has few processes. Each reader of the disk is one. */
	qemu_start_command_option(c, "-object", "main-loop,id=main-loop,thread-pool-max=8");
}

/* Private in both cases: a clone maps the sealed memory file, of which pages that it writes become
 * its own, a cold start uses /dev/zero: memory without a file behind it, but with a name that
 * guest_memory.c finds. (QEMU prints that it cannot resize that file, and continues.) */
static void qemu_start_command_add_memory(struct qemu_command *c, const struct qemu_plan *p)
{
	char path[32] = "/dev/zero";

	if (p->ram_fd >= 0)
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", p->ram_fd);
	qemu_start_command_word(c, "-object");
	qemu_start_command_word(c,
				"memory-backend-file,id=ram,size=%" PRIu64 ",mem-path=%s,share=off",
				p->request->memory_bytes, path);
}

static void qemu_start_command_add_devices(struct qemu_command *c, const struct qemu_plan *p)
{
	qemu_start_command_word(c, "-chardev");
	qemu_start_command_word(c, "socket,id=control,fd=%d", p->control_fd);
	qemu_start_command_option(c, "-mon", "chardev=control,mode=control");
	qemu_start_command_option(c, "-chardev", "stdio,id=console,signal=off");
	qemu_start_command_option(c, "-serial", "chardev:console");
	qemu_start_command_word(c, "-chardev");
	qemu_start_command_word(c, "socket,id=stream,fd=%d", p->stream_fd);
	qemu_start_command_option(c, "-device", "virtio-serial-device,id=serial,max_ports=2");
	qemu_start_command_option(c, "-device",
				  "virtserialport,bus=serial.0,nr=1,chardev=stream,name=cordon");
	if (p->root_fd < 0)
		return;
	qemu_start_command_word(c, "-add-fd");
	qemu_start_command_word(c, "fd=%d,set=1", p->root_fd);
	qemu_start_command_option(
		c, "-blockdev",
		"driver=file,node-name=root,filename=/dev/fdset/1,read-only=on,locking=off");
	qemu_start_command_option(c, "-device", "virtio-blk-device,drive=root");
}

static void qemu_start_command_add_start(struct qemu_command *c, const struct qemu_plan *p)
{
	if (p->ram_fd >= 0) {
		/* Snapshots have no head with the machine's name. */
		qemu_start_command_option(c, "-global", "migration.send-configuration=off");
		qemu_start_command_word(c, "-S");
		qemu_start_command_option(c, "-incoming", "defer"); /* engine_qemu.c says when */
		return;
	}
	qemu_start_command_word(c, "-kernel");
	qemu_start_command_word(c, "/proc/self/fd/%d", p->kernel_fd);
	qemu_start_command_word(c, "-initrd");
	qemu_start_command_word(c, "/proc/self/fd/%d", p->initrd_fd);
	qemu_start_command_word(c, "-append");
	if (p->accel == BOOT_ACCEL_KVM)
		qemu_start_command_word(c, "%s", KERNEL_LINE);
	else
		qemu_start_command_word(c, "%s " TCG_LINE " tsc_early_khz=%" PRIu64, KERNEL_LINE,
					p->tsc_khz);
}

/* ERR_LIMIT if it does not fit, which the bounds of the request exclude. */
static int qemu_start_command_make(const struct qemu_plan *p, struct qemu_command *ret,
				   struct err *e)
{
	*ret = (struct qemu_command){ .n = 0 };
	qemu_start_command_word(ret, "qemu-system-x86_64");
	qemu_start_command_add_machine(ret, p);
	qemu_start_command_add_memory(ret, p);
	qemu_start_command_add_devices(ret, p);
	qemu_start_command_add_start(ret, p);
	return ret->full ? err_set(e, ERR_LIMIT, "QEMU's command line is too long") : 0;
}

/* How fast this machine's time stamp counter is, 0 where there is none. */
static uint64_t qemu_start_tsc_khz(void)
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
static int qemu_start_choose_accel(uint32_t wanted, enum boot_accel *ret, struct err *e)
{
	bool there = access(KVM_PATH, R_OK | W_OK) == 0;

	if (wanted == BOOT_ACCEL_KVM && !there)
		return err_set(e, ERR_UNSUPPORTED, "the cell has no usable " KVM_PATH);
	*ret = wanted == BOOT_ACCEL_TCG || !there ? BOOT_ACCEL_TCG : BOOT_ACCEL_KVM;
	return 0;
}

/* A memory file with the content of that file, or the file itself if it is one. */
static int qemu_start_as_memory_file(int from, int *ret, struct err *e)
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

static int qemu_start_of_request(const struct boot_request *r, const int *fds, enum boot_fd which)
{
	int at = boot_fds_index(r->fds, which);

	return at < 0 ? -1 : fds[at];
}

/* Called in the child with its one thread. Never returns. All descriptors are close-on-exec. */
static void NORETURN qemu_start_execute(const struct qemu_command *c, const struct qemu_plan *p,
					int engine, int console)
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

static int qemu_start_run(const struct qemu_plan *p, int engine, int console, pid_t *ret,
			  struct err *e)
{
	struct qemu_command c;

	if (qemu_start_command_make(p, &c, e) < 0)
		return -1;
	*ret = fork();
	if (*ret < 0)
		return err_sys(e, "start QEMU");
	if (*ret == 0)
		qemu_start_execute(&c, p, engine, console);
	return 0;
}

static int qemu_start_pair(int *ret_ours, int *ret_theirs, struct err *e)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "sockets for QEMU");
	*ret_ours = ends[0];
	*ret_theirs = ends[1];
	return fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "sockets for QEMU") : 0;
}

/* With the sockets made. Kernel and initrd are set here. */
static int qemu_start_with(struct qemu_plan *p, const int *fds, int console, pid_t *ret,
			   struct err *e)
{
	const struct boot_request *r = p->request;
	int kernel = -1, initrd = -1, status = 0;

	if ((r->flags & BOOT_RESTORE) == 0)
		status = qemu_start_as_memory_file(qemu_start_of_request(r, fds, BOOT_FD_KERNEL),
						   &kernel, e) < 0 ||
			 qemu_start_as_memory_file(qemu_start_of_request(r, fds, BOOT_FD_INITRD),
						   &initrd, e) < 0;
	OWN_FD own_kernel = kernel, own_initrd = initrd;
	if (status != 0)
		return -1;
	p->kernel_fd = own_kernel;
	p->initrd_fd = own_initrd;
	if (p->accel == BOOT_ACCEL_TCG && own_kernel >= 0)
		p->tsc_khz = qemu_start_tsc_khz();
	return qemu_start_run(p, qemu_start_of_request(r, fds, BOOT_FD_ENGINE), console, ret, e);
}

int qemu_start(const struct boot_request *r, const int *fds, int console, struct qemu_process *ret,
	       struct err *e)
{
	struct qemu_plan p = { .request = r,
			       .control_fd = -1,
			       .stream_fd = -1,
			       .root_fd = qemu_start_of_request(r, fds, BOOT_FD_ROOT),
			       .ram_fd = qemu_start_of_request(r, fds, BOOT_FD_RAM),
			       .kernel_fd = -1,
			       .initrd_fd = -1 };
	int control = -1, stream = -1, status;

	status = qemu_start_choose_accel(r->accel, &p.accel, e) < 0 ||
		 qemu_start_pair(&control, &p.control_fd, e) < 0 ||
		 qemu_start_pair(&stream, &p.stream_fd, e) < 0;
	OWN_FD our_control = control, our_stream = stream;
	OWN_FD their_control = p.control_fd, their_stream = p.stream_fd;
	if (status != 0 || qemu_start_with(&p, fds, console, &ret->pid, e) < 0)
		return -1;
	ret->accel = p.accel;
	ret->control_fd = TAKE_FD(our_control);
	ret->stream_fd = TAKE_FD(our_stream);
	return 0;
}
