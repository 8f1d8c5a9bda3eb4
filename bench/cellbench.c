/* cellbench.c - what a cell that exists costs: in time for each program, in memory for waiting.
 *
 *	cellbench exec N	one cell; starts /usr/bin/true in it N times, and as often by plain
 *fork and exec, turn about; microseconds, two a line: from the request to the news of its end
 *	cellbench create N	makes and destroys a cell N times; microseconds, two a line: from
 *the request until PID 1 is ready, and until everything is gone cellbench idle N	N cells that
 *do nothing, made by one keeper as for the server; prints where the memory is. "total per cell" is
 *all of it, the kernel's included: slab, kernel stacks, page tables, per-CPU data, and PID 1's
 *pages.
 *
 * Speaks the same two channels as the server, by the same code as cordon run. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "lib/base/rand.h"
#include "cell/cellctl/agent_client.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "cell/cellctl/keeper_client.h"
#include "cell/template/template.h"

#define CELLS_MAX 2000

static struct keeper_client keeper;
static struct template template;

struct cell {
	struct agent agent;
	int pidfd;
};

static void NORETURN die(const struct err *e)
{
	(void)fprintf(stderr, "cellbench: %s\n", e->msg);
	exit(1);
}

static int make_cell(struct cell *c, unsigned number, struct err *e)
{
	struct keeper_create r;
	struct keeper_reply reply;
	enum agent_type type;
	struct agent_event v;
	int pair[2];

	memset(&r, 0, sizeof(r));
	r.op = KEEPER_CREATE;
	r.flags = CELL_LINGER;
	r.uid = r.gid = 1000;
	r.limits = (struct cell_limits){ .memory_bytes = 512U << 20,
					 .cpu_millis = 1000,
					 .pids = 256,
					 .disk_bytes = 64U << 20,
					 .inodes = 16384,
					 .nofile = 1024 };
	(void)snprintf(r.id, sizeof(r.id), "bench-%d-%u", (int)getpid(), number);
	for (uint32_t i = 0; i < template.nlayers; i++)
		r.layer_from[i].root = i;
	(void)snprintf(r.hostname, sizeof(r.hostname), "cordon");
	rand_machine_id(r.machine_id);
	r.nlayers = template.nlayers;
	memcpy(r.layer_at, template.at, sizeof(r.layer_at));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	agent_init(&c->agent, pair[0]);
	OWN_FD inside = pair[1];
	(void)inside; /* clang: it is not read */
	if (keeper_client_call(&keeper, &r, sizeof(r), &pair[1], 1, &reply, &c->pidfd, e) < 0 ||
	    agent_next(&c->agent, 10000, &type, &v, e) <= 0)
		return -1;
	return type == AGENT_READY ? 0 : err_set(e, ERR_SYSTEM, "PID 1 is not ready");
}

/* As the server does: PID 1 ends when its channel is closed, then the keeper clears up. */
static int destroy_cell(struct cell *c, unsigned number, struct err *e)
{
	struct keeper_named r = { .op = KEEPER_DESTROY };
	struct pollfd ended = { .fd = c->pidfd, .events = POLLIN };
	struct keeper_reply reply;

	agent_release(&c->agent);
	(void)poll(&ended, 1, 10000);
	io_close_all(&c->pidfd, 1);
	(void)snprintf(r.id, sizeof(r.id), "bench-%d-%u", (int)getpid(), number);
	return keeper_client_call(&keeper, &r, sizeof(r), NULL, 0, &reply, NULL, e);
}

static int bench_create(unsigned n, struct err *e)
{
	static struct cell c;

	for (unsigned i = 0; i < n + 10; i++) {
		uint64_t begin = clock_now_ns(), middle;

		if (make_cell(&c, i, e) < 0)
			return -1;
		middle = clock_now_ns();
		if (destroy_cell(&c, i, e) < 0)
			return -1;
		if (i >= 10) /* the first ones are cold */
			(void)printf("%.1f %.1f\n", (double)(middle - begin) / 1000,
				     (double)(clock_now_ns() - middle) / 1000);
	}
	return 0;
}

/* A keeper as for the server, but that its cells end with us: they are not told to stay. */
static int start_keeper(struct err *e)
{
	struct keeper_root roots[CELL_LAYERS_MAX];
	int pair[2], started;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	OWN_FD theirs = pair[1];
	keeper = (struct keeper_client){ .pid = -1, .sock = pair[0] };
	for (uint32_t i = 0; i < template.nlayers; i++)
		roots[i] = (struct keeper_root){ template.fds[i], KEEPER_ROOT_LAYER };
	cgroups_find(&keeper.cgroups);
	cgroups_find_unified(&keeper.cgroups);
	const struct keeper_start how = { .client_end = pair[0],
					  .keeper_end = theirs,
					  .userns = -1,
					  .cgroups = &keeper.cgroups,
					  .serve = true,
					  .nroots = template.nlayers,
					  .roots = roots };

	started = keeper_client_spawn(&how, &keeper.pid, e);
	(void)close(TAKE_FD(theirs));
	return started < 0 ? -1 : keeper_client_hello(&keeper, e);
}

static int run_true(struct cell *c, struct err *e)
{
	static const char command[] = "/usr/bin/true";
	const struct agent_spawn s = { .handle = 1,
				       .flags = AGENT_NO_STDIN,
				       .argc = 1,
				       .user = "",
				       .cwd = "",
				       .strings = command,
				       .strings_len = sizeof(command) };
	enum agent_type type = AGENT_READY;
	struct agent_event v;

	if (agent_send_spawn(&c->agent, &s, e) < 0)
		return -1;
	while (type != AGENT_EXITED) {
		if (agent_next(&c->agent, 10000, &type, &v, e) <= 0)
			return -1;
		io_close_all(c->agent.fds, c->agent.nfds);
		c->agent.nfds = 0;
		if (type == AGENT_FAILED)
			return err_set(e, ERR_SYSTEM, "true could not be started");
	}
	return v.exit_code == 0 ? 0 : err_set(e, ERR_SYSTEM, "true failed");
}

static int fork_true(struct err *e)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl("/usr/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		return err_set(e, ERR_SYSTEM, "plain true failed");
	return 0;
}

static int bench_exec(unsigned n, struct err *e)
{
	static struct cell c;

	if (make_cell(&c, 0, e) < 0)
		return -1;
	for (unsigned i = 0; i < n + 10; i++) {
		uint64_t begin = clock_now_ns(), middle;

		if (run_true(&c, e) < 0)
			return -1;
		middle = clock_now_ns();
		if (fork_true(e) < 0)
			return -1;
		if (i >= 10) /* the first ones are cold */
			(void)printf("%.1f %.1f\n", (double)(middle - begin) / 1000,
				     (double)(clock_now_ns() - middle) / 1000);
	}
	return destroy_cell(&c, 0, e);
}

/* Kilobytes behind a word of /proc/meminfo or the like. */
static double field(const char *path, const char *word)
{
	char text[16384];
	const char *at;
	struct err e;

	if (io_read_file(-1, path, text, sizeof(text), &e) < 0)
		return 0;
	at = strstr(text, word);
	return at == NULL ? 0 : strtod(at + strlen(word), NULL);
}

static const char *const kinds[] = { "SReclaimable:", "SUnreclaim:", "KernelStack:",
				     "PageTables:",   "Percpu:",     "Shmem:" };

/* The processes that are new: every cordon-init, and our keeper. */
static double pss_of(const char *name)
{
	char path[64], comm[64], want[64];
	double sum = 0;
	struct err e;

	(void)snprintf(want, sizeof(want), "%s\n", name);
	for (int pid = 1; pid < 4194304 && pid < 100000; pid++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (access(path, F_OK) < 0 || io_read_file(-1, path, comm, sizeof(comm), &e) < 0 ||
		    strcmp(comm, want) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
		sum += field(path, "\nPss:");
	}
	return sum;
}

static int bench_idle(unsigned n, struct err *e)
{
	static struct cell cells[CELLS_MAX];
	const struct timespec settle = { .tv_sec = 1 };
	struct rlimit files;
	double before[COUNT(kinds)], total = 0, pss = pss_of("cordon-init"),
				     keeper_pss = pss_of("cordon-keeper");

	if (n == 0 || n > CELLS_MAX)
		return err_set(e, ERR_INVALID, "1 to %d cells", CELLS_MAX);
	(void)getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	(void)nanosleep(&settle, NULL);
	for (size_t i = 0; i < COUNT(kinds); i++)
		before[i] = field("/proc/meminfo", kinds[i]);
	for (unsigned i = 0; i < n; i++)
		if (make_cell(&cells[i], i, e) < 0)
			return err_wrap(e, "cell %u", i);
	(void)nanosleep(&settle, NULL);
	for (size_t i = 0; i < COUNT(kinds); i++) {
		double each = (field("/proc/meminfo", kinds[i]) - before[i]) / n;

		(void)printf("%-14s %8.1f KiB\n", kinds[i], each);
		total += each;
	}
	pss = (pss_of("cordon-init") - pss) / n;
	keeper_pss = (pss_of("cordon-keeper") - keeper_pss) / n;
	(void)printf("%-14s %8.1f KiB\n%-14s %8.1f KiB\n", "PID 1:", pss, "keeper:", keeper_pss);
	(void)printf("total per cell: %.1f KiB\n", total + pss + keeper_pss);
	for (unsigned i = 0; i < n; i++)
		if (destroy_cell(&cells[i], i, e) < 0)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	unsigned n = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	struct err e = { 0 };
	int result;

	static const struct {
		const char *name;
		int (*run)(unsigned n, struct err *e);
	} benches[] = { { "exec", bench_exec },
			{ "create", bench_create },
			{ "idle", bench_idle } };
	size_t b = 0;

	while (b < COUNT(benches) && (n == 0 || strcmp(argv[1], benches[b].name) != 0))
		b++;
	if (b == COUNT(benches)) {
		(void)fprintf(stderr, "usage: cellbench exec|create|idle N\n");
		return 2;
	}
	if (template_open("host", NULL, &template, &e) < 0 || start_keeper(&e) < 0)
		die(&e);
	result = benches[b].run(n, &e);
	keeper_client_stop(&keeper, NULL);
	template_release(&template);
	if (result < 0)
		die(&e);
	return 0;
}
