/* kernel.c - the kernel's surface: calls a cell has no use for must end in the filter.
 *
 * Arguments are harmless even where the call would be obeyed: bad magic for reboot, names that do
 * not exist for modules, the clock set to what it says. Rows that would still change the machine
 * have no control, so they are never run outside of a cell. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
	NR_IO_URING_SETUP = 425,
	NR_IO_URING_ENTER = 426,
	NR_IO_URING_REGISTER = 427,
	NR_MEMFD_SECRET = 447,
	NR_LSM_SET_SELF_ATTR = 460,
	NR_FUTURE = 511, /* no kernel has it: the filter's answer to what it does not know */
	KEY_SESSION = -3,
	KEY_USER = -4,
};

static const char *raw_call(const struct attack *a)
{
	const long *c = a->arg;

	return answer(syscall(c[0], c[1], c[2], c[3], c[4], c[5]));
}

static const char *bpf_map(const struct attack *a)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = attr.value_size = 4;
	attr.max_entries = 1;
	return answer(syscall(SYS_bpf, (long)BPF_MAP_CREATE, &attr, sizeof(attr)));
}

static const char *bpf_program(const struct attack *a)
{
	static const struct bpf_insn code[] = { { .code = 0xb7 }, { .code = 0x95 } };
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (uint64_t)(uintptr_t)code;
	attr.insn_cnt = 2;
	attr.license = (uint64_t)(uintptr_t) "GPL";
	return answer(syscall(SYS_bpf, (long)BPF_PROG_LOAD, &attr, sizeof(attr)));
}

/* Counting one's own user-mode work: the kernel alone would allow it to anybody. */
static const char *perf_event(const struct attack *a)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return answer(syscall(SYS_perf_event_open, &attr, 0L, -1L, -1L, 0L));
}

static const char *io_uring_setup(const struct attack *a)
{
	unsigned char params[256] = { 0 };

	return answer(syscall(NR_IO_URING_SETUP, 1L, params));
}

static const char *add_key(const struct attack *a)
{
	return answer(syscall(SYS_add_key, "user", "escape-key", "x", 1L, a->num));
}

/* Searches every keyring this process can reach for the driver's key. */
static const char *request_key(const struct attack *a)
{
	return answer(syscall(SYS_request_key, "user", world("key-name"), NULL, 0L));
}

static const char *read_key(const struct attack *a)
{
	char buf[64];

	/* KEYCTL_READ, KEYCTL_DESCRIBE: by number, as a thief who guesses would */
	return answer(syscall(SYS_keyctl, a->num, world_num("key-id"), buf, sizeof(buf), 0L));
}

static const char *kexec_file(const struct attack *a)
{
	return answer(syscall(SYS_kexec_file_load, -1L, -1L, 0L, "", ~0L));
}

static const char *load_module(const struct attack *a)
{
	return answer(syscall(SYS_init_module, "", 0L, ""));
}

static const char *finit_module(const struct attack *a)
{
	return answer(syscall(SYS_finit_module, -1L, "", 0L));
}

static const char *delete_module(const struct attack *a)
{
	return answer(syscall(SYS_delete_module, "escape_no_such_module", (long)O_NONBLOCK));
}

static const char *set_zone(const struct attack *a)
{
	struct timezone zone = { 0 };

	return answer(syscall(SYS_settimeofday, NULL, &zone));
}

/* In the machine's initial user namespace it could succeed. A virtual machine has one of its own.
 */
static int is_outside(void)
{
	unsigned long long ns;

	if (strcmp(world("guest"), "microvm") == 0)
		return 0;
	return namespace_inode("user", &ns) < 0 || ns == 4026531837ULL;
}

static const char *set_clock(const struct attack *a)
{
	struct timespec now;

	if (is_outside())
		return "outside";
	(void)clock_gettime((clockid_t)a->num, &now);
	return answer(syscall(SYS_clock_settime, a->num, &now));
}

static const char *adjust_clock(const struct attack *a)
{
	struct timex tx = { .modes = ADJ_MAXERROR, .maxerror = 16000000 };

	if (is_outside())
		return "outside";
	if (a->num == SYS_adjtimex)
		return answer(syscall(SYS_adjtimex, &tx));
	return answer(syscall(SYS_clock_adjtime, (long)CLOCK_REALTIME, &tx));
}

static const char *read_log(const struct attack *a)
{
	char buf[256];

	return answer(syscall(SYS_syslog, a->num, buf, sizeof(buf)));
}

/* The answer of kexec_load and others must come before their arguments are looked at. */
static const char *migrate(const struct attack *a)
{
	unsigned long nodes = 1;

	return answer(syscall(SYS_migrate_pages, 1L, 2L, &nodes, &nodes));
}

static const char *set_policy(const struct attack *a)
{
	unsigned long nodes = 1;

	return answer(syscall(SYS_set_mempolicy, 2L, &nodes, 2L));
}

static const char *executable_memory(const struct attack *a)
{
	return answer(personality(READ_IMPLIES_EXEC));
}

/* Programs made in memory only: legal where sudo is, and worth nothing outside. */
static const char *memfd_exec(const struct attack *a)
{
	static char buf[65536];
	char *argv[] = { buf, buf + 6, NULL }, *env[] = { NULL };
	long memfd = syscall(SYS_memfd_create, "escape", 0L), n, pid;
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (memfd < 0 || self < 0)
		return answer_errno(errno);
	while ((n = read(self, buf, sizeof(buf))) > 0)
		if (write((int)memfd, buf, (size_t)n) != n)
			return "short";
	memcpy(buf, "probe\0--true", 13);
	pid = fork();
	if (pid == 0) {
		(void)syscall(SYS_execveat, memfd, "", argv, env, (long)AT_EMPTY_PATH);
		_exit(errno);
	}
	return answer_child(pid);
}

static int allow_everything(unsigned flags)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { 1, code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_seccomp, (long)SECCOMP_SET_MODE_FILTER, (long)flags, &prog);
}

/* A later filter can only take away. */
static const char *seccomp_stack(const struct attack *a)
{
	if (allow_everything(0) < 0)
		return answer_errno(errno);
	return answer(unshare(CLONE_NEWUSER));
}

static const char *seccomp_mode(const struct attack *a)
{
	return answer_text("%ld", status_field("Seccomp", 10));
}

static const char *vmsplice_gift(const struct attack *a)
{
	int fds[2];
	struct iovec iov;

	iov.iov_len = 4096;
	iov.iov_base = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (iov.iov_base == MAP_FAILED || pipe(fds) < 0)
		return answer_errno(errno);
	return answer(vmsplice(fds[1], &iov, 1, SPLICE_F_GIFT));
}

static const char *set_mm(const struct attack *a)
{
	return answer(prctl(PR_SET_MM, PR_SET_MM_START_BRK, (unsigned long)sbrk(0), 0, 0));
}

static const char *merge_memory(const struct attack *a)
{
	return answer(prctl(67 /* PR_SET_MEMORY_MERGE */, 1, 0, 0, 0));
}

static const char *advise_merge(const struct attack *a)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? answer_errno(errno) : answer(madvise(p, 4096, MADV_MERGEABLE));
}

static const char *map_zero(const struct attack *a)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		       -1, 0);

	return p == MAP_FAILED ? answer_errno(errno) : "done";
}

#ifdef __x86_64__
/* The 32-bit entrance: system call numbers mean other things there. */
static const char *int80(const struct attack *a)
{
	long rc = a->num;

	__asm__ volatile("int $0x80"
			 : "+a"(rc)
			 : "b"(0L), "c"(0L)
			 : "memory", "r8", "r9", "r10", "r11");
	if (rc >= 0)
		return "done";
	return answer_errno((int)-rc);
}

static const char *x32(const struct attack *a)
{
	return answer(syscall(0x40000000L | a->num, 0L, 0L, 0L, 0L, 0L));
}
#endif

#define CALL(...)           \
	(const long[6])     \
	{                   \
		__VA_ARGS__ \
	}
#define CALL_ROW(id, what, control, ...) \
	ROW(id, "B", what, raw_call, REFUSED, control, CALL(__VA_ARGS__), 0)

/* clang-format off */
static const struct attack rows[] = {
ROW("bpf-map", "B", "make a BPF map", bpf_map, REFUSED, "done", NULL, 0),
ROW("bpf-program", "B", "load a BPF program", bpf_program, REFUSED, "done", NULL, 0),
ROW("perf-event", "B", "perf_event_open on oneself", perf_event, REFUSED, "done", NULL, 0),
CALL_ROW("userfaultfd", "userfaultfd, user mode only", "done", SYS_userfaultfd, 1),
ROW("io-uring-setup", "B", "io_uring_setup", io_uring_setup, REFUSED, "done", NULL, 0),
CALL_ROW("io-uring-enter", "io_uring_enter", "EBADF", NR_IO_URING_ENTER, -1),
CALL_ROW("io-uring-register", "io_uring_register", "EBADF|EINVAL", NR_IO_URING_REGISTER, -1),
ROW("add-key-session", "B", "add a key to the session keyring",
	add_key, REFUSED, "done", NULL, KEY_SESSION),
ROW("add-key-user", "B", "add a key to the user keyring", add_key, REFUSED, NULL, NULL, KEY_USER),
ROW("request-key", "B", "find the host's key", request_key, REFUSED, "done", NULL, 0),
ROW("keyctl-read", "B", "read the host's key by number", read_key, REFUSED, "done", NULL, 11),
ROW("keyctl-describe", "B", "describe the host's key by number",
	read_key, REFUSED, "done", NULL, 6),
CALL_ROW("keyctl-session", "the id of the session keyring", "done", SYS_keyctl, 0, KEY_SESSION, 0),
CALL_ROW("keyctl-join", "a new session keyring", NULL, SYS_keyctl, 1, 0),
CALL_ROW("kexec-load", "kexec_load", NULL, SYS_kexec_load, 0, 0, 0, -1),
ROW("kexec-file-load", "B", "kexec_file_load", kexec_file, REFUSED, NULL, NULL, 0),
ROW("init-module", "B", "init_module", load_module, REFUSED, NULL, NULL, 0),
ROW("finit-module", "B", "finit_module", finit_module, REFUSED, NULL, NULL, 0),
ROW("delete-module", "B", "delete_module", delete_module, REFUSED, NULL, NULL, 0),
CALL_ROW("reboot", "reboot with bad magic", NULL, SYS_reboot, 1, 2, 3, 0),
CALL_ROW("acct", "switch process accounting", NULL, SYS_acct, 0),
ROW("settimeofday", "B", "set the time zone to what it is", set_zone, REFUSED, NULL, NULL, 0),
ROW("clock-settime", "D", "set the clock", set_clock, REFUSED, NULL, NULL, CLOCK_REALTIME),
ROW("adjtimex", "B", "adjtimex", adjust_clock, REFUSED, NULL, NULL, SYS_adjtimex),
ROW("clock-adjtime", "B", "clock_adjtime", adjust_clock, REFUSED, NULL, NULL, SYS_clock_adjtime),
CALL_ROW("fanotify-init", "fanotify_init", "done", SYS_fanotify_init, 0x200, 0),
CALL_ROW("fanotify-mark", "fanotify_mark", "EBADF|EINVAL", SYS_fanotify_mark, -1, 1, 0x20, -1),
ROW("syslog-read", "B", "read the kernel's log by syslog(2)", read_log, REFUSED, "done", NULL, 3),
ROW("syslog-size", "B", "size of the kernel's log", read_log, REFUSED, "done", NULL, 10),
CALL_ROW("vhangup", "hang up the terminal", NULL, SYS_vhangup),
ROW("migrate-pages", "B", "migrate_pages of PID 1", migrate, REFUSED, NULL, NULL, 0),
ROW("set-mempolicy", "B", "set_mempolicy", set_policy, REFUSED, "done", NULL, 0),
CALL_ROW("memfd-secret", "memfd_secret", "done", NR_MEMFD_SECRET, 0),
CALL_ROW("lsm-set-attr", "lsm_set_self_attr", NULL, NR_LSM_SET_SELF_ATTR, 100, 0, 0, 0),
ROW("personality", "B", "personality(READ_IMPLIES_EXEC)",
	executable_memory, REFUSED, "done", NULL, 0),
ROW("memfd-exec", "B", "run a program that is only in memory",
	memfd_exec, "S:done L:EPERM", "done", NULL, 0),
ROW("seccomp-stack", "B", "unshare behind a filter of one's own",
	seccomp_stack, REFUSED, "done", NULL, 0),
ROW("seccomp-mode", "B", "the filter is in force", seccomp_mode, "2", NULL, NULL, 0),
ROW("vmsplice", "B", "vmsplice pages into a pipe", vmsplice_gift, REFUSED, "done", NULL, 0),
ROW("prctl-mm", "B", "rearrange own memory map", set_mm, REFUSED, NULL, NULL, 0),
ROW("prctl-merge", "C", "let KSM merge own pages with others'",
	merge_memory, "EPERM|EINVAL", NULL, NULL, 0),
ROW("madvise-merge", "C", "let KSM merge one page with others'",
	advise_merge, "EPERM|EINVAL", NULL, NULL, 0),
ROW("mmap-zero", "B", "map address zero", map_zero, "EPERM|EACCES", "done", NULL, 0),
ROW("future-call", "B", "a call no kernel has", raw_call, UNKNOWN, NULL, CALL(NR_FUTURE, 0), 0),
#ifdef __x86_64__
CALL_ROW("lookup-dcookie", "lookup_dcookie", NULL, SYS_lookup_dcookie, 1, 0, 0),
CALL_ROW("ioperm", "ioperm", NULL, SYS_ioperm, 0x80, 1, 1),
CALL_ROW("iopl", "iopl", NULL, SYS_iopl, 3),
CALL_ROW("modify-ldt", "modify_ldt", "done", SYS_modify_ldt, 0, 0, 0),
CALL_ROW("uselib", "uselib", NULL, SYS_uselib, 0),
CALL_ROW("sysfs-call", "sysfs(2)", "done|ENOSYS", SYS_sysfs, 3),
ROW("create-module", "B", "create_module", raw_call, UNKNOWN, NULL, CALL(174, 0, 0), 0),
CALL_ROW("nfsservctl", "nfsservctl", NULL, 180, 0, 0, 0),
ROW("int80-getpid", "B", "32-bit call: getpid", int80, "ENOSYS|SIGSEGV", "done", NULL, 20),
ROW("int80-unshare", "B", "32-bit call: unshare", int80, "ENOSYS|SIGSEGV", "done", NULL, 310),
ROW("x32-getpid", "B", "x32 call: getpid", x32, "ENOSYS", "done", NULL, SYS_getpid),
ROW("x32-keyctl", "B", "x32 call: keyctl", x32, "ENOSYS", "done", NULL, SYS_keyctl),
#endif
};
/* clang-format on */

const struct table kernel_table = TABLE(rows);
