/* test_seccomp_live.c - the generated system call filters are installed for real, and calls are
 * made under them: they get the answers of a table written here by hand. */
#include "seccomp_profiles.h"

#include <asm/unistd.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Calls for the live tests. They do no harm, even where no filter stops them. */
static const struct live_call {
	const char *name;
	int standard, locked; /* the errno wanted, 0: none */
	long nr, args[4];
} live_calls[] = {
	{ "getpid", 0, 0, __NR_getpid, { 0 } },
	{ "socket unix", 0, 0, __NR_socket, { AF_UNIX, SOCK_STREAM, 0 } },
	{ "socket tcp", 0, 0, __NR_socket, { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP } },
	{ "socket rtnetlink", 0, 0, __NR_socket, { AF_NETLINK, SOCK_RAW, NETLINK_ROUTE } },
	{ "unshare files", 0, 0, __NR_unshare, { CLONE_FILES } },
	{ "personality query", 0, 0, __NR_personality, { 0xffffffff } },
	{ "ptrace traceme", 0, EPERM, __NR_ptrace, { PTRACE_TRACEME } },
	{ "personality uname26", 0, EPERM, __NR_personality, { UNAME26 } },
	{ "socket alg", EAFNOSUPPORT, EAFNOSUPPORT, __NR_socket, { AF_ALG, SOCK_SEQPACKET, 0 } },
	{ "socket vsock", EAFNOSUPPORT, EAFNOSUPPORT, __NR_socket, { AF_VSOCK, SOCK_STREAM, 0 } },
	{ "socket icmp",
	  EPROTONOSUPPORT,
	  EPROTONOSUPPORT,
	  __NR_socket,
	  { AF_INET, SOCK_DGRAM, IPPROTO_ICMP } },
	{ "socket uevent",
	  EPROTONOSUPPORT,
	  EPROTONOSUPPORT,
	  __NR_socket,
	  { AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT } },
	{ "setsockopt ulp", ENOPROTOOPT, ENOPROTOOPT, __NR_setsockopt, { -1, SOL_TCP, TCP_ULP } },
	{ "ioctl tiocsti", EPERM, EPERM, __NR_ioctl, { -1, TIOCSTI } },
	{ "personality exec", EPERM, EPERM, __NR_personality, { READ_IMPLIES_EXEC } },
	{ "clone3", ENOSYS, ENOSYS, __NR_clone3, { 0, 0 } },
	{ "unshare user", EPERM, EPERM, __NR_unshare, { CLONE_NEWUSER } },
	{ "setns", EPERM, EPERM, __NR_setns, { -1, 0 } },
	{ "vmsplice", EPERM, EPERM, __NR_vmsplice, { -1, 0, 0, 0 } },
	{ "pidfd_getfd", EPERM, EPERM, __NR_pidfd_getfd, { -1, -1, 0 } },
	{ "io_uring_setup", EPERM, EPERM, __NR_io_uring_setup, { 0, 0 } },
	{ "keyctl", EPERM, EPERM, __NR_keyctl, { -1 } },
	{ "memfd_secret", EPERM, EPERM, __NR_memfd_secret, { -1 } },
	{ "mknodat device", EPERM, EPERM, __NR_mknodat, { -1, 0, S_IFCHR, 0 } },
};

static int live_errno(const struct live_call *call)
{
	long ret = syscall(call->nr, call->args[0], call->args[1], call->args[2], call->args[3]);

	return ret < 0 ? errno : 0;
}

static int install(const struct program *program)
{
	/* the kernel only reads the program, though the field is not const */
	struct sock_fprog prog = {
		.len = (unsigned short)program->len,
		.filter = (struct sock_filter *)(uintptr_t)program->code,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

/* In a child of its own, as the filter and the personality stay for good. The same calls are first
 * made in a child without the filter: a refusal that is there anyhow would prove nothing. */
static int live_child(enum profile profile, const int *without)
{
	int bad = 0, by_filter = 0;

	if (install(&programs[profile]) < 0) {
		printf("# cannot install: %s\n", strerror(errno));
		return 1;
	}
	for (size_t i = 0; i < COUNT(live_calls); i++) {
		const struct live_call *call = &live_calls[i];
		int want = profile == STANDARD ? call->standard : call->locked;
		int got = live_errno(call);

		by_filter += want && got != without[i];
		if (got == want || (want == 0 && got == without[i]))
			continue;
		printf("# %s: errno %d, not %d (without the filter: %d)\n", call->name, got, want,
		       without[i]);
		bad++;
	}
	printf("# %d refusals are the filter's alone\n", by_filter);
	return bad || by_filter < 8;
}

static void check_live(enum profile profile)
{
	int without[COUNT(live_calls)], to_parent[2], status;
	pid_t pid;

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0)
		SKIP("another filter answers before this one, such as that of a cell");
	CHECK(pipe(to_parent) == 0);
	(void)fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		for (size_t i = 0; i < COUNT(live_calls); i++)
			without[i] = live_errno(&live_calls[i]);
		_exit(write(to_parent[1], without, sizeof(without)) != sizeof(without));
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(read(to_parent[0], without, sizeof(without)) == sizeof(without));

	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		int bad = live_child(profile, without);

		(void)fflush(stdout);
		_exit(bad);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0);
}

static void test_live_standard(void)
{
	check_live(STANDARD);
}

static void test_live_locked(void)
{
	check_live(LOCKED);
}

/* The system call NR of i386, by its own door; -ENOSYS where the machine has none. */
static long i386_call(long nr)
{
#ifdef __x86_64__
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr) : "memory", "r8", "r9", "r10", "r11");
	return ret;
#else
	return -ENOSYS;
#endif
}

/* 1 if a child (under the filter, or not) can make i386 calls, 0 if not, -1 on failure. */
static int i386_works(int with_filter)
{
	const long i386_getpid = 20;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (with_filter && install(&programs[STANDARD]) < 0)
			_exit(2);
		_exit(i386_call(i386_getpid) == getpid() ? 1 : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	if (WIFSIGNALED(status)) /* SIGSEGV: a kernel without i386 calls has no door either */
		return WTERMSIG(status) == SIGSEGV ? 0 : -1;
	return WEXITSTATUS(status) < 2 ? WEXITSTATUS(status) : -1;
}

static void test_live_i386(void)
{
	int without = i386_works(0);

	CHECK(without >= 0);
	if (without == 0)
		printf("# this machine has no i386 calls, so that the filter had none to refuse\n");
	CHECK(i386_works(1) == 0);
}

TEST_MAIN({ "live: standard", test_live_standard }, { "live: locked", test_live_locked },
	  { "live: calls of i386", test_live_i386 })
