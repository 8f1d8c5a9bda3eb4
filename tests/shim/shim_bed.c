#include "shim_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"

#define CHANNEL_FD 3

struct agent agent;
pid_t bed_shim;
int bed_guest = -1;
const struct agent_event bed_nothing;
struct boot_request bed_request = {
	.engine = BOOT_MICROVM,
	.fds = BOOT_FD_KERNEL | BOOT_FD_INITRD | BOOT_FD_ROOT,
	.vcpus = 1,
	.memory_bytes = 64U << 20,
	.pids = 100,
	.nofile = 1024,
	.hostname = "bed",
	.machine_id = "0123456789abcdef0123456789abcdef",
};

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static struct err e;
static uint8_t in[16U << 20];
static size_t in_at, in_have;

/* In the child: the shim, as PID 1 of a new pid namespace, with its channel at descriptor 3. */
static void run_shim(int channel)
{
	const char *path = secure_getenv("CORDON_TEST_SHIM");
	pid_t pid;

	/* Neither outlives a test that fails. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || unshare(CLONE_NEWPID) < 0)
		_exit(77);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(channel, CHANNEL_FD) < 0)
			_exit(1);
		(void)fcntl(CHANNEL_FD, F_SETFD, 0);
		(void)execl(path == NULL ? "build/shim_fake" : path, "cordon-shim", NULL);
		_exit(1);
	}
	(void)close(channel);
	for (;;) {
		int status;

		if (waitpid(pid, &status, 0) == pid)
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
	}
}

void bed_start(void)
{
	int pair[2], fd;

	if (getuid() != 0)
		SKIP("needs root");
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	bed_shim = fork();
	CHECK(bed_shim >= 0);
	if (bed_shim == 0) {
		(void)close(pair[0]); /* or the channel would never end */
		run_shim(pair[1]);
	}
	(void)close(pair[1]);
	agent_init(&agent, pair[0]);
	CHECK(bed_hear(AGENT_READY).pid == AGENT_VERSION);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/cordon-shim-%d.sock",
		       (int)getpid());
	(void)unlink(address.sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(agent_send_linger(&agent, fd, 60000, &e) == 0);
	CHECK(bed_hear(AGENT_LINGERING).sys == 0);
}

static int file_of(const char *text)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	return fd;
}

void bed_boot(const char *text)
{
	int pair[2], fds[BOOT_FDS_MAX];
	size_t n = 0;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	bed_guest = pair[0];
	for (uint32_t bit = 1; bit < BOOT_FDS_ALL; bit <<= 1) {
		if ((bed_request.fds & bit) == 0)
			continue;
		fds[n++] = bit == BOOT_FD_KERNEL || bit == BOOT_FD_ENGINE
				   ? pair[1]
				   : file_of(bit == BOOT_FD_ROOT ? text : "");
	}
	in_at = in_have = 0;
	CHECK(agent_send_boot(&agent, &bed_request, fds, &e) == 0);
}

void bed_boot_ready(void)
{
	struct agent_event v;

	bed_boot("");
	(void)guest_greet();
	guest_say_event(AGENT_SYNCED, &(struct agent_event){ 0 }, NULL, 0);
	v = bed_hear(AGENT_BOOTED);
	CHECK(v.sys == 0 && v.pid == BOOT_ACCEL_TCG);
}

bool bed_is_over(int ms)
{
	uint64_t end = clock_now_ns() + (unsigned)ms * CLOCK_MS;

	do {
		if (waitpid(bed_shim, NULL, WNOHANG) == bed_shim) {
			bed_shim = -1;
			return true;
		}
		(void)usleep(2000);
	} while (clock_now_ns() < end);
	return false;
}

void bed_end(void)
{
	if (bed_shim > 0) {
		CHECK(agent_send_end(&agent, &e) == 0);
		CHECK(bed_is_over(WAIT_MS));
	}
	agent_release(&agent);
	if (bed_guest >= 0)
		(void)close(bed_guest);
	(void)unlink(address.sun_path);
}

struct agent_event bed_hear(enum agent_type type)
{
	struct agent_event v = { 0 };
	enum agent_type got = 0;
	int n = agent_next(&agent, WAIT_MS, &got, &v, &e);

	if (n != 1 || got != type)
		printf("# %d: wanted event %d, got %d (stage %u, errno %d): %s\n", n, type, got,
		       v.stage, v.sys, n < 0 ? e.msg : "");
	CHECK(n == 1 && got == type);
	return v;
}

bool bed_is_silent(int ms)
{
	struct agent_event v;
	enum agent_type type;

	return agent_next(&agent, ms, &type, &v, &e) == 0;
}

void bed_take_fds(int *fds, size_t n)
{
	CHECK(agent.nfds == n);
	memcpy(fds, agent.fds, n * sizeof(int));
	agent.nfds = 0;
}

void bed_spawn(uint32_t handle, const char *script, uint32_t flags, uint64_t timeout_ms)
{
	char strings[4096];
	struct agent_spawn s = { .handle = handle,
				 .flags = flags,
				 .timeout_ms = timeout_ms,
				 .argc = 3,
				 .user = "root",
				 .cwd = "/",
				 .strings = strings };

	s.strings_len =
		(size_t)snprintf(strings, sizeof(strings), "/bin/sh%c-c%c%s", 0, 0, script) + 1;
	CHECK(agent_send_spawn(&agent, &s, &e) == 0);
}

void bed_reconnect(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	agent_release(&agent);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	agent_init(&agent, fd);
	CHECK(bed_hear(AGENT_READY).pid == AGENT_VERSION);
}

static void wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	CHECK(poll(&p, 1, WAIT_MS) == 1);
}

size_t bed_read(int fd, void *to, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got;

		wait_for(fd, POLLIN);
		got = read(fd, (char *)to + have, n - have);
		if (got < 0 && errno == EAGAIN)
			continue;
		CHECK(got >= 0);
		if (got == 0)
			break;
		have += (size_t)got;
	}
	return have;
}

void bed_write(int fd, const void *from, size_t n)
{
	size_t done = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	while (done < n) {
		ssize_t put;

		wait_for(fd, POLLOUT);
		put = write(fd, (const char *)from + done, n - done);
		if (put < 0 && (errno == EPIPE || errno == ECONNRESET))
			return; /* the shim has ended a guest that it does not believe */
		CHECK(put > 0 || (put < 0 && errno == EAGAIN));
		done += put > 0 ? (size_t)put : 0;
	}
}

void guest_say(uint16_t type, uint16_t stream, const void *body, size_t len)
{
	uint8_t head[FRAME_HEAD];

	frame_head_stream(head, type, stream, (uint32_t)len);
	bed_write(bed_guest, head, sizeof(head));
	if (len > 0)
		bed_write(bed_guest, body, len);
}

void guest_say_event(uint16_t type, const struct agent_event *v, const uint16_t *streams, size_t n)
{
	struct guest_event g = { .event = *v, .nstreams = n };
	uint8_t body[GUEST_TO_SHIM_MAX];

	if (n > 0)
		memcpy(g.streams, streams, n * sizeof(*streams));
	guest_say(type, 0, body, guest_event_write(&g, body));
}

/* Reads more; false after ms without any. */
static bool fill(int ms)
{
	struct pollfd p = { .fd = bed_guest, .events = POLLIN };
	ssize_t n;

	if (in_at > 0) {
		memmove(in, in + in_at, in_have - in_at);
		in_have -= in_at;
		in_at = 0;
	}
	if (poll(&p, 1, ms) != 1)
		return false;
	n = read(bed_guest, in + in_have, sizeof(in) - in_have);
	if (n <= 0)
		return false;
	in_have += (size_t)n;
	return true;
}

static struct frame next_frame(void)
{
	struct frame f = { 0 };
	int n;

	while ((n = frame_read_stream(in + in_at, in_have - in_at, sizeof(in) / 2, &f, &e)) == 0)
		CHECK(fill(WAIT_MS));
	CHECK(n > 0);
	in_at += (size_t)n;
	return f;
}

struct frame guest_find(uint16_t type)
{
	struct frame f;

	do
		f = next_frame();
	while (f.type != type);
	return f;
}

struct frame guest_hear(uint16_t type)
{
	struct frame f = next_frame();

	if (f.type != type)
		printf("# wanted frame %u, got %u of stream %u\n", type, f.type, f.stream);
	CHECK(f.type == type);
	return f;
}

bool guest_is_silent(int ms)
{
	return !fill(ms) && in_at == in_have;
}

uint64_t guest_greet(void)
{
	struct frame f = guest_hear(GUEST_HELLO);
	struct guest_hello h;
	struct guest_ready r = { .version = GUEST_VERSION };
	uint8_t body[GUEST_READY_SIZE];

	CHECK(guest_hello_read(&f, &h, &e) == 0);
	r.generation = h.generation;
	guest_ready_write(&r, body);
	guest_say(GUEST_READY, 0, body, sizeof(body));
	return h.generation;
}

uint32_t guest_start_program(uint16_t first, uint32_t flags)
{
	struct frame f = guest_find(AGENT_SPAWN);
	struct agent_event v = { .pid = 77, .mark = 1234, .flags = flags };
	uint16_t streams[GUEST_EVENT_FDS];
	struct agent_spawn s;

	CHECK(agent_spawn_read(f.body, f.len, &s, &e) == 0);
	CHECK(s.timeout_ms == 0); /* the shim enforces it */
	v.handle = s.handle;
	for (uint16_t i = 0; i < GUEST_EVENT_FDS; i++)
		streams[i] = (uint16_t)(first + 2 * i);
	guest_say_event(AGENT_STARTED, &v, streams, agent_event_fds(AGENT_STARTED, &v));
	return v.handle;
}

void bed_begin(void)
{
	bed_start();
	bed_boot_ready();
}

void bed_start_program(uint32_t handle, uint16_t first, int fds[3])
{
	bed_spawn(handle, "x", AGENT_HOLD, 0);
	CHECK(guest_start_program(first, BED_PIPES) == handle);
	CHECK(bed_hear(AGENT_STARTED).pid == 77);
	bed_take_fds(fds, 3);
}

void guest_say_data(uint16_t stream, const void *bytes, size_t n)
{
	guest_say(MUX_DATA, stream, bytes, n);
}
