/* Goal: a real shim and a real cordon-init as its guest, joined by a socket pair instead of an
 * engine: what a server gets is what it gets of any cell. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "shim_bed.h"

#define EGRESS_FD 8 /* keeper_msg.h */

static struct err e;
static pid_t init_pid;

static void bring_lo_up(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r) < 0)
		_exit(120);
	(void)close(fd);
}

static void must(int result)
{
	if (result < 0)
		_exit(121);
}

/* What the agent sets belongs to this guest, not to the machine: a /dev and cgroups of its own. */
static void make_places(void)
{
	static const char *const nodes[] = { "null", "zero", "urandom", "tty" };

	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	must(mount("proc", "/proc", "proc", 0, NULL));
	must(mount("tmpfs", "/mnt", "tmpfs", 0, NULL));
	for (size_t i = 0; i < COUNT(nodes); i++) {
		char from[32], to[32];

		(void)snprintf(from, sizeof(from), "/dev/%s", nodes[i]);
		(void)snprintf(to, sizeof(to), "/mnt/%s", nodes[i]);
		must(close(open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)));
		must(mount(from, to, NULL, MS_BIND, NULL));
	}
	must(mkdir("/mnt/pts", 0755));
	must(mount("devpts", "/mnt/pts", "devpts", 0, "newinstance,ptmxmode=0666"));
	must(symlink("pts/ptmx", "/mnt/ptmx"));
	must(mount("/mnt", "/dev", NULL, MS_MOVE, NULL));
	must(mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, NULL));
	must(mkdir("/sys/fs/cgroup/pids", 0755));
	must(close(open("/sys/fs/cgroup/pids/pids.max", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)));
}

/* In the child: PID 1 of the guest, with the stream at descriptor 3. */
static void become_guest(int end)
{
	const char *path = secure_getenv("CORDON_TEST_INIT");
	int listener = socket(AF_INET6, SOCK_STREAM, 0), high = fcntl(end, F_DUPFD, 20);

	make_places();
	bring_lo_up();
	if (dup2(listener, EGRESS_FD) < 0 || dup2(high, 3) < 0)
		_exit(122);
	(void)close(high);
	(void)execl(path == NULL ? "build/cordon-init" : path, "cordon-init", "guest",
		    (char *)NULL);
	_exit(123);
}

static void start_guest(void)
{
	struct agent_event v;
	char text[256];

	bed_start();
	bed_boot("");
	CHECK(unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET) == 0);
	init_pid = fork();
	CHECK(init_pid >= 0);
	if (init_pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		become_guest(bed_guest);
	}
	(void)close(bed_guest);
	bed_guest = -1;
	v = bed_hear(AGENT_BOOTED);
	if (v.sys != 0) {
		agent_read_text(&agent, &v, text, sizeof(text));
		printf("# %s\n", text);
	}
	CHECK(v.sys == 0);
}

static void run(uint32_t handle, const char *script, uint32_t flags, uint64_t timeout_ms, int *fds,
		size_t n)
{
	struct agent_event v;

	bed_spawn(handle, script, flags, timeout_ms);
	v = bed_hear(AGENT_STARTED);
	CHECK(v.handle == handle && v.pid > 1);
	bed_take_fds(fds, n);
}

static void a_program_runs(void)
{
	char bytes[64];
	struct agent_event v;
	int fds[3];

	start_guest();
	run(1, "read x; echo got $x; echo bad >&2; exit 5", AGENT_HOLD, 0, fds, 3);
	bed_write(fds[0], "hello\n", 6);
	CHECK(bed_read(fds[1], bytes, 10) == 10 && memcmp(bytes, "got hello\n", 10) == 0);
	CHECK(bed_read(fds[2], bytes, 4) == 4 && memcmp(bytes, "bad\n", 4) == 0);
	v = bed_hear(AGENT_EXITED);
	CHECK(v.exit_code == 5 && v.signal == 0);
	CHECK(agent_send_forget(&agent, 1, &e) == 0);
	bed_spawn(2, "exit 42", AGENT_HOLD | AGENT_NO_STDIN, 0);
	(void)bed_hear(AGENT_STARTED);
	CHECK(bed_hear(AGENT_EXITED).exit_code == 42);
	bed_end();
}

/* More than all buffers together, and the end only after it. */
static void output_is_complete_at_the_exit(void)
{
	static char bytes[1 << 16];
	size_t total = 0;
	enum agent_type type = 0;
	struct agent_event v;
	int fds[2];

	start_guest();
	run(1, "head -c 8388608 /dev/zero", AGENT_HOLD | AGENT_NO_STDIN, 0, fds, 2);
	for (;;) {
		ssize_t n = read(fds[0], bytes, sizeof(bytes));

		if (n > 0)
			total += (size_t)n;
		else if (type == AGENT_EXITED)
			break;
		else if (agent_next(&agent, 1, &type, &v, &e) < 0)
			FAIL("the shim is gone");
	}
	CHECK(total == 8388608);
	bed_end();
}

static void wait_processes(uint64_t n)
{
	uint64_t got;

	for (int i = 0;; i++) {
		CHECK(i < 2000 && agent_send_stat(&agent, &e) == 0);
		got = bed_hear(AGENT_STATED).processes;
		if (got == n)
			return;
		if (i == 1999)
			printf("# %llu processes\n", (unsigned long long)got);
		(void)usleep(5000);
	}
}

static void programs_outlive_the_server(void)
{
	char bytes[16];
	struct agent_event v;
	int fds[3];

	start_guest();
	run(1, "read x; echo $x; exec sleep 1000", AGENT_HOLD, 0, fds, 3);
	run(2, "exec sleep 1000", 0, 0, fds, 3); /* not held */
	wait_processes(3);			 /* init, sh, sleep */
	io_close_all(fds, 3);
	bed_reconnect();
	v = bed_hear(AGENT_HELD);
	CHECK(v.handle == 1);
	bed_take_fds(fds, 3);
	(void)bed_hear(AGENT_SYNCED);
	bed_write(fds[0], "still\n", 6);
	CHECK(bed_read(fds[1], bytes, 6) == 6 && memcmp(bytes, "still\n", 6) == 0);
	wait_processes(2); /* the second one was killed */
	CHECK(agent_send_kill_tree(&agent, 1, 0, &e) == 0);
	CHECK(bed_hear(AGENT_EXITED).signal == SIGKILL);
	CHECK(bed_hear(AGENT_TREE_DEAD).flags == 0);
	bed_end();
}

static void a_timeout_kills_the_tree(void)
{
	struct agent_event v;
	int fds[2];

	start_guest();
	run(1, "sleep 1000 & sleep 1000", AGENT_HOLD | AGENT_NO_STDIN, 200, fds, 2);
	v = bed_hear(AGENT_EXITED);
	CHECK(v.timed_out == 1 && v.signal == SIGKILL);
	bed_end();
}

static void a_terminal_is_two_pipes(void)
{
	char bytes[256] = "";
	size_t have = 0;
	int fds[2];

	start_guest();
	bed_spawn(1, "x", AGENT_TTY, 0);
	CHECK(bed_hear(AGENT_FAILED).sys == EOPNOTSUPP);
	run(1, "stty size; tty; read x; stty size", AGENT_TTY | AGENT_HOLD, 0, fds, 2);
	while (strstr(bytes, "/dev/pts/") == NULL) {
		have += bed_read(fds[1], bytes + have, 1);
		CHECK(have < sizeof(bytes) - 1);
	}
	CHECK(strncmp(bytes, "0 0", 3) == 0);
	CHECK(agent_send_resize(&agent, 1, 33, 111, &e) == 0);
	CHECK(agent_send_stat(&agent, &e) == 0); /* the resize was handled when this is answered */
	(void)bed_hear(AGENT_STATED);
	bed_write(fds[0], "\n", 1);
	while (strstr(bytes, "33 111") == NULL) {
		have += bed_read(fds[1], bytes + have, 1);
		CHECK(have < sizeof(bytes) - 1);
	}
	CHECK(bed_hear(AGENT_EXITED).exit_code == 0);
	bed_end();
}

/* A snapshot that goes on: programs do not notice. */
static void programs_go_on_after_a_snapshot(void)
{
	char bytes[8];
	int fds[3];

	start_guest();
	run(1, "while read x; do echo $x; done", AGENT_HOLD, 0, fds, 3);
	for (int i = 0; i < 3; i++) {
		CHECK(agent_send_snapshot(&agent, false, 0, &e) == 0);
		bed_write(fds[0], "line\n", 5);
		CHECK(bed_hear(AGENT_SNAPSHOT_DONE).sys == 0);
		CHECK(bed_read(fds[1], bytes, 5) == 5 && memcmp(bytes, "line\n", 5) == 0);
	}
	bed_end();
}

/* Stopped after it, then resumed with another name. */
static void a_stopped_guest_is_resumed(void)
{
	struct boot_request r = bed_request;
	char bytes[8];
	int fds[3];

	start_guest();
	run(1, "while read x; do echo $x; done", AGENT_HOLD, 0, fds, 3);
	CHECK(agent_send_snapshot(&agent, true, 0, &e) == 0);
	CHECK(bed_hear(AGENT_SNAPSHOT_DONE).sys == 0);
	bed_write(fds[0], "line\n", 5);
	r.fds = 0;
	CHECK(agent_send_resume(&agent, &r, &e) == 0);
	CHECK(bed_hear(AGENT_BOOTED).sys == 0);
	CHECK(bed_read(fds[1], bytes, 5) == 5 && memcmp(bytes, "line\n", 5) == 0);
	bed_end();
}

static void a_port_is_dialed(void)
{
	static const char server[] = "exec python3 -c 'import socket\n"
				     "s = socket.create_server((\"127.0.0.1\", 4711))\n"
				     "print(\"up\", flush=True)\n"
				     "c, _ = s.accept ()\n"
				     "c.sendall(c.recv(5)[::-1])\n"
				     "c.close()\n"
				     "s.close()'";
	char bytes[8];
	int fds[2], fd;

	start_guest();
	run(1, server, AGENT_HOLD | AGENT_NO_STDIN, 0, fds, 2);
	CHECK(bed_read(fds[0], bytes, 3) == 3);
	CHECK(agent_send_dial(&agent, 5, 4711, &e) == 0);
	CHECK(bed_hear(AGENT_DIALED).sys == 0);
	bed_take_fds(&fd, 1);
	bed_write(fd, "abcde", 5);
	CHECK(bed_read(fd, bytes, 8) == 5 && memcmp(bytes, "edcba", 5) == 0);
	(void)bed_hear(AGENT_EXITED);
	CHECK(agent_send_dial(&agent, 6, 4712, &e) == 0);
	CHECK(bed_hear(AGENT_DIALED).sys == ECONNREFUSED);
	bed_end();
}

static void a_killed_guest_is_told(void)
{
	int fds[3];

	start_guest();
	run(1, "sleep 1000", AGENT_HOLD, 0, fds, 3);
	CHECK(kill(init_pid, SIGKILL) == 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

static void many_programs_at_once(void)
{
	char bytes[8];
	int fds[200][2];

	start_guest();
	for (uint32_t i = 0; i < 200; i++)
		run(i + 1, "echo x; exec sleep 1000", AGENT_HOLD | AGENT_NO_STDIN, 0, fds[i], 2);
	for (uint32_t i = 0; i < 200; i++)
		CHECK(bed_read(fds[i][0], bytes, 2) == 2);
	CHECK(agent_send_kill_all(&agent, &e) == 0);
	for (uint32_t i = 0; i < 200; i++)
		CHECK(bed_hear(AGENT_EXITED).signal == SIGKILL);
	(void)bed_hear(AGENT_ALL_DEAD);
	for (uint32_t i = 0; i < 200; i++)
		CHECK(agent_send_forget(&agent, i + 1, &e) == 0);
	run(1, "echo again", AGENT_HOLD | AGENT_NO_STDIN, 0, fds[0], 2);
	CHECK(bed_hear(AGENT_EXITED).exit_code == 0);
	bed_end();
}

TEST_MAIN({ "a program runs", a_program_runs },
	  { "output is complete at the exit", output_is_complete_at_the_exit },
	  { "programs outlive the server", programs_outlive_the_server },
	  { "a timeout kills the tree", a_timeout_kills_the_tree },
	  { "a terminal is two pipes", a_terminal_is_two_pipes },
	  { "programs go on after a snapshot", programs_go_on_after_a_snapshot },
	  { "a stopped guest is resumed", a_stopped_guest_is_resumed },
	  { "a port is dialed", a_port_is_dialed },
	  { "a killed guest is told", a_killed_guest_is_told },
	  { "many programs at once", many_programs_at_once })
