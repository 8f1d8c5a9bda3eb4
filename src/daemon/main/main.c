/* main.c - cordond: its start, its listeners, its end.
 *
 * cordon serve starts it with everything it may use: listeners, the cgroup directories to read, the
 * configuration, and the control socket over which channels to keepers and to cordon-egress come.
 * It opens its store, confines itself, and serves until it gets SIGTERM or the control socket
 * closes. Cells continue without it. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

#include "daemon/alarms/alarm.h"
#include "daemon/alarms/refused_calls.h"
#include "daemon/audit/notary_link.h"
#include "daemon/egressctl/net_access.h"
#include "daemon/images/build.h"
#include "daemon/images/image_pull.h"
#include "daemon/main/certificate.h"
#include "daemon/main/confine_daemon.h"
#include "daemon/main/supervisor.h"
#include "daemon/node/core_metrics.h"
#include "daemon/node/core_run.h"
#include "daemon/secrets/seal.h"
#include "daemon/secrets/secret_part.h"
#include "daemon/store/store.h"
#include "daemon/volumes/volume.h"
#include "front/mcpservers/servers_part.h"
#include "front/mcptools/mcptools.h"
#include "front/router/router.h"
#include "front/web/json_members.h"
#include "front/web/request.h"
#include "lib/base/byte_account.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/fd_reserve.h"
#include "lib/base/fd_std.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/own.h"
#include "lib/config/config.h"
#include "lib/json/json.h"
#include "lib/loop/loop.h"
#include "lib/net/server.h"
#include "lib/policy/policy.h"
#include "lib/policy/policy_select.h"
#include "lib/wire/supervisor_msg.h"

/* ---- answers without a database
 *
 * The answer to every request while the database is damaged. */

#define TEXT_MAX 2048

/* 503, in the native interface's shape of errors. */
static void unfit_answer(struct exchange *x, const char *why)
{
	char text[TEXT_MAX];
	struct json j;

	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_open(&j, "error", '{');
	json_text(&j, "code", "unavailable");
	json_text(&j, "message", why);
	json_text(&j, "fault", "platform");
	json_text(&j, "request_id", exchange_id(x));
	json_close(&j, '}');
	json_close(&j, '}');
	exchange_header(x, "Retry-After", "10");
	exchange_reply(x, 503, "application/json", j.text, j.len);
}

/* ---- the lock of the state folder
 *
 * One cordond for each state folder. Called at the start. */

#define LOCK_MS 15000 /* for an earlier cordond to end */
#define WARN_MS 1000  /* after which the wait is logged */

/* Lock the folder. Wait for the end of an earlier cordond that holds it. The lock is held until
 * *ret_fd is closed. */
static int state_lock(int state_fd, const char *folder, int *ret_fd, struct err *e)
{
	uint64_t began = clock_now_ns(), now;
	bool warned = false;

	*ret_fd = openat(state_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (*ret_fd < 0)
		return err_sys(e, "open lock in %s", folder);
	while (flock(*ret_fd, LOCK_EX | LOCK_NB) < 0) {
		now = clock_now_ns();
		if (errno != EWOULDBLOCK || now > began + LOCK_MS * CLOCK_MS)
			return err_sys(e, "%s is used by another cordond", folder);
		if (!warned && now > began + WARN_MS * CLOCK_MS) {
			warned = true;
			log_warn("waiting for another cordond that uses the state folder to end",
				 "folder=%s for_ms=%d", folder, LOCK_MS);
		}
		(void)poll(NULL, 0, 20);
	}
	return 0;
}

/* ---- errors at the start
 *
 * The exit status of a cordond that cannot start. */

/* SERVE_EXIT_CANNOT_START for a lasting cause: the supervisor then ends the server. 1 for a full
 * disk, too few descriptors or an ending other daemon: the supervisor tries again. */
static int start_error_status(const struct err *e)
{
	static const int temporary[] = { EAGAIN, EBUSY,	 EDQUOT, EINTR, EIO,
					 EMFILE, ENFILE, ENOMEM, ENOSPC };

	for (size_t i = 0; i < COUNT(temporary); i++)
		if (e->sys == temporary[i])
			return 1;
	return e->code == ERR_LIMIT ? 1 : SERVE_EXIT_CANNOT_START;
}

/* ---- the log of requests
 *
 * One line in the log for each answered request. */

/* Clients without a key can cause as many lines as they like: of each kind so many a second are
 * written, and the next line has the number of those left out. */
static bool may_log(const struct request *about, int status, unsigned long long *ret_dropped)
{
	static struct log_limit limits[] = {
		{ .burst = 200, .interval_ms = 1000 }, /* answered, at a sandbox */
		{ .burst = 50, .interval_ms = 1000 },  /* answered */
		{ .burst = 20, .interval_ms = 1000 },  /* 401, 403 */
		{ .burst = 20, .interval_ms = 1000 },  /* 404 */
		{ .burst = 20, .interval_ms = 1000 },  /* other 4xx */
		{ .burst = 20, .interval_ms = 1000 },  /* 5xx, and dropped connections */
	};
	unsigned kind = 5;

	*ret_dropped = 0;
	if (about != NULL && about->grant.key_id[0] != '\0')
		return true;
	if (status == 401 || status == 403)
		kind = 2;
	else if (status == 404)
		kind = 3;
	else if (status >= 400 && status < 500)
		kind = 4;
	else if (status >= 100 && status < 400)
		kind = about != NULL && about->tenant != NULL ? 0 : 1;
	return log_limit(&limits[kind], ret_dropped);
}

/* bytes: the answer's. ns: from the request's first byte to the answer's last. */
static void request_log(const struct exchange *x, int status, uint64_t bytes, uint64_t ns)
{
	const struct http1_request *r = exchange_request(x);
	const struct request *about = request_of(x); /* NULL: no handler saw it */
	char method[16], path[512];
	unsigned long long dropped;

	if (!log_wants(LOG_LEVEL_INFO) || !may_log(about, status, &dropped))
		return;
	(void)snprintf(method, sizeof(method), "%.*s", (int)r->method_name.n, r->method_name.p);
	(void)snprintf(path, sizeof(path), "%.*s", (int)(r->path.n < 511 ? r->path.n : 511),
		       r->path.p);
	log_info("request",
		 "request_id=%s session_id=%s method=%s path=%s status=%d bytes=%llu us=%llu "
		 "peer=%s left_out=%llu",
		 exchange_id(x), about == NULL ? "" : about->session_id, method, path, status,
		 (unsigned long long)bytes, (unsigned long long)(ns / 1000), exchange_peer(x),
		 dropped);
}

/* ---- --check-network
 *
 * Checks the operator's network settings before the server is started. */

static int check_policy(struct err *e)
{
	OWN_MEM char *text = malloc(POLICY_TEXT_MAX + 1);
	struct policy *p = NULL;
	size_t n;

	if (text == NULL)
		return err_sys(e, "egress_policy");
	n = fread(text, 1, POLICY_TEXT_MAX + 1, stdin);
	if (n == 0)
		return 0;
	if (policy_read(text, n, POLICY_NODE, &p, e) < 0)
		return err_wrap(e, "egress_policy");
	policy_free(p);
	return 0;
}

static int check_presets(const char *setting, const char *presets, struct err *e)
{
	OWN_MEM char *document = NULL;

	if (policy_select_presets(presets, &document, e) < 0)
		return err_wrap(e, "%s", setting);
	return 0;
}

/* cordond --check-network PRESETS PRESETS PRESETS: check network_default, build_network and
 * build_networks ("": not set), and the node's policy on standard input (empty: none). Print the
 * error to standard error. Return the exit code. */
static int network_check(const char *presets, const char *of_builds, const char *for_builds)
{
	struct err e = { 0 };
	int good = check_presets("network_default", presets, &e);

	if (good == 0 && of_builds[0] != '\0')
		good = check_presets("build_network", of_builds, &e);
	if (good == 0 && for_builds[0] != '\0')
		good = check_presets("build_networks", for_builds, &e);
	if (good == 0)
		good = check_policy(&e);
	if (good < 0)
		(void)fprintf(stderr, "%s\n", e.msg);
	return good < 0 ? 1 : 0;
}

/* ---- large blocks
 *
 * Where malloc takes large blocks from. Called before any is allocated. */

/* Answers and bodies may have some MiB each, and slow clients keep them for a while. From 1 MiB on
 * a block is a mapping of its own, which goes back to the kernel when it is freed. Otherwise malloc
 * raises that bound with the first large block, and freed memory between blocks in use stays. */
static void large_blocks_set_up(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 2 << 20);
}

/* ---- the end of cells
 *
 * How long cordond, when it stops, waits for the cells of the pool to end: as long
 * as their number changes. A keeper that ends or hangs now is not replaced, and clients wait for
 * the next cordond, which ends the remaining cells (core_run.h). */

struct cells_wait {
	uint64_t began_ns;
	uint64_t changed_ns; /* when the number last changed. At first began_ns */
	unsigned ending;
};

#define ALL_MS 5000
#define STUCK_MS 1000 /* without the end of a cell: their keeper has ended or hangs */

/* After core_drain(). */
static bool cells_wait_is_over(struct cells_wait *w, const struct core *c, uint64_t now_ns)
{
	unsigned ending = core_cells_ending(c);

	if (core_drained(c))
		return true;
	if (ending != w->ending) {
		w->ending = ending;
		w->changed_ns = now_ns;
	}
	if (now_ns - w->began_ns < ALL_MS * CLOCK_MS &&
	    now_ns - w->changed_ns < STUCK_MS * CLOCK_MS)
		return false;
	if (ending > 0)
		log_warn("cells are left for the next cordond to end", "cells=%u", ending);
	return true;
}

/* ---- the daemon */

#define HEAD_MAX 32768
#define HURRY_MS 300  /* at the end: for open requests to be answered as usual */
#define CLOSE_MS 1000 /* then for unfinished answers, and for connections to end */
#define DRAIN_LOOK_MS 5
#define RECOVERY_WAIT_MS 2000 /* clients wait this long for recovery */

struct daemon {
	struct loop *loop;
	struct config config;
	struct serve_setup setup;
	struct store *store;
	struct core *core;
	struct notary_link *notary; /* owned */
	struct router router;
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
	char unfit[128]; /* why it cannot serve. "": it can */
	struct loop_timer unfit_end;
	struct supervisor_ready ready;
	int status; /* of the process, when the loop has stopped */
};

static int main_given(int fd)
{
	return fcntl(fd, F_GETFD) < 0 ? -1 : fd;
}

/* Called before anything is opened: a new descriptor would get the number of a missing one.
 */
static void find_given(struct daemon *d)
{
	for (int i = 0; i < CELL_CGROUP_DIRS; i++)
		d->cgroup_fds[i] = main_given(SERVE_FD_CGROUP + i);
	for (int i = 0; i < SERVE_LEVEL_FILES; i++)
		d->level_files[i] = main_given(SERVE_FD_LEVELS + i);
}

static int read_setup(struct daemon *d, struct err *e)
{
	ssize_t n = pread(SERVE_FD_SETUP, &d->setup, sizeof(d->setup), 0);

	if (n != (ssize_t)sizeof(d->setup) || d->setup.version != SERVE_VERSION ||
	    d->setup.nlisteners > SERVE_LISTENERS_MAX || d->setup.nkeepers == 0 ||
	    d->setup.nkeepers > SERVE_KEEPERS_MAX || d->setup.negress == 0 ||
	    d->setup.negress > SERVE_EGRESS_MAX || d->setup.nroots > SERVE_ROOTS_MAX)
		return err_set(e, ERR_INVALID,
			       "must be started by cordon serve of the same version; reload the "
			       "server (systemctl reload cordon), its sessions continue");
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

static size_t main_connections(const struct daemon *d)
{
	return server_connections(d->servers[0]) + server_connections(d->servers[1]);
}

static void note_clients(const struct daemon *d)
{
	const struct core_metrics_clients now = { .connections = main_connections(d),
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

static void on_tcp_request(struct exchange *x, void *arg)
{
	struct router *r = &((struct daemon *)arg)->router;

	router_handle(r, x, r->has_tls);
}

static void on_unix_request(struct exchange *x, void *arg)
{
	router_handle(&((struct daemon *)arg)->router, x, false);
}

/* ---- a damaged database
 *
 * Then nothing can be served, and a restart does not help. Every request is answered with 503 and
 * the reason. Cells and keepers continue. After UNFIT_MS cordond ends and is started again, in case
 * the operator has repaired the file. */
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
	d->router.has_tls = o.tls != NULL;
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
			loop_stop(d->loop); /* the supervisor starts another cordond. Cells
					     *continue */
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
	bool left = ms >= CLOSE_MS || main_connections(d) == 0;

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
	log_info("cordond ending", "connections=%zu", main_connections(d));
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

	if (read(f->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		begin_drain(f->arg);
}

static bool is_channel(uint8_t word)
{
	return word == SERVE_KEEPER || word == SERVE_EGRESS || word == SERVE_STORAGE ||
	       word == SERVE_PULL || word == SERVE_CACHE || word == SERVE_NOTARY;
}

/* A program has started, or replaces one that ended: a record of the node's log. */
static void note_program(struct daemon *d, const uint8_t *message)
{
	static const struct {
		uint8_t word;
		const char *program;
	} programs[] = { { SERVE_KEEPER, "cordon-keeper" },   { SERVE_EGRESS, "cordon-egress" },
			 { SERVE_STORAGE, "cordon-storage" }, { SERVE_PULL, "cordon-pull" },
			 { SERVE_CACHE, "cordon-cache" },     { SERVE_NOTARY, "cordon-notary" } };

	for (size_t i = 0; i < COUNT(programs); i++)
		if (programs[i].word == message[0])
			core_note_program(d->core, programs[i].program, message[1]);
}

static int take_channel(struct daemon *d, const uint8_t *message, int fd, struct err *e)
{
	note_program(d, message);
	if (message[0] == SERVE_EGRESS)
		return net_access_set_egress(d->core, message[1], fd, e);
	if (message[0] == SERVE_STORAGE)
		return core_set_storage(d->core, fd, e);
	if (message[0] == SERVE_PULL)
		return image_pull_set_channel(d->core, fd, e);
	if (message[0] == SERVE_CACHE)
		return net_access_set_cache(d->core, fd, e);
	if (message[0] == SERVE_NOTARY)
		return notary_link_attach(d->notary, fd, e);
	return core_set_keeper(d->core, message[1], fd, e);
}

static void on_control(struct loop_fd *f, uint32_t events)
{
	struct daemon *d = f->arg;
	union {
		struct serve_host_changed host;
		uint8_t channel[SERVE_MESSAGE];
	} got = { 0 };
	const uint8_t *message = got.channel;
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e;
	struct fd_reserve *reserve = d->core == NULL ? NULL : core_reserve(d->core);
	ssize_t n;

	if (reserve != NULL)
		fd_reserve_lend(reserve, 1);
	n = io_recv(f->fd, &got, sizeof(got), fds, IO_FDS_MAX, &nfds, &e);
	if (reserve != NULL)
		fd_reserve_fill(reserve);
	if (n == (ssize_t)sizeof(got.host) && nfds == 0 && message[0] == SERVE_HOST) {
		if (d->core != NULL)
			templates_host_changed(d->core, got.host.name, got.host.bytes);
		return;
	}
	if (n != SERVE_MESSAGE || nfds != 1 || !is_channel(message[0])) {
		io_close_all(fds, nfds);
		log_warn("the control socket of the supervisor is closed or broken", "");
		loop_stop(d->loop); /* the next server starts another cordond. Cells continue */
		return;
	}
	if (d->core == NULL)
		return; /* the descriptor stays open: otherwise the program at its other end would
			   end */
	if (take_channel(d, message, fds[0], &e) < 0)
		log_error("channel to another program not accepted", "kind=%u error=%s", message[0],
			  e.msg);
}

static int main_watch(struct daemon *d, struct err *e)
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

/* Open what needs the database. REASON_DAMAGED: the database is damaged. */
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
	if (router_init(&d->router, d->core, e) == 0)
		return 0;
	core_free(d->core);
	d->core = NULL;
	return -1;
}

/* The thread of checkpoints must start in between: it inherits the rules for files, and none can
 * start under the filter of system calls. */
static int main_confine(struct daemon *d, const struct core_options *o, struct err *e)
{
	if (confine_daemon_files(&(struct confine_folders){ .folders = { d->state_fd, d->run_fd },
							    .read = o->cgroups.dirs,
							    .nread = CELL_CGROUP_DIRS },
				 e) < 0)
		return -1;
	if (d->unfit[0] == '\0' && store_checkpoint_in_thread(d->store, e) < 0)
		return -1;
	return confine_daemon_calls(e);
}

static void fill_options(struct daemon *d, struct core_options *o)
{
	*o = (struct core_options){
		.config = &d->config,
		.node_policy = d->node_policy,
		.seal = d->seal,
		.parts = { &alarms_part, &refused_calls_part, &secret_part, &net_access_part,
			   &build_part, &pull_part, &volume_part, &servers_part },
		.state_fd = d->state_fd,
		.run_fd = d->run_fd,
		.held = &d->account,
		.notary = d->notary,
		.on_ready = on_ready,
		.on_no_keeper = on_no_keeper,
		.arg = d,
	};
	memcpy(o->cgroups.dirs, d->cgroup_fds, sizeof(o->cgroups.dirs));
	memcpy(o->level_files, d->level_files, sizeof(o->level_files));
	supervisor_options(&d->setup, o);
}

static int main_start(struct daemon *d, struct err *e)
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
	d->notary = notary_link_new(d->loop, supervisor_replace_notary, NULL);
	if (d->notary == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	fill_options(d, &o);
	d->recovery_slow = (struct loop_timer){ .on_expire = on_recovery_slow, .arg = d };
	loop_timer_set(d->loop, &d->recovery_slow, clock_now_ns() + RECOVERY_WAIT_MS * CLOCK_MS);
	if (start_core(d, &o, e) < 0) {
		if (e->reason != REASON_DAMAGED)
			return -1;
		set_unfit(d, e);
	}
	if (start_servers(d, e) < 0 || main_watch(d, e) < 0)
		return -1;
	return main_confine(d, &o, e);
}

int main(int argc, char **argv)
{
	static struct daemon d;
	struct err e = { 0 };

	fd_std_fill();
	if (argc == 2 && strcmp(argv[1], "--routes") == 0) {
		router_print(stdout, false);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--e2b-routes") == 0) {
		router_print(stdout, true);
		return 0;
	}
	if (argc == 5 && strcmp(argv[1], "--check-network") == 0)
		return network_check(argv[2], argv[3], argv[4]);
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
	if (main_start(&d, &e) < 0) {
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
