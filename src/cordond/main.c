/* main.c - cordond: its start, its listeners, its end.
 *
 * cordon serve starts it with everything it may use: listeners, the cgroup directories to read, the
 * configuration, and the control socket over which channels to keepers and to cordon-egress come.
 * It opens its store, confines itself, and serves until it gets SIGTERM or the control socket
 * closes. Cells continue without it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

#include "api.h"
#include "cells_wait.h"
#include "build.h"
#include "certificate.h"
#include "clock.h"
#include "config.h"
#include "confine.h"
#include "core_run.h"
#include "e2b.h"
#include "fd_reserve.h"
#include "fd_std.h"
#include "core_metrics.h"
#include "image_pull.h"
#include "io.h"
#include "log.h"
#include "loop.h"
#include "mcp_endpoint.h"
#include "mcptools.h"
#include "json_members.h"
#include "network_check.h"
#include "policy.h"
#include "request.h"
#include "request_log.h"
#include "start_error.h"
#include "state_lock.h"
#include "net_access.h"
#include "seal.h"
#include "secret_part.h"
#include "supervisor_msg.h"
#include "supervisor_notify.h"
#include "server.h"
#include "servers_part.h"
#include "store.h"
#include "unfit_answer.h"
#include "volume.h"
#include "byte_account.h"
#include "large_blocks.h"

#define HEAD_MAX 32768
#define HURRY_MS 300  /* at the end: for requests under way to be answered as usual */
#define CLOSE_MS 1000 /* then for answers that are being sent, and for connections to end */
#define DRAIN_LOOK_MS 5
#define RECOVERY_WAIT_MS 2000 /* clients wait this long for recovery */

struct daemon {
	struct loop *loop;
	struct config config;
	struct serve_setup setup;
	struct store *store;
	struct core *core;
	struct e2b *e2b;
	struct certificate certificate;
	struct server *servers[2];   /* with TLS (if there is any) and plain */
	struct byte_account account; /* of both */
	int state_fd, run_fd, lock_fd;
	int cgroup_fds[CELL_CGROUP_DIRS];   /* -1: not given */
	int level_files[SERVE_LEVEL_FILES]; /* the same */
	struct loop_fd control, signals;
	struct loop_timer drain;
	uint64_t drain_began_ns;
	struct cells_wait cells_wait;
	bool hurried;
	struct loop_timer recovery_slow;
	bool open;
	char *node_policy; /* owned */
	struct seal *seal;
	char unfit[128]; /* why it cannot serve; "": it can */
	struct loop_timer unfit_end;
	struct supervisor_ready ready;
	int status; /* of the process, when the loop has stopped */
};

static int given(int fd)
{
	return fcntl(fd, F_GETFD) < 0 ? -1 : fd;
}

/* Called before anything is opened, which would get the numbers of descriptors that were not given.
 */
static void find_given(struct daemon *d)
{
	for (int i = 0; i < CELL_CGROUP_DIRS; i++)
		d->cgroup_fds[i] = given(SERVE_FD_CGROUP + i);
	for (int i = 0; i < SERVE_LEVEL_FILES; i++)
		d->level_files[i] = given(SERVE_FD_LEVELS + i);
}

static int read_setup(struct daemon *d, struct err *e)
{
	ssize_t n = pread(SERVE_FD_SETUP, &d->setup, sizeof(d->setup), 0);

	if (n != (ssize_t)sizeof(d->setup) || d->setup.version != SERVE_VERSION ||
	    d->setup.nlisteners > SERVE_LISTENERS_MAX || d->setup.nkeepers == 0 ||
	    d->setup.nkeepers > SERVE_KEEPERS_MAX || d->setup.negress == 0 ||
	    d->setup.negress > SERVE_EGRESS_MAX || d->setup.nroots > SERVE_ROOTS_MAX)
		return err_set(e, ERR_INVALID,
			       "must be started by cordon serve of the same version");
	return config_read_fd(&d->config, SERVE_FD_CONFIG, e);
}

static int open_folders(struct daemon *d, struct err *e)
{
	d->state_fd = open(d->config.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->state_fd < 0)
		return err_sys(e, "open %s", d->config.state_dir);
	d->run_fd = open(d->config.run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->run_fd < 0)
		return err_sys(e, "open %s", d->config.run_dir);
	return state_lock(d->state_fd, d->config.state_dir, &d->lock_fd, e);
}

/* The node's layer of every session's policy. */
static int read_policy(struct daemon *d, struct err *e)
{
	const char *path = d->config.egress_policy;
	ssize_t n;

	if (path[0] == '\0')
		return 0;
	d->node_policy = malloc(POLICY_TEXT_MAX + 1);
	if (d->node_policy == NULL)
		return err_sys(e, "egress_policy");
	n = io_read_file(AT_FDCWD, path, d->node_policy, POLICY_TEXT_MAX + 1, e);
	return n < 0 ? err_wrap(e, "egress_policy") : 0;
}

/* The descriptor is a copy in memory: only the supervisor may read the file. */
static int read_keys(struct daemon *d, struct err *e)
{
	char text[SEAL_TEXT_MAX + 1];
	ssize_t n = pread(SERVE_FD_SECRETS, text, sizeof(text), 0);
	int done = n < 0 ? err_sys(e, "read") : seal_read(text, (size_t)n, &d->seal, e);

	explicit_bzero(text, sizeof(text));
	fd_close(SERVE_FD_SECRETS);
	return done < 0 ? err_wrap(e, "keys of secrets") : 0;
}

static void fill_options(const struct daemon *d, struct core_options *o)
{
	const struct serve_setup *s = &d->setup;

	memset(o, 0, sizeof(*o));
	o->config = &d->config;
	o->node_policy = d->node_policy;
	o->seal = d->seal;
	o->parts[0] = &secret_part;
	o->parts[1] = &net_access_part;
	o->parts[2] = &build_part;
	o->parts[3] = &pull_part;
	o->parts[4] = &volume_part;
	o->parts[5] = &servers_part;
	o->state_fd = d->state_fd;
	o->run_fd = d->run_fd;
	o->cgroups.version = (int)s->cgroup_version;
	o->cgroups.limits = s->limits;
	memcpy(o->cgroups.why, s->no_limits_why, sizeof(o->cgroups.why));
	for (int i = 0; i < CELL_CGROUP_DIRS; i++)
		o->cgroups.dirs[i] = d->cgroup_fds[i];
	memcpy(o->levels, s->levels, sizeof(o->levels));
	o->use_kvm = s->use_kvm != 0;
	memcpy(o->guest_key, s->guest_key, sizeof(o->guest_key));
	memcpy(o->guest_origin, s->guest_origin, sizeof(o->guest_origin));
	memcpy(o->level_files, d->level_files, sizeof(o->level_files));
	o->host_bytes = s->host_bytes;
	o->host.nlayers = s->host.nlayers;
	for (uint32_t i = 0; i < s->host.nlayers && i < CELL_LAYERS_MAX; i++) {
		o->host.layers[i].root = s->host.roots[i];
		memcpy(o->host.layers[i].at, s->host.at[i], CELL_PLACE_MAX);
	}
	o->template_root = s->template_root;
	memcpy(o->template_dir, s->template_dir, sizeof(o->template_dir));
	o->has_storage = true;
	o->storage_root = s->layers_root;
	o->has_volumes = true;
	o->volume_root = s->volumes_root;
	o->nkeepers = s->nkeepers;
	o->negress = s->negress;
	o->nroots = s->nroots;
	for (uint32_t i = 0; i < s->nroots; i++) {
		o->roots[i].root = s->roots[i].root;
		o->roots[i].writable = s->roots[i].writable != 0;
		memcpy(o->roots[i].path, s->roots[i].path, CELL_PATH_MAX);
	}
}

static size_t connections(const struct daemon *d)
{
	return server_connections(d->servers[0]) + server_connections(d->servers[1]);
}

static void note_clients(const struct daemon *d)
{
	const struct core_metrics_clients now = { .connections = connections(d),
						  .unkeyed = server_unkeyed(d->servers[0]) +
							     server_unkeyed(d->servers[1]),
						  .held = d->account };

	core_metrics_clients(&now);
}

static void on_answered(const struct exchange *x, int status, uint64_t bytes_out, uint64_t ns,
			void *arg)
{
	const struct daemon *d = arg;

	if (d->core != NULL) {
		core_metrics_request(status, ns);
		note_clients(d);
	}
	request_log(x, status, bytes_out, ns);
}

/* Three interfaces share each listener: a request that is neither one of E2B's nor one of an
 * agent's goes to the native API. */
static void handle(struct daemon *d, struct exchange *x, bool tls)
{
	if (!e2b_handle(d->e2b, x, tls) &&
	    !mcptools_handle(x, d->core, d->certificate.tls != NULL) &&
	    !mcp_endpoint_handle(x, d->core))
		api_handle(x, d->core);
}

static void on_tcp_request(struct exchange *x, void *arg)
{
	handle(arg, x, ((struct daemon *)arg)->certificate.tls != NULL);
}

static void on_unix_request(struct exchange *x, void *arg)
{
	handle(arg, x, false);
}

/* ---- a damaged database
 *
 * Then nothing can be served, and a restart does not help. Every request is answered with 503 and
 * the reason; cells and keepers continue. After UNFIT_MS cordond ends and is started again, in
 * case the operator has repaired the file. */
#define UNFIT_MS 10000

static void on_unfit_request(struct exchange *x, void *arg)
{
	unfit_answer(x, ((const struct daemon *)arg)->unfit);
}

static void on_unfit_end(struct loop_timer *t)
{
	struct daemon *d = t->arg;

	loop_stop(d->loop);
}

static void set_unfit(struct daemon *d, const struct err *e)
{
	(void)snprintf(d->unfit, sizeof(d->unfit), "the server's database is damaged: see its log");
	log_error("the database is damaged; nothing is served until it is repaired",
		  "folder=%s file=%s error=%s help=%s", d->config.state_dir, STORE_FILE, e->msg,
		  "restore it from a backup, or recover it with sqlite3 and .recover; without the "
		  "file the server starts empty, with a new first.key");
	d->unfit_end = (struct loop_timer){ .on_expire = on_unfit_end, .arg = d };
	loop_timer_set(d->loop, &d->unfit_end, clock_now_ns() + UNFIT_MS * CLOCK_MS);
	loop_timer_set(d->loop, &d->recovery_slow, clock_now_ns());
}

static int start_servers(struct daemon *d, struct err *e)
{
	struct server_options o = { .head_max = HEAD_MAX,
				    .connections_max = d->config.connections_max,
				    .unkeyed_max = d->config.connections_max / 4 * 3,
				    .unkeyed_per_address = d->config.unkeyed_per_address,
				    .bodies_one_max = d->config.tenant_bodies_max,
				    .bodies_all_max = 4 * d->config.tenant_bodies_max,
				    .all = &d->account,
				    .jobs = d->core == NULL ? NULL : core_jobs(d->core),
				    .head_ms = d->config.head_timeout_ms,
				    .idle_ms = d->config.keepalive_ms,
				    .body_ms = d->config.body_timeout_ms,
				    .write_ms = d->config.write_timeout_ms,
				    .on_request =
					    d->unfit[0] != '\0' ? on_unfit_request : on_tcp_request,
				    .on_answered = on_answered,
				    .arg = d };

	if (certificate_open(&d->certificate, d->loop, d->state_fd, &d->config, e) < 0)
		return -1;
	o.tls = d->certificate.tls;
	d->servers[0] = server_new(d->loop, &o, e);
	o.tls = NULL;
	if (d->unfit[0] == '\0')
		o.on_request = on_unix_request;
	d->servers[1] = d->servers[0] == NULL ? NULL : server_new(d->loop, &o, e);
	return d->servers[1] == NULL ? -1 : 0;
}

/* Until the server can answer, clients wait in the queues of the listeners: an upgrade or a crash
 * costs them a moment and no error. */
static void open_listeners(struct daemon *d)
{
	struct err e;

	loop_timer_cancel(d->loop, &d->recovery_slow);
	if (d->open || d->drain_began_ns != 0)
		return;
	d->open = true;
	for (uint32_t i = 0; i < d->setup.nlisteners; i++)
		if (server_listen(d->servers[i < d->setup.tls_from ? 0 : 1],
				  SERVE_FD_LISTEN + (int)i, &e) < 0) {
			log_error("cordond cannot listen", "error=%s", e.msg);
			loop_stop(d->loop); /* the supervisor starts another cordond; cells continue
					     */
		}
}

/* Recovery takes long: requests are answered with 503 until it is done. */
static void on_recovery_slow(struct loop_timer *t)
{
	open_listeners(t->arg);
}

static void on_ready(void *arg)
{
	struct daemon *d = arg;

	mcptools_recover(d->core);
	open_listeners(d);
	supervisor_notify_ready(&d->ready, d->core);
}

/* Without a keeper no session can be made. If the cause does not go away by itself, the supervisor
 * ends the server. */
static void on_no_keeper(void *arg, const struct err *e)
{
	struct daemon *d = arg;

	if (start_error_status(e) != SERVE_EXIT_CANNOT_START)
		return;
	log_error("cordond cannot start", "error=%s", e->msg);
	d->status = SERVE_EXIT_CANNOT_START;
	loop_stop(d->loop);
}

static void on_drain(struct loop_timer *t)
{
	struct daemon *d = t->arg;
	uint64_t now = clock_now_ns(), ms = (now - d->drain_began_ns) / CLOCK_MS;
	bool left = ms >= CLOSE_MS || connections(d) == 0;

	if (ms >= HURRY_MS && !d->hurried) {
		d->hurried = true;
		server_hurry(d->servers[0]);
		server_hurry(d->servers[1]);
	}
	if (left && (d->core == NULL || cells_wait_is_over(&d->cells_wait, d->core, now)))
		loop_stop(d->loop);
	else
		loop_timer_set(d->loop, t, now + DRAIN_LOOK_MS * CLOCK_MS);
}

static void begin_drain(struct daemon *d)
{
	if (d->drain_began_ns != 0)
		return;
	log_info("cordond ending", "connections=%zu", connections(d));
	if (d->core != NULL)
		core_drain(d->core);
	for (int i = 0; i < 2; i++)
		server_drain(d->servers[i]);
	d->drain = (struct loop_timer){ .on_expire = on_drain, .arg = d };
	d->drain_began_ns = clock_now_ns();
	d->cells_wait = (struct cells_wait){ d->drain_began_ns, d->drain_began_ns, 0 };
	loop_timer_set(d->loop, &d->drain, clock_now_ns());
}

static void on_signal(struct loop_fd *f, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)events;
	if (read(f->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		begin_drain(f->arg);
}

static bool is_channel(uint8_t word)
{
	return word == SERVE_KEEPER || word == SERVE_EGRESS || word == SERVE_STORAGE ||
	       word == SERVE_PULL || word == SERVE_CACHE;
}

static int take_channel(struct daemon *d, const uint8_t *message, int fd, struct err *e)
{
	if (message[0] == SERVE_EGRESS)
		return net_access_set_egress(d->core, message[1], fd, e);
	if (message[0] == SERVE_STORAGE)
		return core_set_storage(d->core, fd, e);
	if (message[0] == SERVE_PULL)
		return image_pull_set_channel(d->core, fd, e);
	if (message[0] == SERVE_CACHE)
		return net_access_set_cache(d->core, fd, e);
	return core_set_keeper(d->core, message[1], fd, e);
}

static void on_control(struct loop_fd *f, uint32_t events)
{
	struct daemon *d = f->arg;
	uint8_t message[SERVE_MESSAGE] = { 0 };
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e;
	struct fd_reserve *reserve = d->core == NULL ? NULL : core_reserve(d->core);
	ssize_t n;

	(void)events;
	if (reserve != NULL)
		fd_reserve_lend(reserve, 1);
	n = io_recv(f->fd, message, sizeof(message), fds, IO_FDS_MAX, &nfds, &e);
	if (reserve != NULL)
		fd_reserve_fill(reserve);
	if (n == (ssize_t)sizeof(message) && nfds == 0 && message[0] == SERVE_HOST) {
		if (d->core != NULL)
			templates_host_changed(d->core);
		return;
	}
	if (n != (ssize_t)sizeof(message) || nfds != 1 || !is_channel(message[0])) {
		io_close_all(fds, nfds);
		log_warn("the control socket of the supervisor is closed or broken", "");
		loop_stop(d->loop); /* the next server starts another cordond; cells continue */
		return;
	}
	if (d->core == NULL)
		return; /* the descriptor stays open: otherwise the program at its other end would
			   end */
	if (take_channel(d, message, fds[0], &e) < 0)
		log_error("channel to another program not accepted", "kind=%u error=%s", message[0],
			  e.msg);
}

static int watch(struct daemon *d, struct err *e)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_sys(e, "signals");
	d->signals = (struct loop_fd){ .fd = -1, .on_ready = on_signal, .arg = d };
	d->control = (struct loop_fd){ .fd = -1, .on_ready = on_control, .arg = d };
	if (loop_add(d->loop, &d->signals, fd, EPOLLIN, e) < 0)
		return -1;
	return loop_add(d->loop, &d->control, SERVE_FD_CONTROL, EPOLLIN, e);
}

/* Opens what needs the database. REASON_DAMAGED: the database is damaged. */
static int start_core(struct daemon *d, const struct core_options *o, struct err *e)
{
	if (store_open(&d->store, d->config.state_dir, e) < 0)
		return -1;
	if (!store_can_shrink(d->store))
		log_warn("the database file was made by an older version and does not shrink",
			 "help=%s",
			 "while the server is stopped: sqlite3 cordon.db 'PRAGMA auto_vacuum = 2; "
			 "VACUUM'");
	d->core = core_new(d->loop, d->store, o, e);
	if (d->core == NULL)
		return -1;
	d->e2b = e2b_new(d->core, e);
	if (d->e2b != NULL)
		return 0;
	core_free(d->core);
	d->core = NULL;
	return -1;
}

/* The thread of checkpoints must start in between: it inherits the rules for files, and none can
 * start under the filter of system calls. */
static int confine(struct daemon *d, const struct core_options *o, struct err *e)
{
	if (confine_files(&(struct confine_folders){ .folders = { d->state_fd, d->run_fd },
						     .read = o->cgroups.dirs,
						     .nread = CELL_CGROUP_DIRS },
			  e) < 0)
		return -1;
	if (d->unfit[0] == '\0' && store_checkpoint_in_thread(d->store, e) < 0)
		return -1;
	return confine_calls(e);
}

static int start(struct daemon *d, struct err *e)
{
	struct core_options o;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	log_setup((enum log_format)d->config.log_format, (enum log_level)d->config.log_level);
	if (open_folders(d, e) < 0)
		return -1;
	d->loop = loop_new(e);
	if (d->loop == NULL)
		return -1;
	/* Before the first document is parsed: jansson would open a file for its seed later. */
	json_members_setup();
	if (read_policy(d, e) < 0 || read_keys(d, e) < 0)
		return -1;
	fill_options(d, &o);
	o.on_ready = on_ready;
	o.arg = d;
	o.on_no_keeper = on_no_keeper;
	o.replace_keeper = supervisor_replace_keeper;
	o.replace_egress = supervisor_replace_egress;
	o.replace_pull = supervisor_replace_pull;
	o.replace_cache = supervisor_replace_cache;
	o.replace_storage = supervisor_replace_storage;
	d->recovery_slow = (struct loop_timer){ .on_expire = on_recovery_slow, .arg = d };
	loop_timer_set(d->loop, &d->recovery_slow, clock_now_ns() + RECOVERY_WAIT_MS * CLOCK_MS);
	if (start_core(d, &o, e) < 0) {
		if (e->reason != REASON_DAMAGED)
			return -1;
		set_unfit(d, e);
	}
	if (start_servers(d, e) < 0 || watch(d, e) < 0)
		return -1;
	return confine(d, &o, e);
}

int main(int argc, char **argv)
{
	static struct daemon d;
	struct err e = { 0 };

	fd_std_fill();
	if (argc == 2 && strcmp(argv[1], "--routes") == 0) {
		api_print_routes(stdout);
		mcptools_print_routes(stdout);
		mcp_endpoint_print_routes(stdout);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--e2b-routes") == 0) {
		e2b_print_routes(stdout);
		return 0;
	}
	if (argc == 4 && strcmp(argv[1], "--check-network") == 0)
		return network_check(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "--check-tls") == 0)
		return certificate_check(argv[2], argv[3]);
	(void)prctl(PR_SET_NAME, "cordond", 0, 0, 0); /* executed by descriptor, it has no name */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);     /* keys and secrets pass through here */
	(void)signal(SIGPIPE, SIG_IGN);
	large_blocks_set_up();
	find_given(&d);
	if (read_setup(&d, &e) < 0) {
		(void)fprintf(stderr, "cordond: %s\n", e.msg);
		return 2;
	}
	for (int fd = SERVE_FD_CONTROL; fd < SERVE_FD_LISTEN + SERVE_LISTENERS_MAX; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (start(&d, &e) < 0) {
		log_error("cordond cannot start", "error=%s", e.msg);
		return start_error_status(&e);
	}
	if (loop_run(d.loop, &e) < 0) {
		log_error("cordond failed", "error=%s", e.msg);
		return 1;
	}
	log_info("cordond ended", "");
	return d.unfit[0] != '\0' ? 1 : d.status;
}
