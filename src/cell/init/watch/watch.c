/* watch.c - theory of operation
 *
 * The filter of a watched cell does not answer EPERM itself: it notifies the process that holds its
 * listener, and the call waits. This process answers EPERM, always, and counts the call. No other
 * call comes here, allowed or refused with another error, so these cost nothing.
 *
 * The watcher is not in the cell: it has the rights of the cell's root over the cell and nothing
 * else, is in no namespace that the cell can see, and gives up even these rights at its start. It
 * reads notifications of the kernel and nothing else. If it dies, the kernel refuses the same calls
 * with ENOSYS.
 *
 * A program that makes refused calls in a loop makes this process work. So each cell has a rate,
 * and a share of a processor: beyond them the watcher sleeps, and the program waits. Its processor
 * time is in its file, and counts as the cell's. */
#include "cell/init/watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cell/init/watch/files.h"
#include "cell/init/watch/trace.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/wire/watch_file.h"

#define RATE 2000 /* calls a second, once BURST are used up */
#define BURST 4000
#define REST_MS 2
#define CPU_PART 2	    /* of a processor: one half */
#define CPU_BURST_US 500000 /* and so much at once */
#define CPU_REST_MAX_MS 100
#define CPU_STEP_US 1000 /* it is told in such steps */
#define FILES_RATE 5	 /* times as many, of calls for files */

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#else
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

#if defined(__SANITIZE_ADDRESS__)
#define CONFINED 0 /* its runtime makes other calls */
#else
#define CONFINED 1
#endif

/* The kernel may know longer structures than the headers of this build. */
union notification {
	struct seccomp_notif n;
	uint8_t room[1024];
};

union watch_answer {
	struct seccomp_notif_resp r;
	uint8_t room[1024];
};

static struct watch_file file;

static void watch_write(const void *at, size_t n)
{
	ssize_t done =
		pwrite(WATCH_FD_FILE, at, n, (off_t)((const char *)at - (const char *)&file));

	(void)done; /* no room for it: the next one may have some */
}

/* musl's ioctl(2) takes an int. */
static long watch_ioctl(unsigned long what, void *arg)
{
	return syscall(SYS_ioctl, WATCH_FD_LISTENER, what, arg);
}

static void watch_count(int nr)
{
	unsigned at = nr < 0 || nr >= WATCH_CALLS ? WATCH_CALLS - 1 : (unsigned)nr;

	file.refused[at]++;
	file.total++;
	watch_write(&file.refused[at], sizeof(file.refused[at]));
	watch_write(&file.total, sizeof(file.total));
}

static void watch_send(uint64_t id, int error, uint32_t flags)
{
	static union watch_answer answer;

	memset(&answer, 0, sizeof(answer));
	answer.r.id = id;
	answer.r.error = error;
	answer.r.flags = flags;
	/* The caller may have ended since. */
	(void)watch_ioctl(SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

/* ---- traced calls. The filter notifies of them only where it allows them. */

static void watch_let_pass(uint64_t id)
{
	watch_send(id, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

static void watch_record(struct watch_entry *e)
{
	off_t at = WATCH_RING_AT + (off_t)(file.next % WATCH_RING * sizeof(*e));

	e->time_ms = clock_wall_ms();
	e->seq = e->seq_again = file.next;
	if (pwrite(WATCH_FD_FILE, e, sizeof(*e), at) != (ssize_t)sizeof(*e))
		return; /* no room for it: the next one may have some, and has its number */
	file.next++;
	watch_write(&file.next, sizeof(file.next));
}

static const struct trace_ops trace_ops = { .answer = watch_let_pass, .write = watch_record };

/* False: the caller has gone since, or was interrupted. */
static bool watch_answer(enum watch_mode mode)
{
	static union notification got;

	memset(&got, 0, sizeof(got));
	if (watch_ioctl(SECCOMP_IOCTL_NOTIF_RECV, &got) < 0)
		return false;
	if (mode == WATCH_FILES && files_is_call(got.n.data.nr)) {
		files_call(&got.n, &trace_ops);
		return true;
	}
	if (trace_is_traced(got.n.data.nr, mode)) {
		trace_call(&got.n, &trace_ops);
		return true;
	}
	watch_send(got.n.id, -EPERM, 0);
	watch_count(got.n.data.nr);
	return true;
}

/* ---- the rate */

static void watch_rest(uint64_t ms)
{
	const struct timespec rest = { .tv_nsec = (long)ms * 1000000L };

	(void)nanosleep(&rest, NULL);
}

/* Called after each round of work, whatever it was. */
static void watch_keep_share(void)
{
	static uint64_t used_us, at_ns;
	static int64_t left_us = CPU_BURST_US;
	struct timespec cpu = { 0 };
	uint64_t now = clock_now_ns(), us, rest_ms;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	us = (uint64_t)cpu.tv_sec * 1000000 + (uint64_t)cpu.tv_nsec / 1000;
	if (us - file.cpu_us >= CPU_STEP_US) {
		file.cpu_us = us;
		watch_write(&file.cpu_us, sizeof(file.cpu_us));
	}
	left_us += (int64_t)((now - at_ns) / 1000 / CPU_PART) - (int64_t)(us - used_us);
	at_ns = now;
	used_us = us;
	if (left_us > CPU_BURST_US)
		left_us = CPU_BURST_US;
	if (left_us >= 0)
		return;
	rest_ms = (uint64_t)-left_us * CPU_PART / 1000 + 1;
	watch_rest(rest_ms < CPU_REST_MAX_MS ? rest_ms : CPU_REST_MAX_MS);
}

/* Called after each answer. Programs open more files than they start programs. */
static void watch_keep_rate(enum watch_mode mode)
{
	static uint64_t milli = BURST * 1000ULL, at_ns;
	uint64_t now = clock_now_ns(), cost = mode == WATCH_FILES ? 1000 / FILES_RATE : 1000;

	milli += (now - at_ns) / 1000 * RATE / 1000;
	at_ns = now;
	if (milli > BURST * 1000ULL)
		milli = BURST * 1000ULL;
	if (milli < 1000)
		watch_rest(REST_MS);
	else
		milli -= cost;
}

/* ---- its own restrictions */

/* A tracer keeps the right to attach to processes of the cell, and to nothing else. To look paths
 * up it needs to pass directories of all users of the cell. */
static int watch_drop_caps(enum watch_mode mode)
{
	const uint32_t keep = (mode != WATCH_REFUSED ? 1U << CAP_SYS_PTRACE : 0) |
			      (mode == WATCH_FILES ? 1U << CAP_DAC_READ_SEARCH : 0);
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct caps[2] = { { .effective = keep, .permitted = keep } };

	if (syscall(SYS_capset, &head, caps) == 0)
		return 0;
	return syscall(SYS_capset, &head, (struct __user_cap_data_struct[2]){ 0 }) == 0 ? 0 : -1;
}

static const int watch_calls[] = {
#ifdef SYS_poll
	SYS_poll,
#endif
	SYS_ppoll,	   SYS_ioctl,	  SYS_pwrite64,
	SYS_clock_gettime, SYS_nanosleep, SYS_clock_nanosleep,
	SYS_exit_group,	   SYS_exit,	  SYS_restart_syscall,
};

static const int trace_calls[] = {
#ifdef SYS_open
	SYS_open,   SYS_readlink,   SYS_epoll_wait,
#endif
	SYS_openat, SYS_readlinkat, SYS_epoll_pwait,  SYS_epoll_ctl,	    SYS_read,
	SYS_close,  SYS_pidfd_open, SYS_ptrace,	      SYS_process_vm_readv, SYS_wait4,
	SYS_fcntl,  SYS_setitimer,  SYS_rt_sigreturn, SYS_openat2,
};

static unsigned short watch_allow(struct sock_filter *f, unsigned short n, const int *calls,
				  size_t count)
{
	for (size_t i = 0; i < count; i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i],
						      0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	return n;
}

static int watch_confine(bool traced)
{
	struct sock_filter f[(COUNT(watch_calls) + COUNT(trace_calls)) * 2 + 6];
	struct sock_fprog prog = { .filter = f };
	unsigned short n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					      offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					      offsetof(struct seccomp_data, nr));
	n = watch_allow(f, n, watch_calls, COUNT(watch_calls));
	if (traced)
		n = watch_allow(f, n, trace_calls, COUNT(trace_calls));
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	prog.len = n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static int watch_wait(bool traced)
{
	struct pollfd p = { .fd = WATCH_FD_LISTENER, .events = POLLIN };

	if (traced)
		return trace_wait(WATCH_FD_LISTENER, &trace_ops);
	return poll(&p, 1, -1) < 0 ? (errno == EINTR ? 0 : POLLERR) : p.revents;
}

int watch_main(enum watch_mode mode)
{
	bool traced = mode != WATCH_REFUSED;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int got;

	(void)prctl(PR_SET_NAME, "cordon-watch", 0, 0, 0);
	/* While it has the lock it lives. */
	(void)fcntl(WATCH_FD_FILE, F_OFD_SETLK, &lock);
	if (traced && !trace_begin(&file.first))
		return 1;
	if (mode == WATCH_FILES)
		files_begin();
	if (watch_drop_caps(mode) < 0 || (CONFINED && watch_confine(traced) < 0))
		return 1;
	file.version = WATCH_VERSION;
	file.next = file.first;
	watch_write(&file.first, 2 * sizeof(file.first));
	watch_write(&file.version, sizeof(file.version));
	for (;;) {
		got = watch_wait(traced);
		if ((got & POLLIN) != 0) {
			if (watch_answer(mode))
				watch_keep_rate(mode);
		} else if (got != 0) {
			return got == POLLERR ? 1 : 0; /* POLLHUP: no process of the cell is left */
		}
		watch_keep_share();
	}
}
