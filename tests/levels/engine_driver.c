/* engine_driver.c - the QEMU engine (src/cell/engines/qemu/engine_qemu.c) alone, without shim and
 * cell, for test_engine_qemu.py and benches.
 *
 * Descriptor 3 is a sequenced-packet socket of the test. A request is one word; with "start" comes
 * " MIB SET" and the descriptors of that set of enum boot_fd, and with "changes" how many MiB of
 * changes are enough as a snapshot. Each is answered by one message: "ok", for a snapshot that has
 * changes only "changes", and the descriptors of the result, or "error STAGE TEXT". "gone STATE
 * TEXT" comes at any time. The end of input frees the engine and ends the program. The console goes
 * to descriptor 4. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "cell/engines/engine.h"
#include "lib/base/io.h"

enum { TEST_FD = 3, CONSOLE_FD = 4 };

static struct loop *loop;
static struct engine_host host;
static struct engine *engine;
static struct engine_call call;
static bool ended;

static void say(const char *text, const int *fds, size_t n)
{
	struct err e = { 0 };

	if (io_send(TEST_FD, text, strlen(text), fds, n, &e) < 0)
		exit(1);
}

static void on_gone(const struct engine_host *h, enum boot_guest state, const char *why)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "gone %s %s", boot_guest_word(state), why);
	say(text, NULL, 0);
}

static void on_done(struct completion *c, const struct err *e)
{
	char text[512];
	size_t n = call.fds[1] >= 0 ? 2 : call.fds[0] >= 0 ? 1 : 0;

	if (e != NULL) {
		(void)snprintf(text, sizeof(text), "error %s %s", boot_stage_word(call.stage),
			       e->msg);
		say(text, NULL, 0);
		return;
	}
	say(call.only_changes ? "changes" : "ok", call.fds, n);
	io_close_all(call.fds, COUNT(call.fds));
}

static void start(const char *text, const int *fds)
{
	struct boot_request r = {
		.engine = BOOT_MICROVM, .accel = BOOT_ACCEL_TCG, .vcpus = 1, .hostname = "guest"
	};
	unsigned long mib = 0;
	unsigned set = 0, kvm = 0;

	if (sscanf(text, "start %lu %u %u", &mib, &set, &kvm) < 2)
		exit(1);
	r.accel = kvm != 0 ? BOOT_ACCEL_KVM : BOOT_ACCEL_TCG;
	r.memory_bytes = (uint64_t)mib << 20;
	r.fds = set;
	r.flags = (set & BOOT_FD_RAM) != 0 ? BOOT_RESTORE : 0;
	engine_qemu.start(engine, &r, fds, &call);
}

static void on_request(struct loop_fd *f, uint32_t events)
{
	char text[128];
	int fds[BOOT_FDS_MAX];
	size_t n = 0;
	struct err e = { 0 };
	ssize_t len = io_recv(f->fd, text, sizeof(text) - 1, fds, COUNT(fds), &n, &e);

	if (len <= 0) {
		ended = true;
		loop_stop(loop);
		return;
	}
	text[len] = '\0';
	call = (struct engine_call){ .fds = { -1, -1 }, .done = { .on_done = on_done } };
	completion_begin(&call.done, loop, NULL);
	if (strncmp(text, "start", 5) == 0)
		start(text, fds);
	else if (strcmp(text, "stop") == 0)
		engine_qemu.stop(engine, &call);
	else if (strcmp(text, "go_on") == 0)
		engine_qemu.go_on(engine, &call);
	else if (strcmp(text, "snapshot") == 0)
		engine_qemu.snapshot(engine, &call);
	else if (strncmp(text, "changes ", 8) == 0) {
		call.changes_max = strtoull(text + 8, NULL, 10) << 20;
		engine_qemu.snapshot(engine, &call);
	}
	io_close_all(fds, n);
}

static void on_child(struct loop_fd *f, uint32_t events)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	if (read(f->fd, &info, sizeof(info)) < 0)
		return;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		(void)engine_qemu.on_exit(engine, pid, status);
}

int main(void)
{
	struct err e = { 0 };
	struct loop_fd requests = { .fd = -1, .on_ready = on_request };
	struct loop_fd children = { .fd = -1, .on_ready = on_child };
	sigset_t set;

	(void)fcntl(TEST_FD, F_SETFD, FD_CLOEXEC);
	(void)fcntl(CONSOLE_FD, F_SETFD, FD_CLOEXEC);
	(void)sigfillset(&set);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	loop = loop_new(&e);
	host = (struct engine_host){ .loop = loop, .console = CONSOLE_FD, .on_gone = on_gone };
	engine = loop == NULL ? NULL : engine_qemu.new(&host);
	if (engine == NULL || loop_add(loop, &requests, TEST_FD, EPOLLIN, &e) < 0 ||
	    loop_add(loop, &children, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), EPOLLIN, &e) <
		    0 ||
	    loop_run(loop, &e) < 0) {
		(void)fprintf(stderr, "engine_driver: %s\n", e.msg);
		return 1;
	}
	engine_qemu.free(engine);
	return ended ? 0 : 1;
}
