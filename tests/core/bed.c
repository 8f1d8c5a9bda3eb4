/* bed.c - see bed.h. */
#include "bed.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/config/config.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/node/core_run.h"
#include "lib/wire/frame.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "daemon/alarms/alarm.h"
#include "daemon/egressctl/net_access.h"
#include "lib/base/rmtree.h"
#include "daemon/secrets/secret_part.h"
#include "daemon/secrets/seal.h"
#include "daemon/session/session.h"
#include "daemon/store/store.h"

#define UNTIL_MS 20000
#define HELD_MAX 8
#define CELLS_MAX 40
#define KEPT 3 /* descriptors that the core opens once and keeps: a pipe and /dev/null */

struct bed bed;

static struct config config;
static struct store *store;
static struct seal *seal;
static char folder[64];
static int state_fd = -1, run_fd = -1;
static int before; /* descriptors */

static int keeper = -1;
static struct loop_fd on_keeper;
static uint32_t held[HELD_MAX]; /* ops */
static unsigned nheld;

static int pid1 = -1;
static struct loop_fd on_pid1;
static int elders[CELLS_MAX]; /* of sessions before: they live, and are silent */
static unsigned nelders;
static struct buf said;
static pid_t children[CELLS_MAX];
static unsigned nchildren;

static struct loop_timer look;
static bool (*wanted)(void);
static uint64_t until_ns;

#define MUST(call)                                          \
	do {                                                \
		struct err e = { 0 };                       \
		if ((call) < 0) {                           \
			print_text("# error: ", e.msg);     \
			fail_at(__FILE__, __LINE__, #call); \
		}                                           \
	} while (0)

/* ---- the loop */

static void on_look(struct loop_timer *t)
{
	if ((wanted != NULL && wanted()) || clock_now_ns() >= until_ns)
		loop_stop(bed.loop);
	else
		loop_timer_set(bed.loop, t, clock_now_ns() + CLOCK_MS / 2);
}

static void turn(bool (*holds)(void), unsigned ms)
{
	wanted = holds;
	until_ns = clock_now_ns() + ms * CLOCK_MS;
	look = (struct loop_timer){ .on_expire = on_look };
	loop_timer_set(bed.loop, &look, clock_now_ns());
	MUST(loop_run(bed.loop, &e));
	loop_timer_cancel(bed.loop, &look);
}

void bed_until(bool (*holds)(void))
{
	turn(holds, UNTIL_MS);
	if (!holds())
		fail_at(__FILE__, __LINE__, "what was waited for did not happen");
}

void bed_turn(unsigned ms)
{
	turn(NULL, ms);
}

/* ---- PID 1 */

static void close_one(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

static void close_stdio(void)
{
	close_one(&bed.in);
	close_one(&bed.out);
	close_one(&bed.errs);
}

static void say(enum agent_type type, const struct agent_event *v, const int *fds, size_t nfds)
{
	uint8_t bytes[FRAME_HEAD + sizeof(*v)];

	frame_head(bytes, (uint16_t)type, sizeof(*v));
	memcpy(bytes + FRAME_HEAD, v, sizeof(*v));
	MUST(io_send(pid1, bytes, sizeof(bytes), fds, nfds, &e));
}

void bed_says(enum agent_type type, const struct agent_event *v)
{
	struct agent_event with_handle = *v;

	with_handle.handle = bed.handle;
	say(type, &with_handle, NULL, 0);
}

void bed_says_with(enum agent_type type, const struct agent_event *v, const int *fds, size_t n)
{
	say(type, v, fds, n);
}

static void start_it(bool results)
{
	const struct agent_event v = { .handle = bed.handle,
				       .pid = 7,
				       .flags = AGENT_HAS_STDIN |
						(results ? AGENT_HAS_RESULTS : 0) };
	int in[2], out[2], errs[2], last[2];

	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	CHECK(pipe2(errs, O_CLOEXEC) == 0 && pipe2(last, O_CLOEXEC) == 0);
	close_stdio();
	bed.in = in[0];
	bed.out = out[1];
	bed.errs = errs[1];
	say(AGENT_STARTED, &v, (const int[]){ in[1], out[0], errs[0], last[0] }, results ? 4 : 3);
	(void)close(in[1]);
	(void)close(out[0]);
	(void)close(errs[0]);
	(void)close(last[0]);
	(void)close(last[1]);
}

void bed_started(void)
{
	start_it(false);
}

void bed_started_with_results(void)
{
	start_it(true);
}

void bed_close_output(void)
{
	close_one(&bed.out);
	close_one(&bed.errs);
}

void bed_pid1_dies(void)
{
	loop_remove(bed.loop, &on_pid1);
	close_one(&pid1);
	close_stdio();
	if (nchildren > 0)
		(void)kill(children[nchildren - 1], SIGKILL);
}

static void obey(const struct frame *f)
{
	const struct agent_event lingers = { 0 };
	struct agent_order order;

	CHECK(f->type < AGENT_REQUESTS_END);
	bed.ordered[f->type]++;
	if (f->type == AGENT_DEADLINE || f->type == AGENT_PAUSED) {
		CHECK(f->len == sizeof(order));
		memcpy(&order, f->body, sizeof(order));
		*(f->type == AGENT_PAUSED ? &bed.paused_ms : &bed.deadline_ms) = order.ms;
	}
	if (f->type == AGENT_LINGER)
		say(AGENT_LINGERING, &lingers, NULL, 0);
	else if (f->type == AGENT_END)
		bed_pid1_dies();
	else if (f->len >= sizeof(bed.handle) && f->type != AGENT_FORGET &&
		 f->type != AGENT_SIGNAL && f->type != AGENT_LEASE && f->type != AGENT_DEADLINE &&
		 f->type != AGENT_PAUSED)
		memcpy(&bed.handle, f->body, sizeof(bed.handle));
}

static void hear_pid1(struct loop_fd *f, uint32_t events)
{
	uint8_t bytes[65536];
	int fds[IO_FDS_MAX], sock = pid1;
	size_t nfds = 0;
	struct err e = { 0 };
	struct frame frame;
	ssize_t n;
	int used;

	if (bed.deaf) {
		loop_modify(bed.loop, f, 0);
		return;
	}
	n = io_recv(pid1, bytes, sizeof(bytes), fds, IO_FDS_MAX, &nfds, &e);
	io_close_all(fds, nfds);
	if (n <= 0) {
		bed_pid1_dies();
		return;
	}
	buf_put(&said, bytes, (size_t)n);
	while (pid1 == sock &&
	       (used = frame_read(said.data, said.len, AGENT_REQUEST_MAX, &frame, &e)) > 0) {
		obey(&frame);
		buf_consume(&said, (size_t)used);
	}
}

void bed_pid1_reads(void)
{
	struct pollfd p = { .fd = pid1, .events = POLLIN };

	while (pid1 >= 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0)
		hear_pid1(&on_pid1, EPOLLIN);
}

/* ---- the keeper */

static void reply(uint32_t op, const struct err *why, uint32_t pid, int fd)
{
	struct keeper_reply r = { .op = op, .version = KEEPER_VERSION, .pid = pid };

	if (why != NULL)
		r.err = *why;
	r.restrictions.ids = CELL_IDS;
	r.restrictions.freezer = !bed.no_freezer;
	MUST(io_send(keeper, &r, sizeof(r), &fd, fd >= 0 ? 1 : 0, &e));
}

static pid_t wait_as_a_child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)syscall(SYS_close_range, 3U, ~0U, 0);
	}
	while (pid == 0)
		(void)pause();
	CHECK(nchildren < CELLS_MAX);
	children[nchildren++] = pid;
	return pid;
}

/* The cell's end of channel B has come along. */
static void create(int sock)
{
	const struct agent_event ready = { .pid = AGENT_VERSION };
	pid_t pid = wait_as_a_child();
	OWN_FD pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	CHECK(pidfd >= 0 && sock >= 0);
	loop_remove(bed.loop, &on_pid1);
	if (bed.many && pid1 >= 0)
		elders[nelders++] = pid1; /* as many as children at most */
	else
		close_one(&pid1);
	buf_clear(&said);
	pid1 = sock;
	on_pid1 = (struct loop_fd){ .fd = -1, .on_ready = hear_pid1 };
	MUST(loop_add(bed.loop, &on_pid1, pid1, EPOLLIN, &e));
	say(AGENT_READY, &ready, NULL, 0);
	reply(KEEPER_CREATE, NULL, (uint32_t)pid, pidfd);
}

static void do_it(uint32_t op, int fd)
{
	if (op == KEEPER_CREATE) {
		create(fd);
		return;
	}
	if (op == KEEPER_DESTROY)
		for (unsigned i = 0; i < nchildren; i++)
			(void)kill(children[i], SIGKILL);
	if (op == KEEPER_DIFF || op == KEEPER_CAPTURE) {
		close_one(&bed.list);
		bed.list = fd;
	} else if (fd >= 0) {
		(void)close(fd);
	}
	OWN_FD mount = op == KEEPER_VOLUME ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	reply(op, NULL, 0, mount);
}

static void refuse(uint32_t op)
{
	struct err why = bed.refusal;

	if (why.code == ERR_NONE)
		(void)err_set(&why, ERR_LIMIT, "not now");
	reply(op, &why, 0, -1);
}

static void hear_keeper(struct loop_fd *f, uint32_t events)
{
	union keeper_request r;
	int fds[IO_FDS_MAX] = { -1 };
	size_t nfds = 0;
	struct err e = { 0 };
	ssize_t n = io_recv(keeper, &r, sizeof(r), fds, IO_FDS_MAX, &nfds, &e);
	enum bed_way way;

	if (n <= 0) {
		bed_keeper_dies();
		return;
	}
	CHECK(r.op < KEEPER_OPS && nfds <= 2);
	bed.asked[r.op]++;
	if (r.op == KEEPER_CREATE)
		bed.created = r.create;
	way = nheld > 0 ? BED_HOLD : bed.way[r.op]; /* answers are in order */
	if (nfds == 2)				    /* the file of a watcher */
		close_one(&fds[--nfds]);
	if (way == BED_ANSWER) {
		do_it(r.op, nfds > 0 ? fds[0] : -1);
		return;
	}
	if (way == BED_HOLD && r.op == KEEPER_DIFF) {
		close_one(&bed.list);
		bed.list = fds[0];
		nfds = 0;
	}
	io_close_all(fds, nfds);
	if (way == BED_HOLD) {
		CHECK(nheld < HELD_MAX);
		held[nheld++] = r.op;
	} else if (way == BED_REFUSE) {
		refuse(r.op);
	} else {
		bed_keeper_dies();
	}
}

void bed_keeper_answers(bool well)
{
	uint32_t op = held[0];

	CHECK(nheld > 0);
	memmove(held, held + 1, --nheld * sizeof(held[0]));
	if (!well)
		refuse(op);
	else if (op == KEEPER_DIFF)
		reply(op, NULL, 0, -1);
	else
		do_it(op, -1);
}

void bed_keeper_dies(void)
{
	loop_remove(bed.loop, &on_keeper);
	close_one(&keeper);
	close_one(&bed.list); /* its readers die with it */
	nheld = 0;
}

void bed_close_list(void)
{
	close_one(&bed.list);
}

static bool greeted(void)
{
	const char *why;

	return core_ready(bed.core, &why);
}

static void connect_keeper(void)
{
	int ends[2];

	CHECK(keeper < 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	keeper = ends[0];
	on_keeper = (struct loop_fd){ .fd = -1, .on_ready = hear_keeper };
	MUST(loop_add(bed.loop, &on_keeper, keeper, EPOLLIN, &e));
	MUST(core_set_keeper(bed.core, 0, ends[1], &e));
}

void bed_keeper(void)
{
	connect_keeper();
	reply(KEEPER_HELLO, NULL, 0, -1);
	bed_until(greeted);
}

void bed_keeper_refuses(void)
{
	connect_keeper();
	refuse(KEEPER_HELLO);
	bed_turn(5);
	bed_keeper_dies();
}

static void on_no_keeper(void *arg, const struct err *e)
{
	CHECK(e->code == ERR_LIMIT);
	bed.refused++;
}

/* As the supervisor would, without another one yet. */
static bool on_hung(void *arg, unsigned slot)
{
	bed.hung++;
	if (bed.unheard > 0) {
		bed.unheard--;
		return false;
	}
	bed_keeper_dies();
	return true;
}

/* ---- the core */

static void make_folders(void)
{
	char path[96];

	(void)snprintf(folder, sizeof(folder), "/tmp/cordon-bed-XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	(void)snprintf(path, sizeof(path), "%s/run", folder);
	CHECK(mkdir(path, 0700) == 0);
	run_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	state_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(run_fd >= 0 && state_fd >= 0);
}

static void fill(struct core_options *o, unsigned keeper_timeout_ms)
{
	config_defaults(&config, &(struct config_starter){ .root = true });
	config.pool_size = config.pool_max = 0;
	config.memory_default = 512ULL << 20; /* as the supervisor sets them on a small machine */
	config.disk_default = 256ULL << 20;
	if (bed.started_pool) {
		config.pool_max = 4;
		config.pool_started_size = 1;
	}
	config.keeper_timeout_ms = keeper_timeout_ms;
	*o = (struct core_options){ .config = &config,
				    .seal = seal,
				    .parts = { &alarms_part, &secret_part, &net_access_part },
				    .state_fd = state_fd,
				    .run_fd = run_fd,
				    .on_no_keeper = on_no_keeper,
				    .replace_keeper = on_hung,
				    .negress = BED_EGRESS };
	for (int i = 0; i < CELL_CGROUP_DIRS; i++)
		o->cgroups.dirs[i] = -1;
	o->levels[CELL_CONTAINER].is_possible = 1;
	for (int i = 0; i < SERVE_LEVEL_FILES; i++)
		o->level_files[i] = -1;
	o->host.nlayers = 1;
	(void)snprintf(o->host.layers[0].at, CELL_PLACE_MAX, "/");
	o->template_root = 1;
	(void)snprintf(o->template_dir, sizeof(o->template_dir), "/templates");
}

void bed_make_core(unsigned keeper_timeout_ms)
{
	char line[SEAL_LINE_MAX];
	struct core_options o;
	struct err why;

	log_setup(LOG_FORMAT_LOGFMT, LOG_LEVEL_ERROR);
	before = count_fds();
	bed.list = bed.in = bed.out = bed.errs = -1;
	on_pid1.fd = on_keeper.fd = -1;
	buf_init(&said, 1 << 20);
	make_folders();
	seal_make_line("k", line);
	MUST(seal_read(line, strlen(line), &seal, &e));
	bed.loop = loop_new(&why);
	CHECK(bed.loop != NULL);
	MUST(store_open(&store, folder, &e));
	fill(&o, keeper_timeout_ms);
	bed.core = core_new(bed.loop, store, &o, &why);
	if (bed.core == NULL)
		fail_at(__FILE__, __LINE__, why.msg);
	bed.tenant = bed.core->tenants;
	CHECK(bed.tenant != NULL);
}

void bed_make(unsigned keeper_timeout_ms)
{
	bed_make_core(keeper_timeout_ms);
	bed_keeper();
}

void bed_end(void)
{
	core_free(bed.core);
	loop_remove(bed.loop, &on_keeper);
	loop_remove(bed.loop, &on_pid1);
	close_one(&keeper);
	close_one(&pid1);
	io_close_all(elders, nelders);
	close_one(&bed.list);
	close_stdio();
	loop_free(bed.loop);
	store_close(store);
	seal_free(seal);
	buf_release(&said);
	close_one(&state_fd);
	close_one(&run_fd);
	for (unsigned i = 0; i < nchildren; i++) {
		(void)kill(children[i], SIGKILL);
		(void)waitpid(children[i], NULL, 0);
	}
	rmtree(AT_FDCWD, folder);
	if (count_fds() > before + KEPT)
		fail_at(__FILE__, __LINE__, "descriptors are left");
}

/* ---- sessions */

static int outcome; /* of making: 0 not yet, 1 well, -1 not */

static void on_made(struct completion *c, const struct err *e)
{
	outcome = e == NULL ? 1 : -1;
}

static bool is_made(void)
{
	return outcome != 0;
}

void bed_session(void)
{
	struct session_spec spec = { .profile = -1,
				     .template = bed.template,
				     .keep_diff = bed.keep_diff };
	struct completion made = { .on_done = on_made };
	unsigned retry;

	outcome = 0;
	MUST(session_create(bed.core, bed.tenant, &spec, &made, &bed.session, &retry, &e));
	bed_until(is_made);
	CHECK(outcome == 1);
}

static bool is_deleted(void)
{
	return bed.core->live == 0 && bed.core->cells.ending == 0;
}

void bed_begin_delete(void)
{
	char id[STORE_ID_MAX];

	(void)snprintf(id, sizeof(id), "%s", session_row(bed.session)->id);
	MUST(session_delete(bed.core, bed.tenant, id, NULL, &e));
}

void bed_delete(void)
{
	bed_begin_delete();
	if (keeper >= 0 && bed.way[KEEPER_DESTROY] == BED_ANSWER && nheld == 0)
		bed_until(is_deleted);
}
