/* kvm_check.c - guests under a real KVM, as TAP: run by tests/vm/boot in a virtual machine whose
 * emulated processor has AMD's virtualization, so that KVM's code is tested on machines without
 * one. Times are printed for the reader; they say nothing about real processors.
 *
 *	kvm_check KERNEL INITRAMFS	(of guest_probe.c) */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "lib/base/clock.h"
#include "cell/engines/engine.h"
#include "cell/kernel/kvm_probe.h"

#define MIB 192
#define PATIENCE_MS 180000

struct guest {
	struct engine_host host;
	struct engine *engine;
	struct engine_call call;
	int stream;
	bool done;
	struct err err;
};

static struct loop *loop;
static struct guest *current;
static unsigned number;

static void report(bool good, const char *what, const char *why)
{
	printf("%sok %u - %s\n", good ? "" : "not ", ++number, what);
	if (!good)
		printf("# %s\n", why);
	(void)fflush(stdout);
	if (!good)
		exit(1);
}

static void took(const char *what, uint64_t from_ns)
{
	uint64_t ms = (clock_now_ns() - from_ns) / CLOCK_MS;

	printf("# %s: %" PRIu64 " ms\n", what, ms);
}

static void on_gone(const struct engine_host *h, enum boot_guest state, const char *why)
{
	printf("# gone: %s: %s\n", boot_guest_word(state), why);
	loop_stop(loop);
}

static void on_done(struct completion *c, const struct err *e)
{
	struct guest *g = c->arg;

	g->done = true;
	if (e != NULL)
		g->err = *e;
	loop_stop(loop);
}

static void on_child(struct loop_fd *f, uint32_t events)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	if (read(f->fd, &info, sizeof(info)) < 0)
		return;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (current != NULL)
			(void)engine_qemu.on_exit(current->engine, pid, status);
}

static void begin(struct guest *g)
{
	current = g;
	g->call =
		(struct engine_call){ .fds = { -1, -1 }, .done = { .on_done = on_done, .arg = g } };
	g->done = false;
	completion_begin(&g->call.done, loop, NULL);
}

static bool finish(struct guest *g)
{
	struct err e = { 0 };

	if (loop_run(loop, &e) < 0 || !g->done || g->err.code != ERR_NONE) {
		printf("# %s: %s %s\n", boot_stage_word(g->call.stage), g->err.msg, e.msg);
		return false;
	}
	return true;
}

/* fds: kernel and initramfs, or memory and devices. */
static bool start(struct guest *g, const int fds[2], bool restore)
{
	struct boot_request r = { .engine = BOOT_MICROVM,
				  .accel = BOOT_ACCEL_KVM,
				  .vcpus = 1,
				  .hostname = "guest",
				  .flags = restore ? BOOT_RESTORE : 0,
				  .fds = restore ? BOOT_FD_RAM | BOOT_FD_DEVICES
						 : BOOT_FD_KERNEL | BOOT_FD_INITRD,
				  .memory_bytes = (uint64_t)MIB << 20 };

	*g = (struct guest){ .host = { .loop = loop, .console = 2, .on_gone = on_gone } };
	g->engine = engine_qemu.new(&g->host);
	begin(g);
	engine_qemu.start(g->engine, &r, fds, &g->call);
	if (!finish(g))
		return false;
	g->stream = g->call.fds[0];
	return g->call.accel == BOOT_ACCEL_KVM;
}

static bool order(struct guest *g, void (*op)(struct engine *, struct engine_call *))
{
	begin(g);
	op(g->engine, &g->call);
	return finish(g);
}

/* Sends a line, or nothing, and reads one. */
static const char *ask(struct guest *g, const char *text)
{
	static char line[256];
	size_t n = 0;

	if (text != NULL && write(g->stream, text, strlen(text)) < 0)
		return "";
	while (n + 1 < sizeof(line)) {
		struct pollfd p = { .fd = g->stream, .events = POLLIN };

		if (poll(&p, 1, PATIENCE_MS) <= 0 || read(g->stream, line + n, 1) != 1 ||
		    line[n] == '\n')
			break;
		n++;
	}
	line[n] = '\0';
	return line;
}

static bool snapshot(struct guest *g, int ret[2])
{
	if (!order(g, engine_qemu.stop) || !order(g, engine_qemu.snapshot))
		return false;
	memcpy(ret, g->call.fds, sizeof(g->call.fds));
	return order(g, engine_qemu.go_on);
}

static void end(struct guest *g)
{
	current = NULL;
	engine_qemu.free(g->engine);
	fd_close(g->stream);
}

static void check_probe(void)
{
	struct kvm_probe probe;

	kvm_probe(&probe);
	printf("# %" PRIu64 " ps for an instruction\n", probe.picoseconds);
	report(probe.quality == KVM_GOOD, "KVM is found good", probe.why);
}

static void check_clone(const int image[2], const char *sum, int ret_next[2])
{
	uint64_t from = clock_now_ns();
	struct guest g;
	const char *found;

	report(start(&g, image, true), "a clone is restored", "");
	took("restored", from);
	report(order(&g, engine_qemu.go_on), "it goes on", "");
	found = strchr(ask(&g, "count\n"), ' ');
	took("first answer", from);
	report(found != NULL && strcmp(found, sum) == 0, "its memory is that of the image", sum);
	report(strcmp(ask(&g, "add x\n"), "x") == 0, "its file is its own", "");
	from = clock_now_ns();
	report(snapshot(&g, ret_next), "a clone is copied", "");
	took("copied", from);
	end(&g);
}

static void check_guests(const int boot[2])
{
	uint64_t from = clock_now_ns();
	int image[2], next[2], unused[2];
	struct guest g;
	char sum[64];

	report(start(&g, boot, false), "a guest is started under KVM", "");
	report(strcmp(ask(&g, NULL), "ready") == 0, "it boots", "no answer");
	took("boot", from);
	(void)ask(&g, "fill 8\n");
	const char *found = strchr(ask(&g, "count\n"), ' ');
	(void)snprintf(sum, sizeof(sum), "%s", found == NULL ? "" : found);
	report(snapshot(&g, image), "it is copied", "");
	end(&g);
	check_clone(image, sum, next);
	check_clone(image, sum, unused);
	report(start(&g, next, true) && order(&g, engine_qemu.go_on), "a clone of a clone", "");
	report(strcmp(ask(&g, "add y\n"), "xy") == 0, "it has the file of the clone", "");
	end(&g);
}

int main(int argc, char **argv)
{
	struct loop_fd children = { .fd = -1, .on_ready = on_child };
	struct err e = { 0 };
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	loop = loop_new(&e);
	if (argc != 3 || loop == NULL ||
	    loop_add(loop, &children, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), EPOLLIN, &e) <
		    0)
		return 2;
	const int boot[2] = { open(argv[1], O_RDONLY | O_CLOEXEC),
			      open(argv[2], O_RDONLY | O_CLOEXEC) };
	check_probe();
	check_guests(boot);
	printf("1..%u\n", number);
	return 0;
}
