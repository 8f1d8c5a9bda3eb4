/* test_seccomp.c - the generated system call filter does what the policy says.
 *
 * Theory of operation. A small interpreter runs the classic BPF programs as the kernel would and
 * counts their steps. What they must answer comes from tables written here by hand, with the
 * constants of the C headers, so that neither a slip in syscalls.def nor one in gen-seccomp is
 * judged by itself. The name table is then held against the programs number by number.
 * test_seccomp_live.c installs the programs for real. */
#include "seccomp_profiles.h"

#include <asm/unistd.h>
#include <fcntl.h>
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
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define INVALID 0xdeadU /* the program itself is broken */
#define STEPS_MAX 14	/* of the search: a list of the ranges would take about a hundred */
#define HIGH_BITS (0xa5a5a5a5ULL << 32)
#define X32_BIT 0x40000000

#ifdef __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

/* Run PROGRAM on DATA. An instruction that the kernel would refuse, or that we do not expect, gives
 * INVALID. RET_STEPS counts the instructions up to the first look at an argument. */
static uint32_t run(const struct program *program, const struct seccomp_data *data,
		    unsigned *ret_steps)
{
	uint32_t words[sizeof(*data) / sizeof(uint32_t)], acc = 0;
	int on_args = 0;

	memcpy(words, data, sizeof(words));
	*ret_steps = 0;
	for (size_t pc = 0; pc < program->len; pc++) {
		const struct sock_filter *insn = &program->code[pc];

		*ret_steps += !on_args;
		switch (insn->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (insn->k % 4 || insn->k / 4 >= COUNT(words))
				return INVALID;
			on_args |= insn->k >= offsetof(struct seccomp_data, args);
			acc = words[insn->k / 4];
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			acc &= insn->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += insn->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += acc == insn->k ? insn->jt : insn->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += acc >= insn->k ? insn->jt : insn->jf;
			break;
		case BPF_RET | BPF_K:
			return insn->k;
		default:
			return INVALID;
		}
	}
	return INVALID;
}

#define SKIPPED 100000 /* success without a call */

/* The errno that PROFILE answers, 0 for an allowed call, SKIPPED, -1 for anything else. */
static int answer_arch(enum profile profile, uint32_t arch, int nr, const uint64_t args[6])
{
	struct seccomp_data data = { .nr = nr, .arch = arch };
	unsigned steps;
	uint32_t ret;

	memcpy(data.args, args, sizeof(data.args));
	ret = run(&programs[profile], &data, &steps);
	if (ret == SECCOMP_RET_ALLOW)
		return 0;
	if (ret == SECCOMP_RET_ERRNO)
		return SKIPPED;
	if ((ret & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
		return (int)(ret & SECCOMP_RET_DATA);
	return -1;
}

/* As answer_arch, for the native architecture; and the upper halves of the arguments, which the
 * kernel drops, must not matter. */
static int answer(enum profile profile, int nr, uint64_t arg0, uint64_t arg1, uint64_t arg2)
{
	const uint64_t low[6] = { arg0, arg1, arg2 };
	const uint64_t high[6] = { arg0 | HIGH_BITS, arg1 | HIGH_BITS, arg2 | HIGH_BITS };
	int first = answer_arch(profile, NATIVE, nr, low);

	return first == answer_arch(profile, NATIVE, nr, high) ? first : -1;
}

static void test_shape(void)
{
	for (size_t i = 0; i < COUNT(programs); i++) {
		unsigned longest = 0;

		printf("# %s: %zu instructions\n", programs[i].name, programs[i].len);
		CHECK(programs[i].len < 1000);
		CHECK(programs[i].code[programs[i].len - 1].code == (BPF_RET | BPF_K));
		for (int nr = 0; nr < 600; nr++) {
			struct seccomp_data data = { .nr = nr, .arch = NATIVE };
			unsigned steps;

			CHECK(run(&programs[i], &data, &steps) != INVALID);
			longest = steps > longest ? steps : longest;
		}
		printf("# %s: at most %u steps to an answer or an argument\n", programs[i].name,
		       longest);
		CHECK(longest <= STEPS_MAX);
	}
}

struct expected {
	const char *name;
	int nr, standard, locked;
};

/* clang-format off */
#define BOTH(call, err) { #call, __NR_##call, err, err }
#define ONLY_STANDARD(call) { #call, __NR_##call, 0, EPERM }

/* With all arguments zero. */
static const struct expected important[] = {
	BOTH(read, 0), BOTH(write, 0), BOTH(openat, 0), BOTH(openat2, 0), BOTH(close, 0),
	BOTH(close_range, 0), BOTH(fstat, 0), BOTH(newfstatat, 0), BOTH(statx, 0),
	BOTH(faccessat2, 0), BOTH(getdents64, 0), BOTH(renameat2, 0), BOTH(fchownat, 0),
	BOTH(fchmodat, 0), BOTH(copy_file_range, 0), BOTH(splice, 0), BOTH(tee, 0),
	BOTH(sendfile, 0), BOTH(mmap, 0), BOTH(mprotect, 0), BOTH(brk, 0), BOTH(madvise, 0),
	BOTH(memfd_create, 0), BOTH(execve, 0), BOTH(clone, 0), BOTH(unshare, 0), BOTH(wait4, 0),
	BOTH(exit_group, 0), BOTH(kill, 0), BOTH(tgkill, 0), BOTH(futex, 0), BOTH(futex_waitv, 0),
	BOTH(rseq, 0), BOTH(membarrier, 0), BOTH(prctl, 0), BOTH(seccomp, 0),
	BOTH(landlock_create_ruleset, 0), BOTH(landlock_restrict_self, 0), BOTH(pidfd_open, 0),
	BOTH(pidfd_send_signal, 0), BOTH(epoll_pwait2, 0), BOTH(inotify_init1, 0),
	BOTH(signalfd4, 0), BOTH(timerfd_create, 0), BOTH(eventfd2, 0), BOTH(shmget, 0),
	BOTH(mq_open, 0), BOTH(sched_setscheduler, 0), BOTH(getrandom, 0), BOTH(connect, 0),
	BOTH(bind, 0), BOTH(accept4, 0), BOTH(sendmsg, 0), BOTH(get_mempolicy, 0), BOTH(prlimit64, 0),
	BOTH(personality, 0), BOTH(ioctl, 0), BOTH(mknodat, 0), BOTH(clock_gettime, 0),

	ONLY_STANDARD(ptrace), ONLY_STANDARD(process_vm_readv), ONLY_STANDARD(process_vm_writev),
	ONLY_STANDARD(chroot), ONLY_STANDARD(execveat), ONLY_STANDARD(setuid),
	ONLY_STANDARD(setgid), ONLY_STANDARD(setreuid), ONLY_STANDARD(setregid),
	ONLY_STANDARD(setresuid), ONLY_STANDARD(setresgid), ONLY_STANDARD(setfsuid),
	ONLY_STANDARD(setfsgid), ONLY_STANDARD(setgroups), ONLY_STANDARD(capset),
	ONLY_STANDARD(mincore), ONLY_STANDARD(io_submit),

	BOTH(setns, EPERM), BOTH(mount, EPERM), BOTH(umount2, EPERM), BOTH(pivot_root, EPERM),
	BOTH(fsopen, EPERM), BOTH(fsconfig, EPERM), BOTH(fsmount, EPERM), BOTH(fspick, EPERM),
	BOTH(open_tree, EPERM), BOTH(move_mount, EPERM), BOTH(mount_setattr, EPERM),
	BOTH(bpf, EPERM), BOTH(perf_event_open, EPERM), BOTH(userfaultfd, EPERM),
	BOTH(io_uring_setup, EPERM), BOTH(io_uring_enter, EPERM), BOTH(io_uring_register, EPERM),
	BOTH(keyctl, EPERM), BOTH(add_key, EPERM), BOTH(request_key, EPERM),
	BOTH(kexec_load, EPERM), BOTH(kexec_file_load, EPERM), BOTH(init_module, EPERM),
	BOTH(finit_module, EPERM), BOTH(delete_module, EPERM), BOTH(open_by_handle_at, EPERM),
	BOTH(name_to_handle_at, EPERM), BOTH(fanotify_init, EPERM), BOTH(fanotify_mark, EPERM),
	BOTH(quotactl, EPERM), BOTH(quotactl_fd, EPERM), BOTH(swapon, EPERM), BOTH(swapoff, EPERM),
	BOTH(acct, EPERM), BOTH(settimeofday, EPERM), BOTH(clock_settime, EPERM),
	BOTH(adjtimex, EPERM), BOTH(clock_adjtime, EPERM), BOTH(lookup_dcookie, EPERM),
	BOTH(vmsplice, EPERM), BOTH(pidfd_getfd, EPERM), BOTH(kcmp, EPERM), BOTH(mbind, EPERM),
	BOTH(set_mempolicy, EPERM), BOTH(migrate_pages, EPERM), BOTH(move_pages, EPERM),
	BOTH(set_mempolicy_home_node, EPERM), BOTH(vhangup, EPERM), BOTH(syslog, EPERM),
	BOTH(reboot, EPERM), BOTH(sethostname, EPERM), BOTH(setdomainname, EPERM),
	BOTH(nfsservctl, EPERM), BOTH(process_madvise, EPERM), BOTH(memfd_secret, EPERM),

	BOTH(clone3, ENOSYS),
	{ "cachestat", 451, ENOSYS, ENOSYS },
	{ "fchmodat2", 452, 0, 0 },
	{ "listmount", 458, ENOSYS, ENOSYS },
	{ "mseal", 462, 0, 0 },
	{ "open_tree_attr", 467, EPERM, EPERM },
	{ "one the kernel may get some day", 600, ENOSYS, ENOSYS },
#ifdef __x86_64__
	BOTH(open, 0), BOTH(stat, 0), BOTH(fork, 0), BOTH(vfork, 0), BOTH(arch_prctl, 0),
	BOTH(mknod, 0), BOTH(iopl, EPERM), BOTH(ioperm, EPERM), BOTH(modify_ldt, EPERM),
	BOTH(uselib, EPERM), BOTH(ustat, EPERM), BOTH(sysfs, EPERM), BOTH(_sysctl, EPERM),
	BOTH(create_module, ENOSYS), BOTH(set_thread_area, ENOSYS), BOTH(vserver, ENOSYS),
	{ "a hole in the numbers", 400, ENOSYS, ENOSYS },
#endif
};
/* clang-format on */

static void test_important_calls(void)
{
	int bad = 0;

	CHECK(COUNT(important) >= 60);
	for (size_t i = 0; i < COUNT(important); i++) {
		const struct expected *want = &important[i];
		int standard = answer(STANDARD, want->nr, 0, 0, 0);
		int locked = answer(LOCKED, want->nr, 0, 0, 0);

		if (standard == want->standard && locked == want->locked)
			continue;
		printf("# %s: standard %d not %d, locked %d not %d\n", want->name, standard,
		       want->standard, locked, want->locked);
		bad++;
	}
	CHECK(bad == 0);
}

/* The errno that a plain word of the name table means, -1 for the name of a rule. */
static int word_errno(const char *word)
{
	if (strcmp(word, "allow") == 0)
		return 0;
	if (strcmp(word, "eperm") == 0)
		return EPERM;
	if (strcmp(word, "eopnotsupp") == 0)
		return EOPNOTSUPP;
	return strcmp(word, "enosys") == 0 ? ENOSYS : -1;
}

static int is_tested_rule(const char *word)
{
	static const char *const rules[] = { "new_namespace",  "socket",       "socketpair",
					     "setsockopt",     "ioctl",	       "mknod",
					     "mknodat",	       "personality",  "personality_query",
					     "madvise",	       "prctl",	       "engine_clone",
					     "engine_unshare", "engine_mount", "engine_umount",
					     "setid_mode1",    "setid_mode2",  "setid_create1",
					     "setid_create2" };

	for (size_t i = 0; i < COUNT(rules); i++)
		if (strcmp(word, rules[i]) == 0)
			return 1;
	return 0;
}

static int agrees(enum profile profile, int nr, const char *word)
{
	const uint64_t ones = UINT32_MAX;
	int want = word_errno(word);

	if (want < 0)
		return is_tested_rule(word);
	return answer(profile, nr, 0, 0, 0) == want &&
	       answer(profile, nr, ones, ones, ones) == want;
}

static void test_name_table(void)
{
	size_t next = 0;
	int bad = 0;

	for (int nr = 0; nr <= 600; nr++) {
		struct seccomp_name name = {
			"(no name)", nr, "enosys", "enosys", "enosys", "allow"
		};

		if (next < COUNT(seccomp_names) && seccomp_names[next].nr == nr)
			name = seccomp_names[next++];
		if (agrees(STANDARD, nr, name.standard) && agrees(LOCKED, nr, name.locked) &&
		    agrees(ENGINE, nr, name.engine) && agrees(SETID, nr, name.setid))
			continue;
		printf("# %d %s: is not %s, %s, %s, %s\n", nr, name.name, name.standard,
		       name.locked, name.engine, name.setid);
		bad++;
	}
	CHECK(next == COUNT(seccomp_names)); /* sorted, without doubles, all below 600 */
	CHECK(bad == 0);
}

static void test_foreign_abi(void)
{
	static const uint32_t arches[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, 0, UINT32_MAX,
#ifdef __x86_64__
					   AUDIT_ARCH_AARCH64
#else
					   AUDIT_ARCH_X86_64
#endif
	};
	const uint64_t args[6] = { 0 };

	for (int nr = 0; nr <= 600; nr++) {
		for (size_t i = 0; i < COUNT(arches); i++) {
			CHECK(answer_arch(STANDARD, arches[i], nr, args) == ENOSYS);
			CHECK(answer_arch(LOCKED, arches[i], nr, args) == ENOSYS);
			CHECK(answer_arch(ENGINE, arches[i], nr, args) == ENOSYS);
		}
		CHECK(answer(STANDARD, nr | X32_BIT, 0, 0, 0) == ENOSYS);
		CHECK(answer(LOCKED, nr | X32_BIT, 0, 0, 0) == ENOSYS);
		CHECK(answer(STANDARD, -nr - 1, 0, 0, 0) == ENOSYS);
		CHECK(answer(LOCKED, -nr - 1, 0, 0, 0) == ENOSYS);
	}
}

static void test_namespaces(void)
{
	static const uint64_t new_flags[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
					      CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
					      CLONE_NEWNET, CLONE_NEWTIME };
	const uint64_t fork_flags = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
	const uint64_t thread_flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
				      CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
				      CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	const uint64_t every_old_flag = UINT32_MAX & ~(uint64_t)0x7e020080;

	for (int p = STANDARD; p <= LOCKED; p++) {
		enum profile profile = (enum profile)p;

		for (size_t i = 0; i < COUNT(new_flags); i++) {
			CHECK(answer(profile, __NR_clone, new_flags[i], 0, 0) == EPERM);
			CHECK(answer(profile, __NR_clone, new_flags[i] | fork_flags, 0, 0) ==
			      EPERM);
			CHECK(answer(profile, __NR_unshare, new_flags[i], 0, 0) == EPERM);
			CHECK(answer(profile, __NR_unshare, new_flags[i] | CLONE_FS, 0, 0) ==
			      EPERM);
			CHECK(answer(profile, __NR_clone3, new_flags[i], 0, 0) == ENOSYS);
		}
		CHECK(answer(profile, __NR_clone, fork_flags, 0, 0) == 0);
		CHECK(answer(profile, __NR_clone, thread_flags, 0, 0) == 0);
		CHECK(answer(profile, __NR_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0) == 0);
		CHECK(answer(profile, __NR_clone, every_old_flag, 0, 0) == 0);
		CHECK(answer(profile, __NR_unshare, CLONE_FS | CLONE_FILES, 0, 0) == 0);
	}
}

static int mount_answer(enum profile profile, uint64_t flags)
{
	const uint64_t args[6] = { 0, 0, 0, flags, 0, 0 };

	return answer_arch(profile, NATIVE, __NR_mount, args);
}

/* The engine's filter: only what runsc does before it starts a program. */
static void test_engine_mounts(void)
{
	static const uint64_t good[] = {
		MS_SLAVE | MS_REC,
		MS_UNBINDABLE,
		MS_NOSUID | MS_NODEV | MS_NOEXEC,
		MS_BIND | MS_REC,
		MS_BIND | MS_REC | MS_RDONLY,
		MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		MS_BIND | MS_REC | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
	};
	static const uint64_t bad[] = { 0,
					MS_NOSUID,
					MS_NODEV,
					MS_MOVE,
					MS_BIND,
					MS_REMOUNT,
					MS_SHARED,
					MS_REMOUNT | MS_BIND,
					MS_SHARED | MS_REC };

	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK(mount_answer(ENGINE, good[i]) == 0);
		CHECK(mount_answer(STANDARD, good[i]) == EPERM);
		CHECK(mount_answer(LOCKED, good[i]) == EPERM);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(mount_answer(ENGINE, bad[i]) == EPERM);
	CHECK(mount_answer(ENGINE, MS_BIND | MS_REMOUNT | MS_RDONLY) == SKIPPED);
	CHECK(mount_answer(STANDARD, MS_BIND | MS_REMOUNT | MS_RDONLY) == EPERM);
	CHECK(answer(ENGINE, __NR_umount2, 0, MNT_DETACH, 0) == 0);
	CHECK(answer(ENGINE, __NR_umount2, 0, 0, 0) == EPERM);
	CHECK(answer(ENGINE, __NR_umount2, 0, MNT_FORCE, 0) == EPERM);
	CHECK(answer(ENGINE, __NR_pivot_root, 0, 0, 0) == 0);
	CHECK(answer(ENGINE, __NR_setns, 0, 0, 0) == EPERM);
	CHECK(answer(ENGINE, __NR_fsopen, 0, 0, 0) == EPERM);
	CHECK(answer(ENGINE, __NR_fsetxattr, 0, 0, 0) == EOPNOTSUPP);
}

static void test_engine_namespaces(void)
{
	static const uint64_t of_runsc =
		CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET | SIGCHLD;
	static const uint64_t never[] = { CLONE_NEWUSER, CLONE_NEWCGROUP, CLONE_NEWTIME };

	CHECK(answer(ENGINE, __NR_clone, of_runsc, 0, 0) == 0);
	CHECK(answer(ENGINE, __NR_unshare, CLONE_NEWUSER, 0, 0) == 0);
	CHECK(answer(ENGINE, __NR_unshare, CLONE_NEWNS, 0, 0) == 0);
	CHECK(answer(ENGINE, __NR_unshare, CLONE_NEWUSER | CLONE_NEWNS, 0, 0) == EPERM);
	CHECK(answer(ENGINE, __NR_unshare, CLONE_NEWNET, 0, 0) == EPERM);
	CHECK(answer(ENGINE, __NR_unshare, CLONE_NEWPID, 0, 0) == EPERM);
	CHECK(answer(ENGINE, __NR_unshare, CLONE_FILES, 0, 0) == 0);
	CHECK(answer(ENGINE, __NR_clone3, 0, 0, 0) == ENOSYS);
	for (size_t i = 0; i < COUNT(never); i++) {
		CHECK(answer(ENGINE, __NR_clone, never[i], 0, 0) == EPERM);
		CHECK(answer(ENGINE, __NR_clone, never[i] | of_runsc, 0, 0) == EPERM);
	}
}

/* What socket(FAMILY, TYPE, PROTO) must answer, written as straight-line reasoning. */
static int socket_errno(unsigned family, unsigned type, unsigned proto)
{
	if (family == AF_UNIX)
		return 0;
	if (family == AF_NETLINK)
		return proto == NETLINK_ROUTE ? 0 : EPROTONOSUPPORT;
	if (family != AF_INET && family != AF_INET6)
		return EAFNOSUPPORT;
	if (type == SOCK_STREAM && (proto == 0 || proto == IPPROTO_TCP))
		return 0;
	if (type == SOCK_DGRAM && (proto == 0 || proto == IPPROTO_UDP))
		return 0;
	return EPROTONOSUPPORT;
}

static void check_sockets(enum profile profile)
{
	static const unsigned protos[] = { 0,
					   IPPROTO_ICMP,
					   NETLINK_XFRM,
					   IPPROTO_TCP,
					   NETLINK_AUDIT,
					   NETLINK_NETFILTER,
					   NETLINK_KOBJECT_UEVENT,
					   NETLINK_GENERIC,
					   IPPROTO_UDP,
					   33,
					   IPPROTO_ICMPV6,
					   IPPROTO_SCTP,
					   IPPROTO_UDPLITE,
					   IPPROTO_RAW,
					   262,
					   UINT32_MAX };
	const unsigned flags = SOCK_CLOEXEC | SOCK_NONBLOCK;

	for (unsigned family = 0; family < 64; family++)
		for (unsigned type = 0; type < 16; type++)
			for (size_t i = 0; i < COUNT(protos); i++) {
				int want = socket_errno(family, type, protos[i]);

				CHECK(answer(profile, __NR_socket, family, type, protos[i]) ==
				      want);
				CHECK(answer(profile, __NR_socket, family, type | flags,
					     protos[i]) == want);
			}
	CHECK(answer(profile, __NR_socket, UINT32_MAX, SOCK_STREAM, 0) == EAFNOSUPPORT);
	CHECK(answer(profile, __NR_socket, AF_UNIX | 0x100, SOCK_STREAM, 0) == EAFNOSUPPORT);

	for (unsigned family = 0; family < 64; family++)
		CHECK(answer(profile, __NR_socketpair, family, SOCK_STREAM, 0) ==
		      (family == AF_UNIX ? 0 : EAFNOSUPPORT));

	CHECK(answer(profile, __NR_setsockopt, 3, SOL_TCP, TCP_ULP) == ENOPROTOOPT);
	CHECK(answer(profile, __NR_setsockopt, 3, IPPROTO_UDP, UDP_ENCAP) == ENOPROTOOPT);
	CHECK(answer(profile, __NR_setsockopt, 3, IPPROTO_UDPLITE, UDP_ENCAP) == ENOPROTOOPT);
	CHECK(answer(profile, __NR_setsockopt, 3, SOL_TCP, TCP_NODELAY) == 0);
	CHECK(answer(profile, __NR_setsockopt, 3, SOL_TCP, UDP_ENCAP) == 0);
	CHECK(answer(profile, __NR_setsockopt, 3, SOL_SOCKET, TCP_ULP) == 0);
	CHECK(answer(profile, __NR_setsockopt, 3, SOL_SOCKET, SO_REUSEADDR) == 0);
	CHECK(answer(profile, __NR_setsockopt, 3, IPPROTO_IPV6, 24 /* IPV6_MTU */) == ENOPROTOOPT);
	CHECK(answer(profile, __NR_setsockopt, 3, IPPROTO_IPV6, 26 /* IPV6_V6ONLY */) == 0);
	CHECK(answer(profile, __NR_madvise, 0, 0, 12 /* MADV_MERGEABLE */) == EINVAL);
	CHECK(answer(profile, __NR_madvise, 0, 0, 4 /* MADV_DONTNEED */) == 0);
	CHECK(answer(profile, __NR_prctl, 67 /* PR_SET_MEMORY_MERGE */, 1, 0) == EINVAL);
	CHECK(answer(profile, __NR_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1, 0) == 0);
}

static void test_sockets(void)
{
	check_sockets(STANDARD);
	check_sockets(ENGINE);
	check_sockets(LOCKED);
}

static void test_terminals_and_devices(void)
{
	static const unsigned types[] = { 0, S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK };

	for (int p = STANDARD; p <= LOCKED; p++) {
		enum profile profile = (enum profile)p;

		CHECK(answer(profile, __NR_ioctl, 0, TIOCSTI, 0) == EPERM);
		CHECK(answer(profile, __NR_ioctl, 0, TIOCLINUX, 0) == EPERM);
		CHECK(answer(profile, __NR_ioctl, 0, TIOCSETD, 0) == EPERM);
		CHECK(answer(profile, __NR_ioctl, 0, TIOCGWINSZ, 0) == 0);
		CHECK(answer(profile, __NR_ioctl, 0, TIOCSCTTY, 0) == 0);
		CHECK(answer(profile, __NR_ioctl, TIOCSTI, FIONREAD, TIOCSTI) == 0);

		for (size_t i = 0; i < COUNT(types); i++) {
			int want = types[i] == S_IFCHR || types[i] == S_IFBLK ? EPERM : 0;

			CHECK(answer(profile, __NR_mknodat, 0, 0, types[i] | 0777) == want);
			/* the kernel's mode has 16 bits */
			CHECK(answer(profile, __NR_mknodat, 0, 0, types[i] | 0x10000) == want);
#ifdef __NR_mknod
			CHECK(answer(profile, __NR_mknod, 0, types[i] | 0777, 0) == want);
#endif
		}
	}
}

static void test_personalities(void)
{
	static const uint64_t refused[] = { READ_IMPLIES_EXEC,
					    MMAP_PAGE_ZERO,
					    ADDR_COMPAT_LAYOUT,
					    PER_SVR4,
					    PER_BSD,
					    1,
					    ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC };
	static const uint64_t for_debuggers[] = { PER_LINUX32, UNAME26, UNAME26 | PER_LINUX32,
						  ADDR_NO_RANDOMIZE };

	for (size_t i = 0; i < COUNT(refused); i++) {
		CHECK(answer(STANDARD, __NR_personality, refused[i], 0, 0) == EPERM);
		CHECK(answer(LOCKED, __NR_personality, refused[i], 0, 0) == EPERM);
	}
	for (size_t i = 0; i < COUNT(for_debuggers); i++) {
		CHECK(answer(STANDARD, __NR_personality, for_debuggers[i], 0, 0) == 0);
		CHECK(answer(LOCKED, __NR_personality, for_debuggers[i], 0, 0) == EPERM);
	}
	CHECK(answer(STANDARD, __NR_personality, UINT32_MAX, 0, 0) == 0);
	CHECK(answer(LOCKED, __NR_personality, UINT32_MAX, 0, 0) == 0);
}

static int openat_answer(uint64_t flags, uint64_t mode)
{
	const uint64_t args[6] = { 3, 0, flags, mode, 0, 0 };

	return answer_arch(SETID, NATIVE, __NR_openat, args);
}

/* The filter of cells that can write to a directory of the machine. */
static void test_setid(void)
{
	static const uint64_t create[] = { O_CREAT, O_TMPFILE | O_RDWR, O_CREAT | O_EXCL };
	static const uint64_t open_only[] = { 0, O_RDWR, O_DIRECTORY, O_TRUNC };
	static const uint64_t bad[] = { S_ISUID, S_ISGID, S_ISUID | S_ISGID, S_ISUID | 0755 };
	static const uint64_t good[] = { 0, 0777, S_ISVTX | 0777, S_IFREG | 0644 };

	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK(answer(SETID, __NR_fchmod, 3, bad[i], 0) == EPERM);
		CHECK(answer(SETID, __NR_fchmodat, 3, 0, bad[i]) == EPERM);
		CHECK(answer(SETID, 452 /* fchmodat2 */, 3, 0, bad[i]) == EPERM);
		CHECK(answer(SETID, __NR_mknodat, 3, 0, bad[i]) == EPERM);
		for (size_t k = 0; k < COUNT(create); k++)
			CHECK(openat_answer(create[k], bad[i]) == EPERM);
		for (size_t k = 0; k < COUNT(open_only); k++)
			CHECK(openat_answer(open_only[k], bad[i]) == 0);
#ifdef __NR_chmod
		CHECK(answer(SETID, __NR_chmod, 0, bad[i], 0) == EPERM);
		CHECK(answer(SETID, __NR_creat, 0, bad[i], 0) == EPERM);
		CHECK(answer(SETID, __NR_mknod, 0, bad[i], 0) == EPERM);
		CHECK(answer(SETID, __NR_open, 0, O_CREAT, bad[i]) == EPERM);
		CHECK(answer(SETID, __NR_open, 0, O_RDWR, bad[i]) == 0);
#endif
	}
	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK(answer(SETID, __NR_fchmod, 3, good[i], 0) == 0);
		CHECK(answer(SETID, __NR_fchmodat, 3, 0, good[i]) == 0);
		CHECK(answer(SETID, __NR_mknodat, 3, 0, good[i]) == 0);
		for (size_t k = 0; k < COUNT(create); k++)
			CHECK(openat_answer(create[k], good[i]) == 0);
#ifdef __NR_chmod
		CHECK(answer(SETID, __NR_chmod, 0, good[i], 0) == 0);
		CHECK(answer(SETID, __NR_open, 0, O_CREAT, good[i]) == 0);
#endif
	}
	/* Its mode is behind a pointer. */
	CHECK(answer(SETID, __NR_openat2, 0, 0, 0) == ENOSYS);
	/* The profile's filter judges everything else. */
	CHECK(answer(SETID, __NR_mount, 0, 0, 0) == 0);
	CHECK(answer(SETID, __NR_fchmod | X32_BIT, 3, S_ISUID, 0) == 0);
	CHECK(answer_arch(SETID, AUDIT_ARCH_I386, __NR_fchmod, (uint64_t[6]){ 3, S_ISUID }) == 0);
}

/* What a filter answers to a call: of the kernel's values. */
static uint32_t raw_answer(const struct seccomp_variant *v, uint32_t arch, int nr,
			   const uint64_t args[6])
{
	const struct program p = { "variant", v->filter, v->n };
	struct seccomp_data data = { .nr = nr, .arch = arch };
	unsigned steps;

	memcpy(data.args, args, sizeof(data.args));
	return run(&p, &data, &steps);
}

static int is_traced(int nr)
{
	return nr == __NR_execve || nr == __NR_execveat || nr == __NR_exit_group;
}

static int is_called(int nr)
{
	static const int calls[] = { __NR_ptrace,
				     __NR_process_vm_readv,
				     __NR_process_vm_writev,
				     __NR_connect,
				     __NR_bind,
				     __NR_chroot,
				     __NR_setuid,
				     __NR_setresuid,
				     __NR_setgroups,
				     __NR_capset,
				     __NR_memfd_create };

	for (size_t i = 0; i < COUNT(calls); i++)
		if (calls[i] == nr)
			return 1;
	return is_traced(nr);
}

static int is_filed(int nr)
{
	static const int calls[] = {
#ifdef __NR_open
		__NR_open,     __NR_creat,    __NR_unlink,
		__NR_rmdir,    __NR_rename,   __NR_link,
#endif
#ifdef __NR_renameat
		__NR_renameat,
#endif
		__NR_openat,   __NR_openat2,  __NR_truncate,
		__NR_linkat,   __NR_unlinkat, __NR_renameat2
	};

	for (size_t i = 0; i < COUNT(calls); i++)
		if (calls[i] == nr)
			return 1;
	return 0;
}

/* With a watcher a call is answered as without one, but that EPERM comes from the watcher. Starts
 * and ends of programs are notified only where they are allowed: the watcher lets them pass. */
static void test_watched(void)
{
	static const uint64_t numbers[] = { 0, 1, 2, 3, 0x2000, 0x5412, 0x7e020080, UINT32_MAX };
	const uint32_t notify = SECCOMP_RET_USER_NOTIF, eperm = SECCOMP_RET_ERRNO | EPERM;

	for (size_t profile = 0; profile < 2; profile++) {
		const struct seccomp_variant *v = seccomp_variants[profile];

		CHECK(v[0].filter == programs[profile].code);
		for (int nr = -2; nr < 600; nr++)
			for (size_t i = 0; i < 64 * COUNT(numbers); i++) {
				const uint64_t args[6] = { numbers[i % 8], numbers[i / 8 % 8],
							   numbers[i / 64], numbers[i / 64] };
				uint32_t plain = raw_answer(&v[0], NATIVE, nr, args);
				uint32_t watched = raw_answer(&v[1], NATIVE, nr, args);
				uint32_t traced = raw_answer(&v[2], NATIVE, nr, args);

				CHECK(watched == (plain == eperm ? notify : plain));
				uint32_t called = raw_answer(&v[3], NATIVE, nr, args);
				uint32_t let_pass = plain == SECCOMP_RET_ALLOW ? notify : eperm;

				CHECK(traced == (is_traced(nr) ? let_pass : watched));
				CHECK(called == (is_called(nr) ? let_pass : watched));
				CHECK(raw_answer(&v[4], NATIVE, nr, args) ==
				      (is_filed(nr) ? let_pass : watched));
				CHECK(raw_answer(&v[2], AUDIT_ARCH_I386, nr, args) ==
				      (SECCOMP_RET_ERRNO | ENOSYS));
			}
	}
	CHECK(seccomp_variants[2]->filter == programs[ENGINE].code);
}

TEST_MAIN({ "the programs are valid, short and a tree", test_shape },
	  { "important calls get the answer of a hand-written table", test_important_calls },
	  { "every number agrees with the name table", test_name_table },
	  { "other architectures, x32 and negative numbers do not exist", test_foreign_abi },
	  { "no new namespaces by clone and unshare", test_namespaces },
	  { "sockets: families, types, protocols, options", test_sockets },
	  { "no typing into terminals, no devices", test_terminals_and_devices },
	  { "personalities", test_personalities }, { "engine: mounts", test_engine_mounts },
	  { "engine: namespaces", test_engine_namespaces },
	  { "filters with a watcher", test_watched },
	  { "no set-id bits in cells that write to the machine", test_setid })
