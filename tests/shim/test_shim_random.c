/* Goal: no order of requests of a server and of frames of a guest makes the shim fail: a sanitized
 * shim with a fake engine, a server and a guest that do something at random. A guest that breaks
 *the protocol is ended, and so is the shim; nothing else ends it but END.
 *
 *	CORDON_TEST_SEED	the first run's seed (default: the time)
 *	CORDON_TEST_RUNS	how many (default 40)
 *	CORDON_TEST_SHIM	the sanitized program
 *
 * Each run is a process with a network of its own: a shim connects where its guest asks it to. What
 * the guest says mostly fits what it was asked for, or the first frame would be the last. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "shim_bed.h"

#define STEPS 400
#define HANDLES 6
#define STREAMS 24 /* the lowest numbers */
#define FDS_MAX 64
#define END_MS 500

static uint64_t state;
static struct err e;
static int fds[FDS_MAX]; /* pipes and sockets that the server has */
static unsigned nfds;
static uint64_t generation;
static uint16_t next_stream; /* of the guest: odd */
static unsigned quiesces, pings, stats, kills;
static uint32_t asked[HANDLES]; /* flags of the last SPAWN */
static bool is_asked[HANDLES], tree_asked[HANDLES], is_running[HANDLES];
static uint16_t outputs[FDS_MAX]; /* streams of programs that the guest may write to */
static unsigned noutputs;

static uint32_t any(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 33) % below;
}

/* ---- the server */

static void keep(int fd)
{
	if (nfds == FDS_MAX)
		(void)close(fds[--nfds]);
	fds[nfds++] = fd;
}

/* False: the shim has ended. */
static bool hear(void)
{
	enum agent_type type;
	struct agent_event v;
	int n;

	while ((n = agent_next(&agent, 0, &type, &v, &e)) > 0) {
		for (unsigned i = 0; i < agent.nfds; i++)
			keep(agent.fds[i]);
		agent.nfds = 0;
	}
	return n == 0;
}

static void use_pipes(void)
{
	static char bytes[70000];
	unsigned i = nfds == 0 ? 0 : any(nfds);

	if (nfds == 0)
		return;
	(void)fcntl(fds[i], F_SETFL, O_NONBLOCK | fcntl(fds[i], F_GETFL));
	if (any(4) == 0) {
		(void)close(fds[i]);
		fds[i] = fds[--nfds];
	} else if (any(2) == 0) {
		(void)!write(fds[i], bytes, any(sizeof(bytes)));
	} else {
		(void)!read(fds[i], bytes, any(sizeof(bytes)));
	}
}

/* Another server; the shim may end in the same moment. */
static bool reconnect(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	(void)snprintf(to.sun_path, sizeof(to.sun_path), "/tmp/cordon-shim-%d.sock", (int)getpid());
	agent_release(&agent);
	agent_init(&agent, fd);
	return connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 && hear();
}

static bool serve(void)
{
	static const uint32_t flags[] = { AGENT_HOLD,	  AGENT_HOLD | AGENT_TTY,     0,
					  AGENT_NO_STDIN, AGENT_HOLD | AGENT_RESULTS, AGENT_TTY,
					  AGENT_BUILTIN };
	uint32_t h = any(HANDLES);
	struct boot_request r = bed_request;
	int sent = 0;

	r.flags = r.fds = 0;
	switch (any(16)) {
	case 0:
	case 1:
	case 2: {
		const struct agent_spawn s = { .handle = h,
					       .flags = flags[any(COUNT(flags))],
					       .timeout_ms = any(3) == 0 ? any(50) : 0,
					       .argc = 1,
					       .user = "",
					       .cwd = "",
					       .strings = "x",
					       .strings_len = 2 };

		sent = agent_send_spawn(&agent, &s, &e);
		break;
	}
	case 3:
		sent = agent_send_kill_tree(&agent, h, any(2) == 0 ? any(4) : 0, &e);
		break;
	case 4:
		sent = agent_send_forget(&agent, h, &e);
		break;
	case 5:
		sent = agent_send_dial(&agent, 100 + any(40), (uint16_t)(1 + any(200)), &e);
		break;
	case 6:
		sent = agent_send_stat(&agent, &e);
		break;
	case 7:
		sent = agent_send_snapshot(&agent, any(4) == 0, any(2) == 0 ? 1 << 20 : 0, &e);
		break;
	case 8:
		sent = agent_send_resume(&agent, &r, &e);
		break;
	case 9:
		sent = any(3) == 0 ? agent_send_kill_all(&agent, &e)
				   : agent_send_signal(&agent, h, 1 + (int)any(30), &e);
		break;
	case 10:
		sent = agent_send_close_stdin(&agent, h, &e);
		break;
	case 11:
		sent = agent_send_paused(&agent, any(100), &e);
		break;
	case 12:
		sent = agent_send_listen_egress(&agent, -1, &e);
		break;
	case 13:
		if (any(6) == 0)
			return reconnect();
		break;
	default:
		use_pipes();
	}
	return (sent == 0 || e.code == ERR_LIMIT || e.reason == REASON_UNAVAILABLE) && hear();
}

/* ---- the guest */

static void say(uint16_t type, uint16_t stream, const void *body, size_t len)
{
	static uint8_t frame[FRAME_HEAD + MUX_DATA_MAX];

	frame_head_stream(frame, type, stream, (uint32_t)len);
	if (len > 0)
		memcpy(frame + FRAME_HEAD, body, len);
	/* Whole or not at all; a little that does not fit is a guest that breaks off. */
	(void)send(bed_guest, frame, FRAME_HEAD + len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_event(uint16_t type, uint32_t h, uint32_t flags, size_t nstreams)
{
	struct guest_event g = { .event = { .handle = h, .pid = 5, .flags = flags },
				 .nstreams = nstreams };
	uint8_t body[GUEST_TO_SHIM_MAX];

	for (size_t i = 0; i < nstreams; i++) {
		g.streams[i] = next_stream;
		next_stream = (uint16_t)((next_stream + 2) % MUX_NUMBERS);
		if ((i > 0 || (flags & AGENT_HAS_STDIN) == 0) && noutputs < FDS_MAX)
			outputs[noutputs++] = g.streams[i];
	}
	say(type, 0, body, guest_event_write(&g, body));
}

static void say_ready(void)
{
	const struct guest_ready r = { .generation = generation, .version = GUEST_VERSION };
	uint8_t body[GUEST_READY_SIZE];

	guest_ready_write(&r, body);
	say(GUEST_READY, 0, body, sizeof(body));
}

/* What it was asked for. */
static void note(const struct frame *f)
{
	struct guest_hello h;
	struct agent_spawn s;
	struct agent_order o;
	bool is_new;

	if (f->type == GUEST_HELLO && guest_hello_read(f, &h, &e) == 0) {
		is_new = h.generation != generation;
		generation = h.generation;
		say_ready();
		if (is_new)
			say_event(AGENT_SYNCED, 0, 0, 0);
	} else if (f->type == AGENT_SPAWN && agent_spawn_read(f->body, f->len, &s, &e) == 0 &&
		   s.handle < HANDLES) {
		is_asked[s.handle] = true;
		asked[s.handle] = s.flags;
	} else if (f->type == AGENT_KILL_TREE && f->len >= sizeof(o)) {
		memcpy(&o, f->body, sizeof(o));
		if (o.handle < HANDLES)
			tree_asked[o.handle] = true;
	}
	quiesces += f->type == GUEST_QUIESCE;
	pings += f->type == GUEST_PING;
	stats += f->type == AGENT_STAT;
	kills += f->type == AGENT_KILL_ALL;
}

/* Reads what there is, and notes it. */
static void listen_to_shim(void)
{
	static uint8_t in[8U << 20];
	static size_t have;
	struct frame f;
	size_t at = 0;
	ssize_t n = recv(bed_guest, in + have, sizeof(in) - have, MSG_DONTWAIT);
	int took;

	have += n > 0 ? (size_t)n : 0;
	while ((took = frame_read_stream(in + at, have - at, sizeof(in) / 2, &f, &e)) > 0) {
		note(&f);
		at += (size_t)took;
	}
	memmove(in, in + at, have - at);
	have -= at;
}

static uint32_t shape(uint32_t flags)
{
	return ((flags & AGENT_HOLD) != 0 ? (uint32_t)AGENT_IS_HELD : 0) |
	       ((flags & AGENT_TTY) != 0 ? (uint32_t)AGENT_IS_TTY : 0) |
	       ((flags & AGENT_NO_STDIN) == 0 ? (uint32_t)AGENT_HAS_STDIN : 0) |
	       ((flags & AGENT_RESULTS) != 0 ? (uint32_t)AGENT_HAS_RESULTS : 0);
}

static void say_start(uint32_t h)
{
	uint32_t flags = shape(asked[h]);
	size_t n = ((flags & AGENT_IS_TTY) != 0 ? 1U : 2U) + ((flags & AGENT_HAS_STDIN) != 0) +
		   ((flags & AGENT_HAS_RESULTS) != 0);

	is_asked[h] = false;
	is_running[h] = any(6) != 0;
	if (is_running[h])
		say_event(AGENT_STARTED, h, flags, n);
	else
		say_event(AGENT_FAILED, h, 0, 0);
}

/* Of a program; within its first credit. */
static void say_output(void)
{
	static uint8_t bytes[2000];
	unsigned i = any(noutputs);

	if (any(5) != 0) {
		say(MUX_DATA, outputs[i], bytes, 1 + any(sizeof(bytes) - 1));
		return;
	}
	say(MUX_EOF, outputs[i], NULL, 0);
	outputs[i] = outputs[--noutputs];
}

static void say_stream(void)
{
	static uint8_t bytes[65536];
	uint16_t stream = (uint16_t)(1 + any(STREAMS));
	uint32_t number = any(3) == 0 ? any(1 << 20) : 0;

	switch (any(6)) {
	case 0:
	case 1:
		say(MUX_DATA, stream, bytes, 1 + any(sizeof(bytes)));
		break;
	case 2:
		say(MUX_EOF, stream, NULL, 0);
		break;
	case 3:
		say(MUX_CREDIT, stream, &number, sizeof(number));
		break;
	case 4:
		say(MUX_RESET, stream, &(uint32_t){ any(200) }, sizeof(number));
		break;
	default:
		for (size_t i = 0; i < MUX_OPEN_SIZE; i++)
			bytes[i] = any(3) == 0 ? (uint8_t)any(256) : 0;
		bytes[0] = (uint8_t)(1 + any(3));
		bytes[1] = any(2) == 0 ? 4 : 6;
		bytes[2] = (uint8_t)any(256);
		say(MUX_OPEN, (uint16_t)(stream | 1), bytes, MUX_OPEN_SIZE);
	}
}

static void say_garbage(void)
{
	uint8_t bytes[64];
	size_t n = any(sizeof(bytes));

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)any(256);
	if (any(2) == 0)
		say((uint16_t)any(256), (uint16_t)any(8), bytes, n);
	else
		(void)send(bed_guest, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer(void)
{
	uint32_t h = any(HANDLES);

	if (quiesces > 0 && any(2) == 0) {
		quiesces--;
		say(GUEST_QUIESCED, 0, NULL, 0);
	} else if (pings > 0) {
		pings--;
		say(GUEST_PONG, 0, NULL, 0);
	} else if (stats > 0) {
		stats--;
		say_event(AGENT_STATED, 0, 0, 0);
	} else if (kills > 0) {
		kills--;
		say_event(AGENT_ALL_DEAD, 0, 0, 0);
	} else if (is_asked[h]) {
		say_start(h);
	} else if (tree_asked[h]) {
		tree_asked[h] = false;
		say_event(AGENT_TREE_DEAD, h, 0, 0);
	} else if (is_running[h] && any(4) == 0) {
		is_running[h] = false;
		say_event(AGENT_EXITED, h, 0, 0);
	} else if (noutputs > 0) {
		say_output();
	}
}

/* wild: one frame in so many does not fit. */
static void guest(uint32_t wild)
{
	listen_to_shim();
	if (any(wild) != 0)
		answer();
	else if (any(3) == 0)
		say_garbage();
	else if (any(4) == 0)
		say_event((uint16_t)(AGENT_STARTED + any(12)), any(HANDLES + 2), any(1 << 9),
			  any(GUEST_EVENT_FDS + 1));
	else
		say_stream();
}

/* ---- a run */

static void run(void)
{
	const uint32_t wild = 4U << any(8);
	const char *texts[] = { "", "P", "S", "D", "2" };
	int status = 0;

	(void)setenv("ASAN_OPTIONS", "exitcode=86:detect_leaks=0", 1);
	(void)setenv("UBSAN_OPTIONS", "exitcode=86:halt_on_error=1", 1);
	(void)signal(SIGPIPE, SIG_IGN);
	CHECK(unshare(CLONE_NEWNET) == 0);
	next_stream = 1;
	bed_start();
	if (any(3) == 0)
		bed_request.engine = BOOT_GVISOR;
	if (bed_request.engine == BOOT_GVISOR) {
		bed_request.fds = BOOT_FD_ENGINE | BOOT_FD_INIT;
		bed_request.vcpus = 0;
	}
	bed_boot(texts[any(COUNT(texts))]);
	for (unsigned i = 0; i < STEPS; i++) {
		if (!serve())
			break;
		guest(wild);
		if (any(8) == 0)
			(void)usleep(1000);
	}
	IGNORED(agent_send_end(&agent, &e), "it may have ended");
	for (int ms = 0; ms < END_MS; ms += 5) {
		(void)hear();
		if (waitpid(bed_shim, &status, WNOHANG) != 0) {
			/* 1: it has ended its guest, or what the server sent; 86: a report; 99: a
			 * signal. */
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
			_exit(0);
		}
		(void)usleep(5000);
	}
	/* END waits behind a request that the guest does not answer: a server kills such a cell. */
	CHECK(kill(bed_shim, SIGKILL) == 0);
	_exit(0);
}

static uint64_t number(const char *name, uint64_t usual)
{
	const char *text = secure_getenv(name);

	return text == NULL ? usual : strtoull(text, NULL, 10);
}

static void at_random(void)
{
	uint64_t first = number("CORDON_TEST_SEED", (uint64_t)time(NULL));
	uint64_t runs = number("CORDON_TEST_RUNS", 40);

	if (getuid() != 0)
		SKIP("needs root");
	for (uint64_t seed = first; seed < first + runs; seed++) {
		int status;
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0) {
			state = seed * 0x9e3779b97f4a7c15U | 1;
			run();
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		if (status != 0)
			printf("# seed %llu (CORDON_TEST_SEED)\n", (unsigned long long)seed);
		CHECK(status == 0);
	}
}

TEST_MAIN({ "a server and a guest at random", at_random })
