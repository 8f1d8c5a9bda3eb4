/* fake_engine.c - an engine for tests: the test itself is the guest, at the other end of the
 * descriptor that comes in the place of the kernel, or of the engine at level gvisor. Stopping and
 * going on do nothing; a snapshot is two small files. In the place of the root image is a text,
 * which is printed on the console; with F as its first letter the start fails, with S the first
 * snapshot, with D the engine ends during that, with P the guest is pinged often, with a digit the
 * kernel of the guest ends in that many starts. Linked into the test's shim in place of the real
 * engines. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "cell/engines/engine.h"
#include "cell/shim/guest_messages.h"
#include "lib/base/io.h"

struct engine {
	const struct engine_host *host;
	bool fails; /* the next snapshot, */
	bool dies;  /* and then it cannot let the guest go on */
	struct loop_timer panic;
	int other_end; /* of a guest that is to panic; else -1 */
};

static int starts;

static void on_panic(struct loop_timer *t)
{
	struct engine *g = t->arg;

	g->host->on_gone(g->host, BOOT_GUEST_PANICKED, "the fake guest's kernel has ended");
}

/* The test is not this guest. */
static void panic_soon(struct engine *g, struct engine_call *c)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	(void)close(c->fds[0]);
	c->fds[0] = pair[0];
	g->other_end = pair[1];
	loop_timer_set(g->host->loop, &g->panic, loop_now_ns(g->host->loop) + 50 * CLOCK_MS);
}

static struct engine *fake_new(const struct engine_host *host)
{
	struct engine *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->host = host;
	g->other_end = -1;
	g->panic = (struct loop_timer){ .on_expire = on_panic, .arg = g };
	return g;
}

static void fake_start(struct engine *g, const struct boot_request *r, const int *fds,
		       struct engine_call *c)
{
	char text[64] = "";
	struct err e = { 0 };
	bool shares = r->engine == BOOT_GVISOR; /* and has no root image */
	uint32_t guest = shares ? BOOT_FD_ENGINE : BOOT_FD_KERNEL;
	ssize_t n = shares ? 0
			   : pread(fds[boot_fds_index(r->fds, BOOT_FD_ROOT)], text,
				   sizeof(text) - 1, 0);

	if (n > 0 && write(g->host->console, text, (size_t)n) != n)
		abort();
	if (text[0] == 'F') {
		c->stage = BOOT_AT_ENGINE;
		errno = ENOEXEC;
		(void)err_sys(&e, "the fake engine does not start");
		completion_end(&c->done, &e);
		return;
	}
	g->dies = text[0] == 'D';
	g->fails = text[0] == 'S' || g->dies;
	if (text[0] == 'P')
		guest_messages_ping_ms = 50;
	c->fds[0] = fcntl(fds[boot_fds_index(r->fds, guest)], F_DUPFD_CLOEXEC, 3);
	c->accel = BOOT_ACCEL_TCG;
	if (text[0] > '0' && text[0] <= '9' && starts++ < text[0] - '0')
		panic_soon(g, c);
	(void)fcntl(c->fds[0], F_SETFL, O_RDWR | O_NONBLOCK);
	completion_end(&c->done, NULL);
}

static void fake_switch(struct engine *g, struct engine_call *c)
{
	completion_end(&c->done, NULL);
}

static void fake_go_on(struct engine *g, struct engine_call *c)
{
	struct err e = { 0 };

	if (!g->dies) {
		fake_switch(g, c);
		return;
	}
	errno = EPIPE;
	(void)err_sys(&e, "the fake engine has ended");
	completion_end(&c->done, &e);
}

static int sealed(const char *text, size_t n)
{
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, text, n) != (ssize_t)n ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		abort();
	return fd;
}

static void fake_snapshot(struct engine *g, struct engine_call *c)
{
	struct err e = { 0 };

	if (g->fails) {
		g->fails = false;
		c->stage = BOOT_AT_SNAPSHOT;
		errno = ENOSPC;
		(void)err_sys(&e, "the fake engine does not save");
		completion_end(&c->done, &e);
		return;
	}
	c->fds[0] = sealed("memory", 6);
	c->fds[1] = sealed("devices", 7);
	completion_end(&c->done, NULL);
}

static bool fake_on_exit(struct engine *g, pid_t pid, int status)
{
	return false;
}

static void fake_free(struct engine *g)
{
	loop_timer_cancel(g->host->loop, &g->panic);
	io_close_all(&g->other_end, 1);
	free(g);
}

static const struct engine_ops fake = {
	.name = "fake",
	.can_snapshot = true,
	.new = fake_new,
	.start = fake_start,
	.stop = fake_switch,
	.go_on = fake_go_on,
	.snapshot = fake_snapshot,
	.on_exit = fake_on_exit,
	.free = fake_free,
};

static const struct engine_ops sharing = {
	.name = "fake, with the cell's network",
	.shares_network = true,
	.new = fake_new,
	.start = fake_start,
	.stop = fake_switch,
	.go_on = fake_switch,
	.on_exit = fake_on_exit,
	.free = fake_free,
};

const struct engine_ops *engine_find(enum boot_engine engine)
{
	return engine == BOOT_MICROVM ? &fake : &sharing;
}
