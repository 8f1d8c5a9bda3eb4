/* restrict.c - PID 1 of a cell gives up capabilities, descriptors, files and system calls. See
 * restrict.h. cell_enter.c has the order.
 *
 * The filters of system calls are compiled at build time from syscalls.def: the policy, with the
 * reason of each rule. This file only installs them. Invariant: they are installed before exec of
 * cordon-init, and no rule depends on memory behind a pointer, which another thread could change
 * after the filter has read it. */
#include "cell/keeper/restrict.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "lib/base/landlock.h"
#include "seccomp_program.h"

/* The standard profile: what root needs for useradd, apt-get, sudo and chown. Nothing that reaches
 * devices, networks, mounts, the memory of other processes or the clock. The capabilities are valid
 * in the cell's user namespace only. */
static const uint8_t standard_caps[] = {
	CAP_CHOWN,   CAP_DAC_OVERRIDE,	   CAP_FOWNER,	   CAP_FSETID,
	CAP_KILL,    CAP_SETGID,	   CAP_SETUID,	   CAP_SETPCAP,
	CAP_SETFCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_AUDIT_WRITE,
};

int restrict_drop_caps(enum cell_profile profile, bool file_caps, struct err *e)
{
	uint64_t keep = 0;

	for (size_t i = 0; profile == CELL_STANDARD && i < COUNT(standard_caps); i++)
		keep |= 1ULL << standard_caps[i];
	if (!file_caps)
		keep &= ~(1ULL << CAP_SETFCAP);
	/* No exec can gain a capability outside of the bounding set. The kernel answers EINVAL for
	 * the number after its last capability. */
	for (unsigned cap = 0; cap < 64; cap++) {
		if ((keep & 1ULL << cap) != 0)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL && cap > CAP_AUDIT_READ)
				break;
			return err_sys(e, "drop capability %u", cap);
		}
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, "clear ambient capabilities");
	return 0;
}

int restrict_only_fds(int *fds, unsigned n, int first, uint64_t cloexec, struct err *e)
{
	/* First to high numbers, so that none is overwritten before it is moved. */
	for (unsigned i = 0; i < n; i++)
		if (fds[i] >= 0 && (fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64)) < 0)
			return err_sys(e, "descriptors");
	for (unsigned i = 0; i < n; i++, first++)
		if (fds[i] < 0)
			fd_close(first);
		else if (dup3(fds[i], first, (cloexec & 1ULL << first) != 0 ? O_CLOEXEC : 0) < 0)
			return err_sys(e, "descriptors");
	if (kernel_close_range((unsigned)first, ~0U) < 0)
		return err_sys(e, "close descriptors");
	return 0;
}

int restrict_landlock_abi(void)
{
	int abi = landlock_abi();

	/* Version 1 refuses every rename between directories, which programs of a cell need. */
	return abi < 2 ? 0 : abi;
}

int restrict_landlock(struct err *e)
{
	int abi = restrict_landlock_abi();

	if (abi == 0)
		return 0;
	OWN_FD fd = landlock_open(abi, 0);
	if (fd < 0)
		return err_sys(e, "landlock rule set");
	OWN_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_sys(e, "open /");
	const struct landlock_path_beneath_attr rule = { landlock_fs_all(abi), root };
	if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0U) < 0 ||
	    syscall(SYS_landlock_restrict_self, fd, 0U) < 0)
		return err_sys(e, "landlock");
	return 0;
}

int restrict_keyring(struct err *e)
{
	/* ENOSYS: a kernel without keyrings has none to search. */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return err_sys(e, "session keyring");
	return 0;
}

int restrict_rlimits(uint64_t nofile, struct err *e)
{
	const struct {
		const char *name;
		uint8_t what; /* int or enum: libcs differ */
		uint64_t value;
	} table[] = {
		{ "nofile", RLIMIT_NOFILE, nofile },
		{ "core", RLIMIT_CORE, 0 },
		{ "rtprio", RLIMIT_RTPRIO, 0 },
		{ "nice", RLIMIT_NICE, 0 },
		{ "memlock", RLIMIT_MEMLOCK, 8 << 20 },
		{ "msgqueue", RLIMIT_MSGQUEUE, 819200 },
		{ "sigpending", RLIMIT_SIGPENDING, 4096 },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct rlimit now, want = { table[i].value, table[i].value };

		/* No more than the keeper has. nofile, the first, is part of the request and is an
		 * error instead. */
		if (getrlimit(table[i].what, &now) == 0 && i > 0 && now.rlim_max < want.rlim_max)
			want.rlim_cur = want.rlim_max = now.rlim_max;
		if (setrlimit(table[i].what, &want) < 0)
			return err_sys(e, "rlimit %s", table[i].name);
	}
	return 0;
}

int restrict_no_new_privs(struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "no_new_privs");
	return 0;
}

/* Needs no_new_privs or CAP_SYS_ADMIN in the user namespace. Else EACCES. */
static int restrict_filter(const struct sock_filter *filter, size_t n, unsigned flags)
{
	struct sock_fprog prog = { .len = (unsigned short)n,
				   .filter = (struct sock_filter *)(uintptr_t)filter };

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
}

int restrict_calls(unsigned profile, enum restrict_watch watch, int *ret_listener, struct err *e)
{
	/* A received call waits for its answer, through all signals (0x20). */
	unsigned flags = watch >= RESTRICT_TRACED ? SECCOMP_FILTER_FLAG_NEW_LISTENER | 0x20
						  : SECCOMP_FILTER_FLAG_NEW_LISTENER;
	const struct seccomp_variant *v = seccomp_variants[profile];

	if (watch != RESTRICT_UNWATCHED &&
	    (*ret_listener = restrict_filter(v[watch].filter, v[watch].n, flags)) >= 0)
		return 0;
	/* Also where a container around the server has a listener: there can be one. */
	return restrict_filter(v->filter, v->n, 0) < 0 ? err_sys(e, "system-call filter") : 0;
}

int restrict_setid(struct err *e)
{
	return restrict_filter(seccomp_setid, COUNT(seccomp_setid), 0) < 0
		       ? err_sys(e, "system-call filter")
		       : 0;
}
