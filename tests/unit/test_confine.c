/* What cordond cannot do any more once it is confined: each test confines its own process and
 * tries. */
#include "daemon/main/confine_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "lib/base/own.h"
#include "test.h"

#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup 425
#endif

/* True if a call failed just so. */
#define REFUSED(call, number) (errno = 0, (call) < 0 && errno == (number))

static char folder[] = "/tmp/cordon-confine-XXXXXX";
static int state_fd, run_fd;
static pid_t parent;

/* The two folders, beside one that is not for it, and a file in each. */
static void make_folders(void)
{
	static const char *const names[] = { "state", "run", "readable", "other" };

	CHECK(mkdtemp(folder) != NULL);
	CHECK(chdir(folder) == 0);
	for (size_t i = 0; i < COUNT(names); i++) {
		CHECK(mkdir(names[i], 0700) == 0);
		OWN_FD dir = open(names[i], O_RDONLY | O_DIRECTORY);
		OWN_FD file = openat(dir, "there", O_WRONLY | O_CREAT, 0755);

		CHECK(file >= 0 && write(file, "hello", 5) == 5);
	}
	state_fd = open("state", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	run_fd = open("run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(state_fd >= 0 && run_fd >= 0);
}

static void confine_or_fail(void)
{
	int readable = open("readable", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	    read[] = { readable, -1 };
	struct confine_folders f = { .folders = { state_fd, run_fd },
				     .read = read,
				     .nread = COUNT(read) };
	struct err e = { 0 };

	CHECK(readable >= 0);
	if (confine_daemon_files(&f, &e) < 0 || confine_daemon_calls(&e) < 0)
		printf("# %s\n", e.msg);
	CHECK(e.code == ERR_NONE);
}

/* Removed by a process that still may. */
static void with_folders(void (*test)(void))
{
	int status = 0;
	pid_t pid;

	make_folders();
	parent = getpid();
	(void)fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		confine_or_fail();
		test();
		(void)fflush(stdout);
		_exit(0); /* a leak checker would need what is forbidden now */
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(chdir("/") == 0);
	pid = fork();
	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", folder, (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void try_own_files(void)
{
	char text[8] = "";
	int fds[] = { state_fd, run_fd };

	for (size_t i = 0; i < COUNT(fds); i++) {
		OWN_FD old = openat(fds[i], "there", O_RDWR);
		OWN_FD new = openat(fds[i], "new", O_RDWR | O_CREAT, 0600);

		CHECK(old >= 0 && read(old, text, sizeof(text)) == 5);
		CHECK(new >= 0 && write(new, "x", 1) == 1 && ftruncate(new, 0) == 0);
		CHECK(mkdirat(fds[i], "sub", 0700) == 0);
		CHECK(renameat(fds[i], "new", fds[i], "sub/newer") == 0);
		CHECK(unlinkat(fds[i], "sub/newer", 0) == 0);
	}
	OWN_FD readable = open("readable/there", O_RDONLY);
	CHECK(readable >= 0);
	OWN_FD null = open("/dev/null", O_RDWR);
	CHECK(null >= 0);
}

static void own_files_work(void)
{
	with_folders(try_own_files);
}

static void try_other_files(void)
{
	static const char *const paths[] = { "/etc/passwd",	"/etc/hostname",
					     "/proc/self/mem",	"/proc/self/environ",
					     "/proc/1/cmdline", "/dev/zero",
					     "/usr/bin/env",	"other/there",
					     "/bin/sh" };

	for (size_t i = 0; i < COUNT(paths); i++) {
		if (!REFUSED(open(paths[i], O_RDONLY), EACCES))
			printf("# %s: errno %d\n", paths[i], errno);
		CHECK(errno == EACCES);
	}
	CHECK(REFUSED(open("/", O_RDONLY | O_DIRECTORY), EACCES));
	CHECK(REFUSED(open("other/there", O_WRONLY), EACCES));
	CHECK(REFUSED(open("readable/there", O_WRONLY), EACCES));
	CHECK(REFUSED(unlink("readable/there"), EACCES));
	CHECK(REFUSED(open("other/new", O_WRONLY | O_CREAT, 0600), EACCES));
	CHECK(REFUSED(openat(state_fd, "../other/there", O_RDONLY), EACCES));
	CHECK(REFUSED(unlink("other/there"), EACCES));
	CHECK(REFUSED(rename("state/there", "other/moved"), EXDEV) || errno == EACCES);
	CHECK(REFUSED(mkdir("other/sub", 0700), EACCES));
	CHECK(REFUSED(link("/etc/passwd", "state/passwd"), ENOSYS));
	CHECK(REFUSED(symlink("/etc/passwd", "state/passwd"), ENOSYS));
	CHECK(REFUSED(mknod("state/device", S_IFCHR, 0), ENOSYS));
}

static void other_files_do_not(void)
{
	if (landlock_abi() < 0)
		SKIP("this kernel has no Landlock");
	with_folders(try_other_files);
}

static void try_network(void)
{
	static const int families[] = {
		AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG
	};
	int pair[2];

	for (size_t i = 0; i < COUNT(families); i++) {
		CHECK(REFUSED(socket(families[i], SOCK_STREAM, 0), EAFNOSUPPORT));
		CHECK(REFUSED(socket(families[i], SOCK_DGRAM, 0), EAFNOSUPPORT));
		CHECK(REFUSED(socket(families[i], SOCK_RAW, 0), EAFNOSUPPORT));
	}
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
}

static void no_network(void)
{
	with_folders(try_network);
}

static struct sockaddr_un stranger = { .sun_family = AF_UNIX };
static socklen_t stranger_len;

static void try_stranger(void)
{
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(sock >= 0);
	CHECK(REFUSED(connect(sock, (const struct sockaddr *)&stranger, stranger_len), EPERM));
}

/* Abstract names belong to everybody of the network namespace. */
static void no_strangers_socket(void)
{
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int n = snprintf(stranger.sun_path + 1, sizeof(stranger.sun_path) - 1, "cordon-confine-%d",
			 (int)getpid());

	if (landlock_abi() < 6)
		SKIP("this kernel's Landlock knows no scopes");
	stranger_len = (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + (socklen_t)n;
	CHECK(bind(listener, (const struct sockaddr *)&stranger, stranger_len) == 0);
	CHECK(listen(listener, 1) == 0);
	with_folders(try_stranger);
}

static void try_programs(void)
{
	char path[] = "/bin/true", name[] = "true";
	char *const argv[] = { name, NULL }, *const envp[] = { NULL };

	CHECK(REFUSED(execve(path, argv, envp), ENOSYS));
	CHECK(REFUSED(syscall(SYS_execveat, state_fd, "there", argv, envp, 0), ENOSYS));
	CHECK(REFUSED(fork(), ENOSYS));
	CHECK(REFUSED(syscall(SYS_clone3, NULL, 0), ENOSYS));
}

static void no_program_starts(void)
{
	with_folders(try_programs);
}

static void try_others(void)
{
	CHECK(REFUSED(kill(parent, 0), ENOSYS));
	CHECK(REFUSED(ptrace(PTRACE_ATTACH, parent, NULL, NULL), ENOSYS));
	CHECK(REFUSED(syscall(SYS_process_vm_readv, parent, NULL, 0, NULL, 0, 0), ENOSYS));
	CHECK(REFUSED(syscall(SYS_pidfd_send_signal, -1, 0, NULL, 0), ENOSYS));
	CHECK(REFUSED(syscall(SYS_pidfd_getfd, -1, 0, 0), ENOSYS));
	CHECK(REFUSED(setuid(0), ENOSYS));
	CHECK(REFUSED(syscall(SYS_capset, NULL, NULL), ENOSYS));
	CHECK(REFUSED(syscall(SYS_unshare, 0x10000000), ENOSYS));
	CHECK(REFUSED(syscall(SYS_setns, -1, 0), ENOSYS));
	CHECK(REFUSED(syscall(SYS_mount, "a", "b", "c", 0, NULL), ENOSYS));
	CHECK(REFUSED(syscall(SYS_chroot, "/"), ENOSYS));
	CHECK(REFUSED(syscall(SYS_bpf, 0, NULL, 0), ENOSYS));
	CHECK(REFUSED(syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0), ENOSYS));
	CHECK(REFUSED(syscall(__NR_io_uring_setup, 1, NULL), ENOSYS));
	CHECK(REFUSED(syscall(SYS_keyctl, 0, 0, 0, 0, 0), ENOSYS));
}

static void others_are_safe(void)
{
	with_folders(try_others);
}

static void try_signal(void)
{
	CHECK(REFUSED(syscall(SYS_tgkill, parent, parent, 0), EPERM));
}

static void no_signal_to_others(void)
{
	if (landlock_abi() < 6)
		SKIP("this kernel's Landlock knows no scopes");
	with_folders(try_signal);
}

TEST_MAIN({ "own files work", own_files_work }, { "other files do not", other_files_do_not },
	  { "no network", no_network }, { "no stranger's socket", no_strangers_socket },
	  { "no program starts", no_program_starts }, { "others are safe", others_are_safe },
	  { "no signal to others", no_signal_to_others })
