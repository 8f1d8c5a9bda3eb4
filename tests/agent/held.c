#include "lib/base/rand.h"
#include "held.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "cell/cellctl/keeper_client.h"
#include "cell/template/template.h"
#include "test.h"

struct agent agent;
pid_t pid1;
int pid1_fd = -1;
bool held_locked;
const char *held_cwd = "/tmp";

static struct keeper_client keeper;
static struct template template;
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static struct err e;

/* A pid1_fd tells the number. */
static pid_t number_of(int fd)
{
	char path[64], text[1024];
	const char *at;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	CHECK(io_read_file(AT_FDCWD, path, text, sizeof(text), &e) > 0);
	at = strstr(text, "\nPid:");
	CHECK(at != NULL);
	return (pid_t)strtol(at + 5, NULL, 10);
}

void held_make_cell(unsigned pids)
{
	struct keeper_create r;
	struct keeper_reply reply;
	int pair[2], fds[1 + CELL_LAYERS_MAX];

	if (getuid() != 0)
		SKIP("needs root");
	CHECK(template_open("host", NULL, &template, &e) == 0);
	CHECK(keeper_client_start(&keeper, false, &e) == 0 &&
	      keeper_client_hello(&keeper, &e) == 0);
	memset(&r, 0, sizeof(r));
	r.op = KEEPER_CREATE;
	r.uid = r.gid = 1000;
	r.profile = held_locked ? CELL_LOCKED : CELL_STANDARD;
	r.limits = (struct cell_limits){ .memory_bytes = 512U << 20,
					 .cpu_millis = 2000,
					 .pids = pids,
					 .disk_bytes = 64U << 20,
					 .inodes = 16384,
					 .nofile = 2048 };
	(void)snprintf(r.id, sizeof(r.id), "agent-%d", (int)getpid());
	(void)snprintf(r.hostname, sizeof(r.hostname), "cordon");
	rand_machine_id(r.machine_id);
	r.nlayers = template.nlayers;
	memcpy(r.layer_at, template.at, sizeof(r.layer_at));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	agent_init(&agent, pair[0]);
	fds[0] = pair[1];
	memcpy(fds + 1, template.fds, template.nlayers * sizeof(int));
	if (keeper_client_call(&keeper, &r, sizeof(r), fds, 1 + template.nlayers, &reply, &pid1_fd,
			       &e) < 0) {
		printf("# %s\n", e.msg);
		FAIL("no cell");
	}
	(void)close(pair[1]);
	pid1 = number_of(pid1_fd);
	CHECK(held_hear(AGENT_READY).pid == AGENT_VERSION);
}

void held_end_cell(void)
{
	agent_release(&agent);
	keeper_client_stop(&keeper, NULL);
	template_release(&template);
	(void)close(pid1_fd);
	if (address.sun_path[0] != '\0')
		(void)unlink(address.sun_path);
}

void held_linger(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/cordon-agent-%d.sock",
		       (int)getpid());
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(agent_send_linger(&agent, fd, 0, &e) == 0);
	CHECK(held_hear(AGENT_LINGERING).sys == 0);
}

void held_disconnect(void)
{
	agent_release(&agent);
}

void held_connect(int *ret_old)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct ucred peer;
	socklen_t len = sizeof(peer);

	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	/* By this a daemon knows that it talks to the right one. */
	CHECK(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid == pid1);
	if (ret_old != NULL) {
		*ret_old = agent.sock;
		agent.sock = -1;
	}
	agent_release(&agent);
	agent_init(&agent, fd);
}

void held_reconnect(void)
{
	held_disconnect();
	held_connect(NULL);
	CHECK(held_hear(AGENT_READY).pid == AGENT_VERSION);
}

void held_ask_spawn(uint32_t handle, const char *script, uint32_t flags, uint64_t timeout_ms)
{
	char strings[8192];
	struct agent_spawn s = { .handle = handle,
				 .flags = flags,
				 .rows = 24,
				 .cols = 80,
				 .timeout_ms = timeout_ms,
				 .user = "",
				 .cwd = held_cwd,
				 .strings = strings };

	if ((flags & AGENT_BUILTIN) != 0) {
		s.strings_len = (size_t)snprintf(strings, sizeof(strings), "%s", script) + 1;
		s.argc = 1;
		for (size_t i = 0; i < s.strings_len; i++)
			if (strings[i] == ' ') {
				strings[i] = '\0';
				s.argc++;
			}
	} else {
		s.argc = 3;
		s.strings_len = (size_t)snprintf(strings, sizeof(strings), "/bin/bash%c-c%c%s", 0,
						 0, script) +
				1;
	}
	CHECK(agent_send_spawn(&agent, &s, &e) == 0);
}

pid_t held_spawn(uint32_t handle, const char *script, uint32_t flags, uint64_t timeout_ms, int *fds)
{
	struct agent_event v;

	held_ask_spawn(handle, script, flags, timeout_ms);
	v = held_hear(AGENT_STARTED);
	CHECK(v.handle == handle && v.pid > 1);
	CHECK(((v.flags & AGENT_IS_HELD) != 0) == ((flags & AGENT_HOLD) != 0));
	CHECK(((v.flags & AGENT_IS_TTY) != 0) == ((flags & AGENT_TTY) != 0));
	if (fds != NULL)
		held_take_fds(fds, agent.nfds);
	return (pid_t)v.pid;
}

struct agent_event held_hear(enum agent_type type)
{
	struct agent_event v;
	enum agent_type got = 0;
	int n = agent_next(&agent, WAIT_MS, &got, &v, &e);

	if (n != 1 || got != type)
		printf("# %d: wanted message %d, got %d: %s\n", n, type, got, n < 0 ? e.msg : "");
	CHECK(n == 1 && got == type);
	return v;
}

struct agent_event held_hear_in_time(enum agent_type type)
{
	uint64_t end = clock_now_ns() + WAIT_MS * CLOCK_MS;
	struct agent_event v;
	enum agent_type got = 0;

	while (clock_now_ns() < end)
		if (agent_next(&agent, WAIT_MS, &got, &v, &e) == 1 && got == type)
			return v;
	FAIL("not in time");
	return v;
}

bool held_is_silent(int ms)
{
	struct agent_event v;
	enum agent_type type;

	return agent_next(&agent, ms, &type, &v, &e) == 0;
}

void held_take_fds(int *fds, size_t n)
{
	CHECK(agent.nfds == n);
	memcpy(fds, agent.fds, n * sizeof(int));
	agent.nfds = 0;
}

void held_expect(int fd, const char *text)
{
	char got[65536];
	size_t have = 0;
	uint64_t end = clock_now_ns() + WAIT_MS * CLOCK_MS;

	got[0] = '\0';
	while (clock_now_ns() < end && have < sizeof(got) - 1) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		(void)poll(&p, 1, 100);
		n = read(fd, got + have, sizeof(got) - 1 - have);
		if (n == 0)
			break;
		if (n < 0 && errno == EAGAIN)
			continue;
		CHECK(n > 0);
		have += (size_t)n;
		got[have] = '\0';
		if (text != NULL && strstr(got, text) != NULL)
			return;
	}
	if (text == NULL)
		return;
	printf("# output: '%s', want '%s'\n", got, text);
	FAIL("other output");
}

void held_type(int fd, const char *text)
{
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

unsigned held_processes(void)
{
	CHECK(agent_send_stat(&agent, &e) == 0);
	return (unsigned)held_hear(AGENT_STATED).processes;
}

void held_wait_processes(unsigned n)
{
	uint64_t end = clock_now_ns() + WAIT_MS * CLOCK_MS;
	unsigned got;

	while ((got = held_processes()) != n && clock_now_ns() < end)
		held_sleep(5);
	if (got != n)
		printf("# %u processes, want %u\n", got, n);
	CHECK(got == n);
}

bool held_is_over(int ms)
{
	struct pollfd p = { .fd = pid1_fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

void held_sleep(int ms)
{
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	(void)nanosleep(&t, NULL);
}
