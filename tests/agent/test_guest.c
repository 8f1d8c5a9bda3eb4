/* Goal: cordon-init as PID 1 of a guest does over one connection what PID 1 of a cell does with
 * descriptors: programs, their bytes in both directions, terminals, trees, held programs. No byte
 * is lost or sent twice when the connection is stopped, or another shim takes it over. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/clock.h"
#include "fake_shim.h"
#include "test.h"

static void begin(void)
{
	shim_start();
	shim_hello(1);
	CHECK(last_ready.refused == 0 && last_ready.version == GUEST_VERSION);
	(void)shim_hear(AGENT_SYNCED);
}

/* Until PID 1 is the only process. */
static void wait_alone(void)
{
	for (;;) {
		shim_order(AGENT_STAT, (struct agent_order){ 0 });
		if (shim_hear(AGENT_STATED).event.processes == 1)
			return;
		(void)shim_step(50);
	}
}

static void runs_programs(void)
{
	struct guest_event v;
	uint16_t out, errors;

	begin();
	shim_spawn(7, "echo hello; echo oops >&2; exit 3", AGENT_NO_STDIN);
	v = shim_hear(AGENT_STARTED);
	CHECK(v.nstreams == 2 && v.event.handle == 7 && v.event.mark != 0);
	out = v.streams[0], errors = v.streams[1];
	v = shim_hear(AGENT_EXITED);
	/* EXITED comes behind the output. */
	CHECK_STR(streams[out].text, "hello\n");
	CHECK_STR(streams[errors].text, "oops\n");
	CHECK(v.event.exit_code == 3);
	shim_until(streams[out].over && streams[errors].over);
	CHECK(streams[out].clean);
	shim_spawn(8, "exec /nowhere", 0);
	CHECK(shim_hear(AGENT_STARTED).nstreams == 3);
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 127);
	wait_alone();
}

static void sets_limits(void)
{
	struct guest_event v;

	begin();
	shim_spawn(1, "cat /sys/fs/cgroup/pids/pids.max", AGENT_NO_STDIN);
	v = shim_hear(AGENT_STARTED);
	(void)shim_hear(AGENT_EXITED);
	CHECK_STR(streams[v.streams[0]].text, "77");
}

static void delivers_input(void)
{
	static char text[1 << 20];
	struct guest_event v;

	begin();
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 23);
	shim_spawn(1, "tee >(cat >&2) | cksum", 0);
	v = shim_hear(AGENT_STARTED);
	CHECK(v.nstreams == 3);
	shim_type(v.streams[0], text, sizeof(text), true);
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 0);
	shim_until(streams[v.streams[2]].eof && streams[v.streams[0]].over);
	CHECK(streams[v.streams[2]].total == sizeof(text));
	CHECK(memcmp(streams[v.streams[2]].text, text, 4000) == 0);
	/* A program that closes its input. */
	shim_spawn(2, "exec <&-; sleep 0.1; echo done", 0);
	v = shim_hear(AGENT_STARTED);
	shim_type(v.streams[0], text, sizeof(text), false);
	(void)shim_hear(AGENT_EXITED);
	shim_until(streams[v.streams[0]].over);
	CHECK(streams[v.streams[0]].sys == EPIPE);
}

static void keeps_slow_readers_apart(void)
{
	struct guest_event slow, fast;

	begin();
	shim_spawn(1, "yes | head -c 2000000", AGENT_NO_STDIN);
	slow = shim_hear(AGENT_STARTED);
	streams[slow.streams[0]].hold = true;
	shim_spawn(2, "yes | head -c 2000000", AGENT_NO_STDIN);
	fast = shim_hear(AGENT_STARTED);
	CHECK(shim_hear(AGENT_EXITED).event.handle == 2);
	CHECK(streams[fast.streams[0]].total == 2000000);
	shim_until(streams[slow.streams[0]].total >= MUX_WINDOW - 8192);
	while (shim_step(50))
		;
	CHECK(streams[slow.streams[0]].total <= MUX_WINDOW);
	shim_release(slow.streams[0]);
	CHECK(shim_hear(AGENT_EXITED).event.handle == 1);
	CHECK(streams[slow.streams[0]].total == 2000000);
}

static void has_terminals(void)
{
	struct guest_event v;

	begin();
	shim_spawn(1, "stty size; read x; stty size; echo got $x", AGENT_TTY | AGENT_HOLD);
	v = shim_hear(AGENT_STARTED);
	CHECK(v.nstreams == 2);
	shim_until(strstr(streams[v.streams[1]].text, "24 80") != NULL);
	shim_order(AGENT_RESIZE, (struct agent_order){ .handle = 1, .rows = 30, .cols = 99 });
	shim_type(v.streams[0], "abc\n", 4, false);
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 0);
	CHECK(strstr(streams[v.streams[1]].text, "30 99") != NULL);
	CHECK(strstr(streams[v.streams[1]].text, "got abc") != NULL);
	/* EXITED comes behind what is still in the terminal. */
	shim_spawn(2, "seq 20000", AGENT_TTY | AGENT_HOLD);
	v = shim_hear(AGENT_STARTED);
	(void)shim_hear(AGENT_EXITED);
	CHECK(streams[v.streams[1]].total == 108894 + 20000);
}

static void kills_trees(void)
{
	struct guest_event v;

	begin();
	shim_spawn(1, "setsid bash -c 'setsid sleep 1000 & sleep 1000' & echo up; sleep 1000",
		   AGENT_HOLD | AGENT_NO_STDIN);
	v = shim_hear(AGENT_STARTED);
	shim_until(strstr(streams[v.streams[0]].text, "up") != NULL);
	shim_order(AGENT_KILL_TREE, (struct agent_order){ .handle = 1 });
	CHECK(shim_hear(AGENT_EXITED).event.signal == SIGKILL);
	CHECK(shim_hear(AGENT_TREE_DEAD).event.flags == 0);
	wait_alone();
	shim_order(AGENT_FORGET, (struct agent_order){ .handle = 1 });
	shim_spawn(2, "sleep 1000", AGENT_NO_STDIN);
	(void)shim_hear(AGENT_STARTED);
	shim_order(AGENT_KILL_ALL, (struct agent_order){ 0 });
	CHECK(shim_hear(AGENT_EXITED).event.signal == SIGKILL);
	(void)shim_hear(AGENT_ALL_DEAD);
}

static void quiesce(void)
{
	unsigned before = nquiesced;

	shim_send(GUEST_QUIESCE, NULL, 0);
	shim_until(nquiesced == before + 1);
	while (shim_step(20))
		FAIL("something came behind QUIESCED");
}

/* Bytes that the guest has, and has not delivered, are not lost with the shim that sent them. */
static void keeps_undelivered_input(void)
{
	static char text[300000];
	char dir[] = "/tmp/cordon-guest-XXXXXX", script[256], path[64];
	struct guest_event v;

	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/go", dir);
	(void)snprintf(script, sizeof(script), "until [ -e %s ]; do sleep 0.02; done; cksum", path);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 19);
	begin();
	shim_spawn(1, script, AGENT_HOLD);
	v = shim_hear(AGENT_STARTED);
	shim_type(v.streams[0], text, 200000, false);
	shim_until(streams[v.streams[0]].send_len == 0);
	quiesce();
	shim_hello(2);
	v = shim_hear(AGENT_HELD);
	CHECK(v.nstreams == 3 && (v.event.flags & AGENT_HAS_STDIN) != 0);
	(void)shim_hear(AGENT_SYNCED);
	shim_type(v.streams[0], text + 200000, 100000, true);
	shim_until(streams[v.streams[0]].send_len == 0);
	quiesce();
	shim_hello(3); /* input had its end: it is not asked for again */
	v = shim_hear(AGENT_HELD);
	CHECK(v.nstreams == 2 && (v.event.flags & AGENT_HAS_STDIN) == 0);
	(void)shim_hear(AGENT_SYNCED);
	(void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 0);
	CHECK(strstr(streams[v.streams[0]].text, " 300000\n") != NULL);
	(void)unlink(path);
	(void)rmdir(dir);
}

static void changes_generation(void)
{
	struct guest_event v;

	begin();
	shim_spawn(1, "echo first; read x; echo second; exit 5", AGENT_HOLD);
	v = shim_hear(AGENT_STARTED);
	shim_until(streams[v.streams[1]].total == 6);
	shim_spawn(2, "sleep 1000", AGENT_NO_STDIN);
	(void)shim_hear(AGENT_STARTED);
	shim_hello(1); /* the same shim: nothing changes */
	shim_send(GUEST_PING, NULL, 0);
	shim_until(npongs == 1);
	shim_hello(2); /* another one, without a word of the first */
	v = shim_hear(AGENT_HELD);
	CHECK(v.event.handle == 1 && v.nstreams == 3);
	(void)shim_hear(AGENT_SYNCED);
	shim_order(AGENT_STAT, (struct agent_order){ 0 });
	shim_type(v.streams[0], "x\n", 2, false);
	(void)shim_hear(AGENT_STATED);
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 5);
	CHECK_STR(streams[v.streams[1]].text, "second\n"); /* "first" was the old shim's */
	shim_hello(3);
	v = shim_hear(AGENT_HELD);
	CHECK((v.event.flags & AGENT_HAS_EXITED) != 0 && v.event.exit_code == 5);
	(void)shim_hear(AGENT_SYNCED);
	wait_alone(); /* the one not held was killed */
	shim_order(AGENT_FORGET, (struct agent_order){ .handle = 1 });
	shim_hello(4);
	(void)shim_hear(AGENT_SYNCED);
}

#define COUNT_TO (100U << 20) /* bytes */

static void loses_nothing_when_stopped(void)
{
	static const char script[] =
		"exec python3 -c 'import struct,sys\n"
		"n = 8192\n"
		"for i in range(0, 13107200, n):\n"
		"    sys.stdout.buffer.write(struct.pack(\"<%dQ\" % n, *range(i, i + n)))'";
	struct guest_event v;
	struct seen_stream before, *s;
	uint64_t began, stopped_ns = 0, at;

	begin();
	shim_spawn(1, script, AGENT_HOLD | AGENT_NO_STDIN);
	v = shim_hear(AGENT_STARTED);
	s = &streams[v.streams[0]];
	began = clock_now_ns();
	for (unsigned i = 1; i <= 4; i++) {
		shim_until(s->total >= i * 5000000U);
		at = clock_now_ns();
		quiesce();
		shim_send(GUEST_GO_ON, NULL, 0);
		stopped_ns += clock_now_ns() - at;
	}
	for (unsigned generation = 2; generation < 6; generation++) {
		shim_until(s->total >= generation * 15000000U);
		at = clock_now_ns();
		quiesce();
		before = *s;
		inherited = &before; /* what comes continues where the last one ended */
		shim_hello(generation);
		v = shim_hear(AGENT_HELD);
		(void)shim_hear(AGENT_SYNCED);
		s = &streams[v.streams[0]];
		stopped_ns += clock_now_ns() - at;
	}
	shim_until(s->eof);
	CHECK(!s->wrong && s->total == COUNT_TO && s->next == COUNT_TO / 8);
	printf("# %u MB/s\n",
	       (unsigned)(COUNT_TO / ((clock_now_ns() - began - stopped_ns) / 1000)));
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 0);
}

static void dials(void)
{
	struct guest_event v;
	uint16_t d;

	begin();
	shim_spawn(1,
		   "exec python3 -c 'import socket\n"
		   "s = socket.create_server((\"127.0.0.1\", 8000)); print(\"up\", flush=True)\n"
		   "c, a = s.accept (); d = c.recv(100); c.sendall(d.upper()); c.close()'",
		   AGENT_NO_STDIN);
	v = shim_hear(AGENT_STARTED);
	shim_until(strstr(streams[v.streams[0]].text, "up") != NULL);
	d = shim_dial(8000);
	shim_until(streams[d].opened);
	shim_type(d, "hello", 5, true);
	shim_until(streams[d].over);
	CHECK_STR(streams[d].text, "HELLO");
	CHECK(streams[d].clean);
	d = shim_dial(8001);
	shim_until(streams[d].over);
	CHECK(streams[d].sys == ECONNREFUSED);
	d = shim_dial(AGENT_EGRESS_PORT);
	shim_until(streams[d].over);
	CHECK(streams[d].sys == ECONNREFUSED);
}

/* Connections to the listener, as the rules of a virtual machine would lead them there. */
static void opens_for_programs(void)
{
	static const uint8_t loopback[16] = { 127, 0, 0, 1 };
	uint16_t n;

	begin();
	shim_spawn(1,
		   "exec 3<>/dev/tcp/127.0.0.1/1; echo ask >&3; read -r x <&3; echo $x; "
		   "exec 4<>/dev/tcp/127.0.0.1/1; read -r y <&4; echo end",
		   AGENT_NO_STDIN);
	struct guest_event v = shim_hear(AGENT_STARTED);

	shim_until(last_opened != 0);
	n = last_opened;
	CHECK(streams[n].open.kind == MUX_TCP && streams[n].open.family == 4 &&
	      streams[n].open.port == 1 && memcmp(streams[n].open.address, loopback, 16) == 0);
	shim_answer(n);
	shim_until(strcmp(streams[n].text, "ask\n") == 0);
	last_opened = 0;
	shim_type(n, "answer\n", 7, false);
	shim_until(last_opened != 0);
	shim_reset(last_opened);
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 0);
	CHECK_STR(streams[v.streams[0]].text, "answer\nend\n");
	shim_until(streams[n].eof);
}

/* OPEN goes on without a mark if it was not found in time, so there are several. */
static void opens_with_marks(void)
{
	struct guest_event v;

	begin();
	shim_spawn(1, "while sleep 0.05; do exec 5<>/dev/tcp/127.0.0.1/1; done",
		   AGENT_NO_STDIN | AGENT_HOLD);
	v = shim_hear(AGENT_STARTED);
	shim_until(last_opened != 0 && streams[last_opened].open.mark == v.event.mark);
}

static void asks_for_names(void)
{
	uint16_t n;

	begin();
	shim_spawn(1,
		   "exec python3 -c 'import socket\n"
		   "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
		   "s.sendto(b\"who\", (\"127.9.9.9\", 53))\n"
		   "d, a = s.recvfrom(100); print(d.decode(), a[0])'",
		   AGENT_NO_STDIN);
	struct guest_event v = shim_hear(AGENT_STARTED);

	shim_until(last_opened != 0);
	n = last_opened;
	CHECK(streams[n].open.kind == MUX_DNS && streams[n].open.port == 53 &&
	      streams[n].open.address[3] == 9);
	shim_answer(n);
	shim_until(streams[n].total == 5);
	CHECK(memcmp(streams[n].text, "\0\3who", 5) == 0);
	shim_type(n, "\0\2me", 4, false);
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 0);
	CHECK_STR(streams[v.streams[0]].text, "me 127.9.9.9\n");
	shim_until(streams[n].over);
}

#define QUERY                                                    \
	"import socket\n"                                        \
	"s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n" \
	"s.bind((\"127.0.0.1\", 0))\n"                           \
	"to = (\"127.9.9.9\", 53)\n"

/* A query has 4,096 bytes. A longer one is dropped. */
static void asks_at_most_so_much(void)
{
	begin();
	shim_spawn(1,
		   "exec python3 -c '" QUERY "for n in 4097, 4096: s.sendto(b\"q\" * n, to)\n"
		   "s.recvfrom(100)'",
		   AGENT_NO_STDIN);
	(void)shim_hear(AGENT_STARTED);
	shim_until(last_opened != 0);
	uint16_t n = last_opened;

	shim_answer(n);
	shim_until(streams[n].total == 2 + 4096);
	CHECK(memcmp(streams[n].text, "\x10\0qqq", 5) == 0);
	shim_type(n, "\0\2me", 4, false);
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 0);
	CHECK(last_opened == n);
}

static unsigned queries_open(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < MUX_NUMBERS; i++)
		n += streams[i].used && streams[i].open.kind == MUX_DNS && !streams[i].over;
	return n;
}

#define QUERIES_MAX 128 /* GUEST_DNS_MAX */

/* So many queries wait. With one more the oldest is given up. */
static void asks_so_many_at_a_time(void)
{
	uint16_t first;

	begin();
	shim_spawn(1,
		   "exec python3 -c '" QUERY "s.sendto(b\"q\", to)\n"
		   "for n in 127, 1:\n"
		   "  input()\n"
		   "  for i in range(n): s.sendto(b\"more\", to)\n"
		   "input()'",
		   AGENT_HOLD);
	struct guest_event v = shim_hear(AGENT_STARTED);

	shim_until(last_opened != 0);
	first = last_opened;
	shim_type(v.streams[0], "\n", 1, false);
	shim_until(queries_open() == QUERIES_MAX);
	CHECK(!shim_step(300) && !streams[first].over);
	shim_type(v.streams[0], "\n", 1, false);
	shim_until(streams[first].over);
	shim_until(queries_open() == QUERIES_MAX);
	shim_type(v.streams[0], "\n", 1, true);
	CHECK(shim_hear(AGENT_EXITED).event.exit_code == 0);
}

/* A datagram that nobody takes is refused. The shim learns its place and length, also of one that
 * is longer than a query. */
static void tells_refused_datagrams(void)
{
	static const unsigned sizes[] = { 5, 0, 9000 };
	struct guest_event v;

	begin();
	shim_spawn(1,
		   "exec python3 -c 'import socket\n"
		   "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
		   "s.connect((\"203.0.113.9\", 9999))\n"
		   "while True:\n"
		   "  s.send(b\"d\" * int(input()))\n"
		   "  try: print(s.recv(1))\n"
		   "  except ConnectionRefusedError: print(\"refused\", flush=True)'",
		   AGENT_HOLD);
	v = shim_hear(AGENT_STARTED);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		char line[16];
		uint16_t n;

		last_opened = 0;
		shim_type(v.streams[0], line,
			  (size_t)snprintf(line, sizeof(line), "%u\n", sizes[i]), false);
		shim_until(last_opened != 0);
		n = last_opened;
		CHECK(streams[n].open.kind == MUX_DNS && streams[n].open.port == 9999);
		CHECK(memcmp(streams[n].open.address, (uint8_t[]){ 203, 0, 113, 9 }, 4) == 0);
		shim_answer(n);
		shim_until(streams[n].total == 2);
		CHECK(((uint8_t)streams[n].text[0] << 8 | (uint8_t)streams[n].text[1]) ==
		      (int)sizes[i]);
		shim_reset(n);
		shim_until(streams[v.streams[1]].total == 8 * (i + 1));
	}
}

/* The shim is trusted, but a guest must not go on with a connection that makes no sense. */
static void ends_on_nonsense(void)
{
	int status;

	begin();
	shim_send(AGENT_STAT, "short", 5);
	shim_until(waitpid(guest_pid, &status, WNOHANG) == guest_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void says_nothing_first(void)
{
	shim_start();
	shim_send(GUEST_PING, NULL, 0);
	CHECK(!shim_step(300) && npongs == 0);
	shim_hello(9);
	(void)shim_hear(AGENT_SYNCED);
}

TEST_MAIN({ "programs run, and EXITED comes behind their output", runs_programs },
	  { "HELLO sets the limit of processes", sets_limits },
	  { "input is delivered, and ends", delivers_input },
	  { "a stream that is not read does not stop others", keeps_slow_readers_apart },
	  { "terminals", has_terminals }, { "trees are killed", kills_trees },
	  { "held programs are there for the next shim", changes_generation },
	  { "input that was not delivered stays with the program", keeps_undelivered_input },
	  { "nothing is lost or repeated when the guest is stopped", loses_nothing_when_stopped },
	  { "ports are dialed", dials },
	  { "connections of programs become streams", opens_for_programs },
	  { "a stream has the mark of the program that connected", opens_with_marks },
	  { "DNS queries become streams", asks_for_names },
	  { "refused datagrams are told", tells_refused_datagrams },
	  { "a query has so many bytes", asks_at_most_so_much },
	  { "so many queries wait", asks_so_many_at_a_time },
	  { "nothing is sent before HELLO", says_nothing_first },
	  { "a malformed request ends PID 1", ends_on_nonsense })
