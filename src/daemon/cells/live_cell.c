#include "daemon/cells/live_cell.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "daemon/cells/cell_socket.h"
#include "daemon/cells/live_guest.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

#define MAKE_TRIES 4
#define CLEAR_TRIES 100
#define GREET_MS 20000	 /* long, for busy machines: the cell is given up after it */
#define BOOT_MS 180000	 /* for a guest: cordon-shim gives up before */
#define END_GRACE_MS 500 /* for PID 1 to end by itself before it is killed */
#define RETRY_MS 50
#define FLUSH_MS 20
#define RETRY_MAX_MS 5000

static int ask_create(struct live_cell *c, struct err *e);
static void ask_clear(struct live_cell *c);
static void try_create(struct live_cell *c);
static void ask_destroy(struct live_cell *c);

static void set_timer(struct live_cell *c, uint64_t ms)
{
	loop_timer_set(c->cells->loop, &c->timer, clock_now_ns() + ms * CLOCK_MS);
}

static void live_cell_disconnect(struct live_cell *c)
{
	if (!c->connected)
		return;
	loop_remove(c->cells->loop, &c->channel);
	agent_release(&c->agent);
	c->connected = false;
}

static void live_cell_release(struct live_cell *c)
{
	struct loop *l = c->cells->loop;

	if (c->state == LIVE_ENDING)
		c->cells->ending--;
	if (c->call != NULL)
		keeper_link_cancel(c->call);
	while (c->programs != NULL)
		live_cell_remove(c, c->programs); /* none may point into c any more */
	live_guest_free(c);
	live_cell_disconnect(c);
	loop_remove(l, &c->death);
	loop_timer_cancel(l, &c->timer);
	io_close_all(&c->pidfd, 1);
	io_close_all(&c->listener, 1);
	free(c->plan);
	free(c);
}

/* The cell could not be made: call the owner, then remove its possible remains. */
static void live_cell_fail(struct live_cell *c, const struct err *why)
{
	const struct live_cell_events *events = c->events;

	log_warn("cell could not be made", "session_id=%s error=%s", c->id, why->msg);
	c->cells->failed++;
	events->on_up(c, why);
	/* The owner does not refer to it any more. It ends without one. */
	live_cell_abandon(c);
}

static void on_pid1_lost(struct live_cell *c)
{
	struct err e;

	live_cell_disconnect(c);
	if (c->dead)
		return;
	c->dead = true;
	live_guest_lost(c);
	if (c->state == LIVE_UP) {
		c->events->on_dead(c);
	} else if (c->state == LIVE_GREETING || c->state == LIVE_LINGER_SENT ||
		   c->state == LIVE_BOOTING) {
		(void)err_set(&e, ERR_SYSTEM, "PID 1 of the cell exited at its start");
		live_cell_fail(c, &e);
	}
}

static void on_death(struct loop_fd *f, uint32_t events)
{
	struct live_cell *c = f->arg;

	loop_remove(c->cells->loop, &c->death);
	io_close_all(&c->pidfd, 1);
	if (c->state == LIVE_ENDING) {
		live_cell_disconnect(c);
		c->dead = true;
		if (c->events->on_exited != NULL)
			c->events->on_exited(c);
		ask_destroy(c);
		return;
	}
	on_pid1_lost(c);
}

static int watch_death(struct live_cell *c, struct err *e)
{
	c->death = (struct loop_fd){ .fd = -1, .on_ready = on_death, .arg = c };
	return loop_add(c->cells->loop, &c->death, c->pidfd, EPOLLIN, e);
}

static int ask_linger(struct live_cell *c, struct err *e)
{
	c->state = LIVE_LINGER_SENT;
	return agent_send_linger(&c->agent, TAKE_FD(c->listener), c->cells->unattended_ms, e);
}

static void on_ready(struct live_cell *c, const struct agent_event *v)
{
	struct err e;

	c->version = v->pid;
	if (v->pid != AGENT_VERSION)
		log_warn("cell of another version", "session_id=%s version=%u", c->id, v->pid);
	c->greeted = true;	 /* often before the keeper's answer */
	if (c->state == LIVE_UP) /* adopted */
		live_cell_lease_send(c);
	if (c->state == LIVE_GREETING && ask_linger(c, &e) < 0)
		live_cell_fail(c, &e);
}

static void is_up(struct live_cell *c)
{
	loop_timer_cancel(c->cells->loop, &c->timer);
	c->state = LIVE_UP;
	c->synced = true;
	c->events->on_up(c, NULL);
}

static void on_lingering(struct live_cell *c, const struct agent_event *v)
{
	struct err e;
	int result;

	if (c->state != LIVE_LINGER_SENT)
		return;
	if (v->sys != 0) {
		errno = v->sys;
		(void)err_sys(&e, "the cell cannot listen");
		live_cell_fail(c, &e);
		return;
	}
	free(c->plan);
	c->plan = NULL;
	if (live_guest_boot(c, &result, &e)) {
		c->state = LIVE_BOOTING;
		set_timer(c, BOOT_MS);
		if (result < 0)
			live_cell_fail(c, &e);
		return;
	}
	is_up(c);
}

/* An answer of the guest, or something that happened to it. */
static void on_guest_event(struct live_cell *c, enum agent_type type, const struct agent_event *v)
{
	struct err e;
	bool up;

	if (live_guest_event(c, type, v, &up, &e) < 0 && c->state == LIVE_BOOTING)
		live_cell_fail(c, &e);
	else if (up && c->state == LIVE_BOOTING)
		is_up(c);
}

/* PID 1 is untrusted: refuses messages that would harm the daemon. A program without a process id
 * could start twice, a terminal that PID 1 does not hold blocks its writer (O_NONBLOCK belongs to
 * the open file, which PID 1 has, too), and each held program costs a query of the store. */
static int check_event(struct live_cell *c, enum agent_type type, const struct agent_event *v,
		       struct err *e)
{
	bool starting = (v->flags & AGENT_IS_STARTING) != 0;

	if (live_program_check(c, type, v, e) < 0 || live_guest_check(c, type, e) < 0)
		return -1;
	if (type != AGENT_STARTED && type != AGENT_HELD)
		return 0;
	if (!starting && (v->pid == 0 || v->pid > INT32_MAX))
		return err_set(e, ERR_INVALID, "PID 1 started process %u", v->pid);
	if ((v->flags & (AGENT_IS_TTY | AGENT_IS_HELD)) == AGENT_IS_TTY)
		return err_set(e, ERR_INVALID, "PID 1 sent a terminal that it does not hold");
	if (type == AGENT_HELD && ++c->nheld > AGENT_PROGRAMS_MAX)
		return err_set(e, ERR_INVALID, "PID 1 holds more than %u programs",
			       AGENT_PROGRAMS_MAX);
	return 0;
}

/* An event without a question is no answer: PID 1 is untrusted. */
static void on_stated(struct live_cell *c, const struct agent_event *v)
{
	c->disk_bytes = v->disk_bytes;
	c->inodes = v->inodes;
	c->processes = v->processes;
	if (c->stats_answered == c->stats_asked)
		return;
	c->stats_answered++;
	if (c->events->on_stated != NULL)
		c->events->on_stated(c, v);
}

static void on_event(struct live_cell *c, enum agent_type type, const struct agent_event *v)
{
	const bool early = c->state == LIVE_UP && !c->synced;

	if (type == AGENT_READY) {
		on_ready(c, v);
	} else if (type == AGENT_LINGERING) {
		on_lingering(c, v);
	} else if (type == AGENT_HELD) {
		if (c->events->on_held != NULL && (early || c->state == LIVE_BOOTING))
			c->events->on_held(c, v);
	} else if (type == AGENT_FAILED && early) {
		/* From a program of this daemon, or of an earlier one. */
		if (!live_program_event(c, type, v) && c->events->on_failed != NULL)
			c->events->on_failed(c, v);
	} else if (type == AGENT_SYNCED) {
		c->synced = c->synced || early;
		if (early && c->events->on_synced != NULL)
			c->events->on_synced(c);
	} else if (type == AGENT_STATED) {
		on_stated(c, v);
	} else if (type == AGENT_EGRESS_LISTENS) {
		if (c->events->on_egress_listens != NULL)
			c->events->on_egress_listens(c, v);
	} else if (type == AGENT_BOOTED || type == AGENT_SNAPSHOT_DONE || type == AGENT_GUEST) {
		on_guest_event(c, type, v);
	} else {
		(void)live_program_event(c, type, v);
	}
}

#define EVENTS_PER_TURN 64 /* so that one cell does not keep the others waiting */

/* PID 1 has nothing to report now, so another receive would find nothing. If there is a message all
 * the same, the loop calls again. */
static bool expects_nothing(const struct live_cell *c)
{
	return c->programs == NULL && c->agent.nfds == 0 && c->state != LIVE_BOOTING &&
	       (c->state != LIVE_UP || c->synced);
}

static void on_channel(struct loop_fd *f, uint32_t events)
{
	struct live_cell *c = f->arg;
	struct err e = { 0 };

	for (unsigned i = 0; i < EVENTS_PER_TURN; i++) {
		enum agent_type type;
		struct agent_event v;
		int got = agent_next(&c->agent, 0, &type, &v, &e);

		if (got == 0)
			break;
		if (got > 0 && check_event(c, type, &v, &e) < 0)
			got = -1;
		if (got < 0) {
			c->broken = e.code != ERR_SYSTEM;
			if (c->state == LIVE_UP && c->broken)
				log_warn("protocol error from PID 1", "session_id=%s error=%s",
					 c->id, e.msg);
			/* While ending, its death is what counts, and comes by its pidfd. */
			if (c->state == LIVE_ENDING)
				live_cell_disconnect(c);
			else
				on_pid1_lost(c);
			return;
		}
		/* A cell is freed only by a reply of the keeper, never in here. */
		on_event(c, type, &v);
		if (!c->connected)
			return;
		if (expects_nothing(c))
			break;
	}
	live_cell_flush(c);
}

uint64_t live_cell_stat(struct live_cell *c)
{
	struct err e;

	if (!c->connected || c->frozen || c->state != LIVE_UP || agent_send_stat(&c->agent, &e) < 0)
		return 0;
	live_cell_flush(c);
	return ++c->stats_asked;
}

void live_cell_flush(struct live_cell *c)
{
	struct err e;
	int more;

	if (!c->connected)
		return;
	more = agent_flush(&c->agent, &e);
	/* If PID 1 is gone, on_channel() or on_death() sees it. */
	loop_modify(c->cells->loop, &c->channel, EPOLLIN | (more > 0 ? EPOLLOUT : 0));
}

void live_cell_flush_later(struct live_cell *c)
{
	if (c->state != LIVE_UP)
		live_cell_flush(c);
	else if (c->timer.place == 0)
		set_timer(c, FLUSH_MS);
}

static int connect_channel(struct live_cell *c, int sock, struct err *e)
{
	agent_init(&c->agent, sock);
	c->connected = true;
	c->channel = (struct loop_fd){ .fd = -1, .on_ready = on_channel, .arg = c };
	return loop_add(c->cells->loop, &c->channel, sock, EPOLLIN, e);
}

/* The keeper ended while it made the cell. The half-made cell dies with its channel, but its cgroup
 * is in the way of the next try. */
static void on_cleared(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct live_cell *c = arg;
	struct err why;

	c->call = NULL;
	if (c->state == LIVE_ENDING) {
		ask_destroy(c);
		return;
	}
	if (e != NULL && e->reason == REASON_TIMEOUT) { /* no keeper could be asked */
		why = *e;
		live_cell_fail(c, &why);
		return;
	}
	if (e != NULL && ++c->clears < CLEAR_TRIES) {
		set_timer(c, RETRY_MS);
		return;
	}
	c->unclean = false;
	try_create(c);
}

static enum keeper_priority priority_of(const struct live_cell *c)
{
	return c->urgent ? KEEPER_URGENT : KEEPER_BACKGROUND;
}

static void ask_clear(struct live_cell *c)
{
	struct keeper_named r = { .op = KEEPER_DESTROY };

	memcpy(r.id, c->id, sizeof(r.id));
	c->call = keeper_link_ask(&c->cells->keeper, c->tenant, &r, sizeof(r), -1, priority_of(c),
				  on_cleared, c);
}

/* A shortage (of descriptors, of memory) may end soon, so the request is tried MAKE_TRIES times. */
static void try_create(struct live_cell *c)
{
	struct err e;

	if (c->unclean) {
		ask_clear(c);
		return;
	}
	if (ask_create(c, &e) == 0)
		return;
	if (++c->tries < MAKE_TRIES)
		set_timer(c, RETRY_MS);
	else
		live_cell_fail(c, &e);
}

static void on_timer(struct loop_timer *t)
{
	struct live_cell *c = t->arg;
	struct err e;

	switch (c->state) {
	case LIVE_MAKING:
		try_create(c);
		break;
	case LIVE_GREETING:
	case LIVE_LINGER_SENT:
	case LIVE_BOOTING:
		(void)err_set(&e, ERR_SYSTEM, "the cell was not ready within %u s",
			      (c->state == LIVE_BOOTING ? BOOT_MS : GREET_MS) / 1000);
		live_cell_fail(c, &e);
		break;
	case LIVE_ENDING:
		ask_destroy(c);
		break;
	case LIVE_UP: /* live_cell_flush_later() */
		live_cell_flush(c);
		break;
	}
}

static void on_created(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct live_cell *c = arg;
	struct err why;

	c->slot = (int)keeper_link_call_slot(c->call);
	c->call = NULL;
	c->pidfd = fd;
	if (e != NULL && e->reason == REASON_PEER_DIED && c->state == LIVE_MAKING &&
	    ++c->tries < MAKE_TRIES) {
		live_cell_disconnect(c);
		c->unclean = true;
		try_create(c);
		return;
	}
	c->pid = e == NULL ? (pid_t)reply->pid : 0;
	if (e == NULL) /* shown only when there is a cell */
		c->cells->keeper.restrictions.idmapped = reply->restrictions.idmapped;
	if (c->state == LIVE_ENDING) { /* its owner has ended it in between */
		live_cell_disconnect(c);
		IGNORED(watch_death(c, &why), "it is reaped later then");
		ask_destroy(c);
		return;
	}
	if (e != NULL) {
		why = *e;
		live_cell_fail(c, &why);
		return;
	}
	if (c->dead) { /* before the keeper had answered */
		(void)err_set(&why, ERR_SYSTEM, "PID 1 of the cell exited at its start");
		live_cell_fail(c, &why);
		return;
	}
	if ((c->plan->flags & CELL_TRACE) != 0 && reply->restrictions.watched == 0) {
		(void)err_set(&why, ERR_UNSUPPORTED,
			      "trace: a filter with a listener is installed around this server");
		live_cell_fail(c, &why);
		return;
	}
	c->state = LIVE_GREETING;
	set_timer(c, GREET_MS);
	if (watch_death(c, &why) < 0 || (c->greeted && ask_linger(c, &why) < 0))
		live_cell_fail(c, &why);
}

/* The file of the cell's watcher. Without it the cell is made all the same, and its refused calls
 * are not counted. */
static int watch_file(struct live_cell *c)
{
	int fd = -1;

	c->plan->flags &= ~(uint32_t)CELL_WATCH;
	if ((!c->cells->watch && (c->plan->flags & CELL_TRACE) == 0) ||
	    c->plan->engine != CELL_ENGINE_NONE)
		return -1;
	fd = cell_watch_create(c->cells->dir_fd, c->id);
	if (fd >= 0 && c->events->on_watch != NULL && !c->events->on_watch(c, fd))
		io_close_all(&fd, 1);
	if (fd < 0 && (c->plan->flags & CELL_TRACE) == 0) /* a trace without it is refused below */
		log_warn("refused system calls of a cell are not counted", "session_id=%s errno=%d",
			 c->id, errno);
	if (fd >= 0)
		c->plan->flags |= CELL_WATCH;
	return fd;
}

static int ask_create(struct live_cell *c, struct err *e)
{
	int ends[2];

	/* The socket's name exists before the cell does: whatever happens in between, the next
	 * daemon finds the name and removes what belongs to it. */
	c->greeted = c->dead = false;
	io_close_all(&c->listener, 1);
	if (cell_socket_bind(c->cells->dir_fd, c->id, &c->listener, e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel");
	if (connect_channel(c, ends[0], e) < 0) {
		fd_close(ends[1]);
		live_cell_disconnect(c);
		return -1;
	}
	const int fds[KEEPER_LINK_FDS] = { ends[1], watch_file(c) };

	c->call = keeper_link_ask_with(&c->cells->keeper, c->tenant, c->plan, sizeof(*c->plan), fds,
				       priority_of(c), on_created, c);
	return 0;
}

static struct live_cell *new_cell(struct cells *cs, const char *id,
				  const struct live_cell_events *events, void *owner)
{
	struct live_cell *c = calloc(1, sizeof(*c));

	assert(c != NULL);
	c->cells = cs;
	str_copy(c->id, id);
	c->slot = -1;
	c->pidfd = c->listener = c->agent.sock = -1;
	c->channel.fd = c->death.fd = -1;
	c->timer = (struct loop_timer){ .on_expire = on_timer, .arg = c };
	/* Handles of an earlier daemon's built-ins may still be in use: PID 1 does not hold those,
	 * and so does not report them. */
	rand_bytes(&c->next_handle, sizeof(c->next_handle));
	live_cell_own(c, events, owner);
	return c;
}

struct live_cell *live_cell_make(struct cells *cs, const struct keeper_create *plan,
				 const char *tenant, bool urgent,
				 const struct live_cell_events *events, void *owner)
{
	struct live_cell *c = new_cell(cs, plan->id, events, owner);
	struct err e;

	live_cell_charge(c, tenant);
	c->plan = malloc(sizeof(*plan));
	assert(c->plan != NULL);
	*c->plan = *plan;
	c->urgent = urgent;
	if (ask_create(c, &e) < 0) /* the owner is called from the loop, never from in here */
		set_timer(c, RETRY_MS);
	return c;
}

static int find_peer(struct live_cell *c, int sock, struct err *e)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	struct pollfd p = { .fd = sock };

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return err_sys(e, "peer of %s", c->id);
	c->pid = who.pid;
	c->pidfd = (int)syscall(SYS_pidfd_open, who.pid, 0);
	if (c->pidfd < 0 && errno != ESRCH)
		return err_sys(e, "process of %s", c->id);
	/* Still connected, so that process was alive when its pidfd was made. */
	if (c->pidfd < 0 || poll(&p, 1, 0) != 0)
		return err_set(e, ERR_NOT_FOUND, "cell %s has just ended", c->id);
	return 0;
}

struct live_cell *live_cell_adopt(struct cells *cs, const char *id, bool frozen,
				  const struct live_cell_events *events, void *owner, struct err *e)
{
	struct live_cell *c;
	int fd;

	if (cell_socket_connect(cs->dir_fd, id, &fd, e) < 0)
		return NULL;
	OWN_FD sock = fd;
	c = new_cell(cs, id, events, owner);
	c->state = LIVE_UP;
	c->frozen = c->in_call = frozen;
	if (find_peer(c, sock, e) < 0 || watch_death(c, e) < 0 ||
	    connect_channel(c, TAKE_FD(sock), e) < 0) {
		live_cell_release(c);
		return NULL;
	}
	return c;
}

bool live_cell_holds(struct live_cell *c, const struct err *e)
{
	c->in_call = e != NULL && e->reason == REASON_NOT_FROZEN;
	return e == NULL || c->in_call;
}

void live_cell_own(struct live_cell *c, const struct live_cell_events *events, void *owner)
{
	c->events = events;
	c->owner = owner;
}

void live_cell_charge(struct live_cell *c, const char *tenant)
{
	str_copy(c->tenant, tenant);
}

static void on_destroyed(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct live_cell *c = arg;

	fd_close(fd);
	c->call = NULL;
	if (e != NULL) {
		uint64_t ms = (uint64_t)RETRY_MS << (c->tries < 7 ? c->tries : 7);

		if (c->tries++ == 8)
			log_warn("cell cannot be removed yet", "session_id=%s error=%s", c->id,
				 e->msg);
		set_timer(c, ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS);
	} else if (!c->early) {
		cell_socket_remove(c->cells->dir_fd, c->id);
		c->events->on_gone(c);
		live_cell_release(c);
	} else if (c->death.fd < 0) {
		ask_destroy(c);
	} /* else on_death() does */
}

static void ask_destroy(struct live_cell *c)
{
	struct keeper_named r = { .op = KEEPER_DESTROY };

	if (c->call != NULL)
		return;
	loop_timer_cancel(c->cells->loop, &c->timer);
	/* A dead PID 1's id may be another process's. After a protocol error PID 1 still lives. */
	r.pid = c->pidfd < 0 ? 0 : (uint32_t)c->pid;
	c->early = c->death.fd >= 0;
	memcpy(r.id, c->id, sizeof(r.id));
	c->call = keeper_link_ask_end(&c->cells->keeper, c->tenant, &r, c->slot, on_destroyed, c);
}

void live_cell_end(struct live_cell *c)
{
	if (c->state == LIVE_ENDING)
		return;
	c->state = LIVE_ENDING;
	live_guest_lost(c);
	c->cells->ending++;
	c->tries = 0;
	/* An open call to the keeper ends first. Its callback continues from there. */
	if (c->call == NULL)
		live_cell_end_now(c);
}

void live_cell_end_now(struct live_cell *c)
{
	struct err e;

	/* A frozen PID 1 would not read the request: the keeper kills it. */
	if (c->pidfd < 0 || c->frozen) {
		live_cell_disconnect(c);
		ask_destroy(c);
		return;
	}
	if (c->connected && agent_send_end(&c->agent, &e) == 0)
		live_cell_flush(c);
	set_timer(c, END_GRACE_MS);
}

struct live_cell *live_cell_clean_up(struct cells *cs, const char *id)
{
	struct live_cell *c = new_cell(cs, id, &live_cell_orphan_events, NULL);

	c->dead = true;
	live_cell_end(c);
	return c;
}

void live_cell_detach(struct live_cell *c)
{
	live_cell_flush(c); /* a queued deadline: the cell outlives this daemon */
	live_cell_release(c);
}
