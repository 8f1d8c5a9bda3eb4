/* guest_evil.c - /init of a guest whose kernel is hostile, for test_hostile_guest.py: first process
 * of the machine, with the true agent (/agent) in a pid namespace below it, so that the guest
 *boots, is saved and cloned as any other. It has all rights in the guest and waits for a program of
 *the session with a word "attack=NAME" in its command line; then it attacks what is outside:
 *
 *	garbage, credit		bytes that are no frames; frames that nothing has asked for
 *	replay			the bytes that the agent has sent last, again and again
 *	stall			the agent does not read or answer any more
 *	scribble		all free memory is written all the time
 *	console, disk		the rings of the device, by its registers (evil_rings.c)
 *	ports			random values at all ports of the processor
 *
 * Where an attack comes to an end, so does the machine. What it does is told on the console, the
 *last lines of which are in the server's log. */
#include "guest_evil.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE 65536
#define NSENT 16384

void evil_say(const char *fmt, ...)
{
	char text[256] = "evil: ";
	int fd = open("/evil/dev/ttyS0", O_WRONLY | O_CLOEXEC | O_NOCTTY);
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text + 6, sizeof(text) - 8, fmt, args);
	va_end(args);
	(void)!write(fd, text, strlen(text));
	(void)!write(fd, "\n", 1);
	(void)close(fd);
}

static int number(const char *text)
{
	return (int)strtol(text, NULL, 10); /* 0: it is none */
}

/* ---- the agent's port */

static int port_of(pid_t pid)
{
	char path[400], to[64];
	struct dirent **list;
	int found = -1, n;

	(void)snprintf(path, sizeof(path), "/evil/proc/%d/fd", pid);
	n = scandir(path, &list, NULL, NULL);
	for (int i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "/evil/proc/%d/fd/%s", pid, list[i]->d_name);
		ssize_t len = readlink(path, to, sizeof(to) - 1);

		to[len > 0 ? len : 0] = '\0';
		if (strncmp(to, "/dev/vport", 10) == 0)
			found = number(list[i]->d_name);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return found;
}

/* The process that has the port open, and which descriptor it is. */
static pid_t agent(int *ret_fd)
{
	DIR *d = opendir("/evil/proc");
	pid_t found = 0;

	for (struct dirent *e; d != NULL && found == 0 && (e = readdir(d)) != NULL;) {
		pid_t pid = number(e->d_name);

		if (pid > 1 && (*ret_fd = port_of(pid)) >= 0)
			found = pid;
	}
	if (d != NULL)
		(void)closedir(d);
	return found;
}

static int steal_port(void)
{
	int fd = -1;
	pid_t pid = agent(&fd);
	int p = (int)syscall(SYS_pidfd_open, pid, 0);
	int port = (int)syscall(SYS_pidfd_getfd, p, fd, 0);

	if (port < 0)
		evil_say("no port: agent %d, descriptor %d", pid, fd);
	return port;
}

static void send_all(int port, const unsigned char *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		struct pollfd p = { .fd = port, .events = POLLOUT };
		ssize_t n = write(port, bytes + at, len - at);

		if (n > 0)
			at += (size_t)n;
		else
			(void)poll(&p, 1, 100);
	}
}

static void send_frame(int port, unsigned type, unsigned stream, unsigned len)
{
	static unsigned char frame[8 + 16384];
	const unsigned head[] = { len & 255, len >> 8 & 255, 0,		 0, type,
				  0,	     stream & 255,   stream >> 8 };

	for (int i = 0; i < 8; i++)
		frame[i] = (unsigned char)head[i];
	send_all(port, frame, 8 + len);
}

static void garbage(void)
{
	static unsigned char bytes[PIECE];
	int port = steal_port();

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)rand();
	evil_say("garbage begins");
	for (;;)
		send_all(port, bytes, sizeof(bytes));
}

/* Credit and bytes for streams that are not there. */
static void credit(void)
{
	int port = steal_port();

	evil_say("credit begins");
	for (unsigned i = 2;; i += 2) {
		send_frame(port, 192, i % 4096, 16384);
		send_frame(port, 194, i % 4096, 4);
	}
}

/* What the agent writes to its port: the last of it. */
static size_t overhear(unsigned char *to, size_t cap)
{
	int fd = -1, status;
	pid_t pid = agent(&fd);
	struct user_regs_struct r;
	size_t n = 0;

	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0)
		return 0;
	while (n == 0 && waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
		if (WSTOPSIG(status) == (SIGTRAP | 0x80) &&
		    ptrace(PTRACE_GETREGS, pid, NULL, &r) == 0 && (int)r.rdi == fd &&
		    r.orig_rax == SYS_write && (long)r.rax > 0) {
			const struct iovec here = { to, cap < r.rax ? cap : r.rax };
			const struct iovec there = { (void *)r.rsi, here.iov_len };
			ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);

			n = got > 0 ? (size_t)got : 0;
		}
		(void)ptrace(n == 0 ? PTRACE_SYSCALL : PTRACE_DETACH, pid, NULL, NULL);
	}
	return n;
}

static void replay(void)
{
	static unsigned char sent[NSENT];
	int port = steal_port();
	size_t n = overhear(sent, sizeof(sent));

	evil_say("replay of %zu bytes begins", n);
	for (;;)
		send_all(port, sent, n);
}

static void stall(void)
{
	int fd;

	evil_say("stall begins");
	(void)kill(agent(&fd), SIGSTOP);
	(void)pause();
}

/* ---- memory, ports */

static void scribble(void)
{
	size_t size = 24 << 20;
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile unsigned long *at = map;

	for (unsigned long k = 1; map != MAP_FAILED; k = k * 6364136223846793005UL + 1)
		at[k % (size / sizeof(*at))] = k;
	_exit(0);
}

static void ports(void)
{
	if (iopl(3) < 0) {
		evil_say("there are no ports");
		return;
	}
	evil_say("ports begins");
	for (unsigned i = 0; i < 200000; i++) {
		unsigned port = (unsigned)rand() & 0xfffc;

		if (port >= 0x3f8 && port < 0x400)
			continue; /* the console is needed */
		if (i % 3 == 0)
			outb((unsigned char)rand(), (unsigned short)port);
		else if (i % 3 == 1)
			outl((unsigned)rand(), (unsigned short)port);
		else
			(void)inl((unsigned short)port);
	}
}

/* ---- orders */

static const struct {
	const char *name;
	void (*run)(void);
} attacks[] = {
	{ "garbage", garbage },	     { "credit", credit },     { "replay", replay },
	{ "stall", stall },	     { "scribble", scribble }, { "ports", ports },
	{ "console", evil_console }, { "disk", evil_disk },
};

static void obey(const char *order)
{
	for (size_t i = 0; i < sizeof(attacks) / sizeof(*attacks); i++) {
		int status = 0;
		pid_t pid;

		if (strcmp(order, attacks[i].name) != 0 || fork() != 0)
			continue;
		pid = fork();
		if (pid == 0) {
			attacks[i].run();
			_exit(0);
		}
		(void)waitpid(pid, &status, 0);
		evil_say("%s has ended: %#x", order, (unsigned)status);
		(void)reboot(RB_AUTOBOOT);
	}
}

/* The word in the command line of a program of the session. */
static void look(char *last, size_t cap)
{
	DIR *d = opendir("/evil/proc");
	char path[64], text[512];

	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
		(void)snprintf(path, sizeof(path), "/evil/proc/%d/cmdline", number(e->d_name));
		int fd = number(e->d_name) > 1 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

		(void)close(fd);
		for (ssize_t at = 0; at + 7 < n; at++) {
			text[n] = '\0';
			if (memcmp(text + at, "attack=", 7) != 0 ||
			    strcmp(text + at + 7, last) == 0)
				continue;
			(void)snprintf(last, cap, "%.20s", text + at + 7);
			obey(last);
		}
	}
	if (d != NULL)
		(void)closedir(d);
}

int main(void)
{
	char last[24] = "";
	char *argv[] = { (char[]){ "/init" }, NULL };

	if (syscall(SYS_clone, SIGCHLD | CLONE_NEWPID | CLONE_NEWNS, NULL, NULL, NULL, 0) == 0) {
		(void)execv("/agent", argv);
		_exit(1);
	}
	(void)mkdir("/evil", 0755);
	(void)mkdir("/evil/proc", 0755);
	(void)mkdir("/evil/sys", 0755);
	(void)mkdir("/evil/dev", 0755);
	(void)mount("dev", "/evil/dev", "devtmpfs", 0, NULL);
	(void)mount("proc", "/evil/proc", "proc", 0, NULL);
	(void)mount("sys", "/evil/sys", "sysfs", 0, NULL);
	for (;;) {
		(void)usleep(100000);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		look(last, sizeof(last));
	}
}
