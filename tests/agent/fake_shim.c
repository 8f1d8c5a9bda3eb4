#include "fake_shim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cell/keeper/restrict.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "test.h"

#define EGRESS_FD 8 /* keeper_msg.h */
#define DIAG_FD 9

struct seen_stream streams[MUX_NUMBERS];
const struct seen_stream *inherited;
pid_t guest_pid;
struct guest_ready last_ready;
unsigned npongs, nquiesced;
uint16_t last_opened;

static struct mux mux;
static int sock = -1;
static uint8_t in[1 << 20], out[1 << 20];
static size_t in_len, out_len;
static struct {
	uint16_t type;
	struct guest_event event;
} heard[1024];
static unsigned nheard, next_heard;

static char init_path[4096 + 16];

/* It stands beside this program. */
static void find_init(void)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	CHECK(n > 0);
	self[n] = '\0';
	slash = strrchr(self, '/');
	CHECK(slash != NULL);
	*slash = '\0';
	(void)snprintf(init_path, sizeof(init_path), "%s/cordon-init", self);
}

static ssize_t fill(void *arg, uint16_t number, void *stream_arg, uint8_t *to, size_t max)
{
	struct seen_stream *s = &streams[number];
	size_t n = s->send_len < max ? s->send_len : max;

	if (n == 0)
		return s->send_eof ? -1 : 0;
	memcpy(to, s->send, n);
	s->send += n;
	s->send_len -= n;
	return (ssize_t)n;
}

/* lo must be up before anything can be bound and reached. */
/* As for a cell. Returns the socket that becomes the listening one. */
static int make_network(void)
{
	int sys = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err e;

	if (sys < 0 || netns_setup(sys, &e) < 0)
		_exit(120);
	(void)close(sys);
	return fcntl(netns_egress_socket(), F_DUPFD, 21); /* kept by exec */
}

/* In place of gVisor's own cgroup, and of the machine's. */
static int make_cgroup(void)
{
	if (mount("cgroup", "/sys/fs/cgroup", "tmpfs", 0, NULL) < 0 ||
	    mkdir("/sys/fs/cgroup/pids", 0755) < 0)
		return -1;
	return creat("/sys/fs/cgroup/pids/pids.max", 0644);
}

static void become_guest(int end)
{
	int listener, high = fcntl(end, F_DUPFD, 20);
	int diag = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0 || make_cgroup() < 0)
		_exit(121);
	listener = make_network();
	if (dup2(listener, EGRESS_FD) < 0 || dup2(diag, DIAG_FD) < 0 || dup2(high, 3) < 0)
		_exit(122);
	(void)close(high);
	(void)execl(init_path, "cordon-init", "guest", (char *)NULL);
	_exit(123);
}

void shim_start(void)
{
	int pair[2];

	if (getuid() != 0)
		SKIP("needs root");
	find_init();
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET) == 0);
	guest_pid = fork();
	CHECK(guest_pid >= 0);
	if (guest_pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		become_guest(pair[1]);
	}
	(void)close(pair[1]);
	sock = pair[0];
	mux_init(&mux, MUX_SHIM, GUEST_TO_SHIM_MAX, fill, NULL);
}

static void put_out(const void *bytes, size_t n)
{
	CHECK(n <= sizeof(out) - out_len);
	memcpy(out + out_len, bytes, n);
	out_len += n;
}

void shim_send(uint16_t type, const void *body, size_t len)
{
	uint8_t head[FRAME_HEAD];

	frame_head(head, type, (uint32_t)len);
	put_out(head, sizeof(head));
	if (len > 0)
		put_out(body, len);
	(void)shim_step(0);
}

void shim_order(enum agent_type type, struct agent_order o)
{
	shim_send((uint16_t)type, &o, sizeof(o));
}

void shim_hello(uint64_t generation)
{
	struct guest_hello h = { .generation = generation, .flags = GUEST_EGRESS, .pids = 77 };
	uint8_t body[GUEST_HELLO_SIZE];
	size_t len;

	if (generation != last_ready.generation) {
		mux_init(&mux, MUX_SHIM, GUEST_TO_SHIM_MAX, fill, NULL);
		memset(streams, 0, sizeof(streams));
	}
	len = guest_hello_write(&h, body);
	CHECK(len > 0);
	last_ready.version = 0;
	shim_send(GUEST_HELLO, body, len);
	shim_until(last_ready.version != 0);
	CHECK(last_ready.generation == generation);
}

void shim_spawn(uint32_t handle, const char *script, uint32_t flags)
{
	char strings[8192];
	int n = snprintf(strings, sizeof(strings), "bash%c-c%c%s", 0, 0, script) + 1;
	struct agent_spawn s = { .handle = handle,
				 .flags = flags,
				 .rows = 24,
				 .cols = 80,
				 .argc = 3,
				 .user = "root",
				 .cwd = "/",
				 .strings = strings,
				 .strings_len = (size_t)n };
	uint8_t body[9000];

	CHECK(n < (int)sizeof(strings) && agent_spawn_size(&s) <= sizeof(body));
	agent_spawn_write(&s, body);
	shim_send(AGENT_SPAWN, body, agent_spawn_size(&s));
}

/* Events. */

static void on_message(const struct frame *f)
{
	struct guest_event v;
	struct err e = { 0 };

	if (f->type == GUEST_READY) {
		CHECK(guest_ready_read(f, &last_ready, &e) == 0);
		return;
	}
	if (f->type == GUEST_QUIESCED || f->type == GUEST_PONG) {
		CHECK(guest_empty_read(f, &e) == 0);
		nquiesced += f->type == GUEST_QUIESCED;
		npongs += f->type == GUEST_PONG;
		return;
	}
	CHECK(guest_event_read(f, &v, &e) == 0);
	for (size_t i = 0; i < v.nstreams; i++) {
		enum mux_way way = guest_event_way(&v.event, i);

		CHECK(mux_accept(&mux, v.streams[i], way == MUX_BOTH ? way : MUX_BOTH - way, NULL,
				 &e) == 0);
		streams[v.streams[i]] = (struct seen_stream){ .used = true };
		if (f->type == AGENT_HELD && i == 0 && inherited != NULL)
			streams[v.streams[i]] = *inherited;
	}
	CHECK(nheard < sizeof(heard) / sizeof(heard[0]));
	heard[nheard].type = f->type;
	heard[nheard++].event = v;
}

/* Output of a counting program: numbers of 8 bytes, one after the other. */
static void count(struct seen_stream *s, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t number;

		s->part[(s->total + i) % 8] = bytes[i];
		if ((s->total + i) % 8 != 7)
			continue;
		memcpy(&number, s->part, 8);
		s->wrong = s->wrong || number != s->next;
		s->next++;
	}
}

static void on_data(const struct mux_event *v)
{
	struct seen_stream *s = &streams[v->number];

	if (s->total < sizeof(s->text) - 1) {
		size_t room = sizeof(s->text) - 1 - (size_t)s->total;

		memcpy(s->text + s->total, v->bytes, v->len < room ? v->len : room);
	}
	count(s, v->bytes, v->len);
	s->total += v->len;
	if (!s->hold)
		mux_consumed(&mux, v->number, v->len);
}

static void on_event(const struct mux_event *v)
{
	struct seen_stream *s = &streams[v->number];

	if (v->kind == MUX_ON_MESSAGE) {
		on_message(&v->message);
	} else if (v->kind == MUX_ON_DATA) {
		on_data(v);
	} else if (v->kind == MUX_ON_EOF) {
		s->eof = true;
	} else if (v->kind == MUX_ON_OPENED) {
		s->opened = true;
	} else if (v->kind == MUX_ON_OPEN) {
		*s = (struct seen_stream){ .used = true, .open = v->open };
		last_opened = v->number;
	} else if (v->kind == MUX_ON_RESET) {
		s->over = true;
		s->clean = v->was_clean;
		s->sys = v->sys;
	}
}

static void handle_input(void)
{
	struct mux_event v;
	struct err e = { 0 };
	size_t at = 0;
	int took;

	while ((took = mux_read(&mux, in + at, in_len - at, &v, &e)) > 0) {
		on_event(&v);
		at += (size_t)took;
	}
	if (took < 0)
		printf("# %s\n", e.msg);
	CHECK(took == 0);
	memmove(in, in + at, in_len - at);
	in_len -= at;
}

bool shim_step(int ms)
{
	struct pollfd p = { sock, POLLIN, 0 };
	ssize_t n;
	size_t m;

	while (out_len + MUX_FRAME_MAX <= sizeof(out) &&
	       (m = mux_write(&mux, out + out_len, MUX_FRAME_MAX)) > 0)
		out_len += m;
	if (out_len > 0) {
		n = send(sock, out, out_len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0) {
			memmove(out, out + n, out_len - (size_t)n);
			out_len -= (size_t)n;
		}
		if (out_len > 0)
			p.events |= POLLOUT;
	}
	if (poll(&p, 1, ms) <= 0)
		return false;
	n = recv(sock, in + in_len, sizeof(in) - in_len, MSG_DONTWAIT);
	if (n <= 0)
		return false;
	in_len += (size_t)n;
	handle_input();
	return true;
}

struct guest_event shim_hear(enum agent_type type)
{
	shim_until(next_heard < nheard);
	if (heard[next_heard].type != type)
		printf("# heard %u, want %d\n", heard[next_heard].type, (int)type);
	CHECK(heard[next_heard].type == type);
	return heard[next_heard++].event;
}

struct guest_event shim_hear_in_time(enum agent_type type)
{
	do
		shim_until(next_heard < nheard);
	while (heard[next_heard++].type != type);
	return heard[next_heard - 1].event;
}

void shim_type(uint16_t stream, const char *text, size_t len, bool eof)
{
	CHECK(streams[stream].send_len == 0);
	streams[stream].send = text;
	streams[stream].send_len = len;
	streams[stream].send_eof = eof;
	mux_want(&mux, stream);
	(void)shim_step(0);
}

void shim_reset(uint16_t stream)
{
	mux_reset(&mux, stream, 0);
	(void)shim_step(0);
}

void shim_release(uint16_t stream)
{
	streams[stream].hold = false;
	mux_consumed(&mux, stream, (size_t)streams[stream].total);
}

uint16_t shim_dial(uint16_t port)
{
	const struct mux_open o = { .kind = MUX_DIAL, .port = port, .credit = 65536 };
	uint16_t number = mux_open(&mux, &o, NULL);

	CHECK(number != 0);
	streams[number] = (struct seen_stream){ .used = true };
	(void)shim_step(0);
	return number;
}

void shim_answer(uint16_t stream)
{
	mux_answer(&mux, stream, 65536);
	(void)shim_step(0);
}
