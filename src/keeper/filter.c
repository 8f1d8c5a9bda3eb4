/* filter.c - installs the system-call filters of a cell's PID 1, which all its programs inherit.
 *
 * The profile's filter is compiled at build time from syscalls.def, which is the policy and gives
 * the reason of each rule; this file only installs it. A second, small filter is written here: in
 * cells that can write to a directory of the machine, it refuses to make set-user-id and
 * set-group-id files.
 *
 * Called by cell_enter.c as its last step before exec. What must not change: filters are installed
 * before exec of cordon-init, and no rule depends on memory behind a pointer, which another thread
 * could change after the filter has read it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel.h"
#include "seccomp_program.h"
#include "restrict.h"

#define MODE_SETID 06000
#define NR_FCHMODAT2 452 /* Linux 6.6 */

static int install(const struct sock_filter *filter, size_t n, struct err *e)
{
	struct sock_fprog prog = { .len = (unsigned short)n,
				   .filter = (struct sock_filter *)(uintptr_t)filter };

	/* Needs no_new_privs or CAP_SYS_ADMIN in the user namespace; else EACCES. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return err_sys(e, "system-call filter");
	return 0;
}

int filter_calls(enum cell_profile profile, bool gvisor, struct err *e)
{
	if (gvisor)
		return install(seccomp_engine, COUNT(seccomp_engine), e);
	if (profile == CELL_LOCKED)
		return install(seccomp_locked, COUNT(seccomp_locked), e);
	return install(seccomp_standard, COUNT(seccomp_standard), e);
}

/* This filter does not check the architecture: the profile's filter refuses all but one. */
#define LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define REFUSE(error) RETURN(SECCOMP_RET_ERRNO | (error))

/* If the call is nr and argument `arg` has a set-id bit: EPERM. Leaves the number loaded. */
#define MODE_IN(nr, arg)                                                               \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(nr), 0, 4), LOAD(args[arg]),    \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MODE_SETID, 0, 1), REFUSE(EPERM), \
		RETURN(SECCOMP_RET_ALLOW)

/* The same for calls that take a mode only when they create. */
#define MODE_IF_CREATE(nr, flags, arg)                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(nr), 0, 6), LOAD(args[flags]),             \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), 0, 3), \
		LOAD(args[arg]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MODE_SETID, 0, 1),          \
		REFUSE(EPERM), RETURN(SECCOMP_RET_ALLOW)

int filter_setid(struct err *e)
{
	static const struct sock_filter program[] = {
		LOAD(nr),
		MODE_IN(SYS_fchmod, 1),
		MODE_IN(SYS_fchmodat, 2),
		MODE_IN(NR_FCHMODAT2, 2),
		MODE_IN(SYS_mknodat, 2),
		MODE_IF_CREATE(SYS_openat, 2, 3),
#ifdef SYS_chmod /* newer architectures do not have these calls */
		MODE_IN(SYS_chmod, 1),
		MODE_IN(SYS_creat, 1),
		MODE_IN(SYS_mknod, 1),
		MODE_IF_CREATE(SYS_open, 1, 2),
#endif
		/* Its mode is behind a pointer, where it cannot be checked. */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		REFUSE(ENOSYS),
		RETURN(SECCOMP_RET_ALLOW),
	};

	return install(program, COUNT(program), e);
}
