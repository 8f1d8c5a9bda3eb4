/* live_guest.c - see live_guest.h. Output of a guest or its engine is untrusted: it is logged
 * escaped, and its last line is part of an error. */
#include "daemon/cells/live_guest.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

/* A little more than the shim takes for all of its steps: doc/shim-protocol.md, States. */
#define WAIT_MS 200000U
#define EVENTS_MAX 10000U /* each writes a row. A hanging guest takes 30 seconds for two */

struct live_guest {
	struct boot_request request;
	int fds[BOOT_FDS_MAX]; /* owned until they are sent */
	size_t nfds;
	int base_fd; /* owned: the image that its memory maps. -1: none, or not known */
	bool booting;
	enum agent_type answer;	      /* expected for the call */
	struct live_guest_call *call; /* borrowed: in progress. NULL: none, cancelled, or late */
	bool waits;		      /* the answer has not come yet */
	bool stay;		      /* it was asked to stop */
	bool late;		      /* the time of the call has ended */
	struct live_cell *cell;	      /* its cell */
	struct loop_timer timer;
};

unsigned live_guest_wait_ms = WAIT_MS;

static struct live_guest *guest_of(struct live_cell *c)
{
	if (c->guest == NULL) {
		c->guest = calloc(1, sizeof(*c->guest));
		assert(c->guest != NULL);
		c->guest->base_fd = -1;
		c->guest->cell = c;
	}
	return c->guest;
}

void live_guest_set(struct live_cell *c, const struct boot_request *r, const int *fds)
{
	struct live_guest *g = guest_of(c);
	int ram = boot_fds_index(r->fds, BOOT_FD_RAM);

	g->request = *r;
	if (ram >= 0) /* without it, snapshots have the whole memory */
		g->base_fd = fcntl(fds[ram], F_DUPFD_CLOEXEC, 0);
	g->nfds = boot_fds_count(r->fds);
	memcpy(g->fds, fds, g->nfds * sizeof(fds[0]));
	g->booting = true;
}

int live_guest_base(const struct live_cell *c)
{
	return c->guest == NULL ? -1 : c->guest->base_fd;
}

bool live_guest_boot(struct live_cell *c, int *ret_result, struct err *e)
{
	struct live_guest *g = c->guest;

	if (g == NULL || !g->booting)
		return false;
	g->nfds = 0; /* taken in any case */
	*ret_result = agent_send_boot(&c->agent, &g->request, g->fds, e);
	return true;
}

/* ---- answers */

/* Logged bytes of an ended guest's console: the last ones. */
#define LOGGED 900

/* The last line of a text. */
static const char *last_line(char *text)
{
	size_t n = strlen(text);
	char *at;

	while (n > 0 && strchr("\r\n \t", text[n - 1]) != NULL)
		text[--n] = '\0';
	at = strrchr(text, '\n');
	return at == NULL ? text : at + 1;
}

static int live_guest_failure(struct live_cell *c, const char *what, const struct agent_event *v,
			      struct err *e)
{
	char text[BOOT_TEXT_MAX + 1];
	const char *line;

	agent_read_text(&c->agent, v, text, sizeof(text));
	line = last_line(text);
	if (line[0] != '\0')
		log_warn("a guest failed", "session_id=%s step=%s text=%s", c->id,
			 boot_stage_word(v->stage), line);
	(void)err_set(e, ERR_SYSTEM, "the guest could not be %s (%s): %s%s%.100s", what,
		      boot_stage_word(v->stage), strerror((int)v->sys), line[0] == '\0' ? "" : ": ",
		      line);
	err_sanitize(e);
	return -1;
}

static void set_state(struct live_cell *c, const struct agent_event *v, const char *text)
{
	log_info("guest", "session_id=%s state=%s text=%s", c->id, boot_guest_word(v->stage), text);
	c->guest_state = v->stage;
	if (c->events->on_guest != NULL)
		c->events->on_guest(c, v);
}

/* Tell the caller, if there still is one. */
static void live_guest_tell(struct live_guest *g, int *image, const struct err *e)
{
	struct live_guest_call *k = g->call;

	g->call = NULL;
	k->cell = NULL;
	k->on_done(k, image, e);
}

/* The answer to a request has come, or will not come. Let a guest run if the caller that stopped it
 * is gone. */
static void live_guest_finish(struct live_cell *c, int *image, const struct err *e)
{
	const struct agent_event alive = { .stage = BOOT_GUEST_ALIVE };
	struct live_guest *g = c->guest;
	bool stopped = image != NULL && g->stay, late = g->late;

	loop_timer_cancel(c->cells->loop, &g->timer);
	g->waits = g->late = false;
	if (g->call != NULL) {
		live_guest_tell(g, image, e);
		return;
	}
	if (image != NULL)
		io_close_all(image, LIVE_GUEST_IMAGE);
	if (late && c->guest_state == BOOT_GUEST_UNRESPONSIVE &&
	    (e == NULL || !err_reason_is_gone(e->reason)))
		set_state(c, &alive, "PID 1 of the cell has answered");
	if (stopped && c->events->on_stopped != NULL)
		c->events->on_stopped(c);
}

/* PID 1 bounds each of its steps itself: it does not run, or was taken over. An unanswered request
 * stays open until an answer or the end: no other request is sent. */
static void on_late(struct loop_timer *t)
{
	const struct agent_event silent = { .stage = BOOT_GUEST_UNRESPONSIVE };
	struct live_guest *g = t->arg;
	struct live_cell *c = g->cell;
	struct err e;

	g->late = true;
	if (c->guest_state == BOOT_GUEST_ALIVE)
		set_state(c, &silent, "PID 1 of the cell does not answer");
	(void)err_set_reason(&e, REASON_TIMEOUT, "the guest has not answered for %u s",
			     live_guest_wait_ms / 1000);
	if (g->call != NULL)
		live_guest_tell(g, NULL, &e);
}

static void on_answer(struct live_cell *c, enum agent_type type, const struct agent_event *v)
{
	int image[LIVE_GUEST_IMAGE] = { -1, -1 };
	struct live_guest_call *k = c->guest->call;
	struct err e;

	if (type == AGENT_SNAPSHOT_DONE && v->sys == BOOT_SYS_ENDED) {
		live_guest_lost(c);
		return;
	}
	if (v->sys != 0) {
		(void)live_guest_failure(c, type == AGENT_BOOTED ? "resumed" : "saved", v, &e);
		live_guest_finish(c, NULL, &e);
		return;
	}
	if (k != NULL && v->pid != 0 && type == AGENT_SNAPSHOT_DONE && k->changes_max == 0) {
		(void)err_set(&e, ERR_INVALID, "PID 1 sent changes instead of a guest's memory");
		live_guest_finish(c, NULL, &e);
		return;
	}
	if (type == AGENT_SNAPSHOT_DONE) {
		if (k != NULL)
			k->only_changes = v->pid != 0;
		assert(c->agent.nfds == LIVE_GUEST_IMAGE); /* agent_client.c has checked it */
		memcpy(image, c->agent.fds, sizeof(image));
		c->agent.nfds = 0;
	}
	live_guest_finish(c, type == AGENT_SNAPSHOT_DONE ? image : NULL, NULL);
}

static void on_guest(struct live_cell *c, const struct agent_event *v)
{
	char text[BOOT_TEXT_MAX + 1];
	size_t n;

	if (c->guest_state == v->stage)
		return;
	agent_read_text(&c->agent, v, text, sizeof(text));
	n = strlen(text);
	set_state(c, v, n > LOGGED ? text + n - LOGGED : text);
}

int live_guest_check(struct live_cell *c, enum agent_type type, struct err *e)
{
	if (type != AGENT_GUEST || ++c->nguest <= EVENTS_MAX)
		return 0;
	return err_set(e, ERR_INVALID, "PID 1 sent more than %u states of its guest", EVENTS_MAX);
}

int live_guest_event(struct live_cell *c, enum agent_type type, const struct agent_event *v,
		     bool *ret_up, struct err *e)
{
	struct live_guest *g = c->guest;

	*ret_up = false;
	if (type == AGENT_GUEST) {
		on_guest(c, v);
		return 0;
	}
	if (g != NULL && g->booting && type == AGENT_BOOTED) {
		g->booting = false;
		if (v->sys != 0)
			return live_guest_failure(c, "started", v, e);
		*ret_up = true;
		return 0;
	}
	if (g != NULL && g->waits && type == g->answer)
		on_answer(c, type, v);
	return 0; /* an answer to an earlier daemon */
}

void live_guest_lost(struct live_cell *c)
{
	struct err e;

	if (c->guest == NULL || !c->guest->waits)
		return;
	(void)err_set_reason(&e, REASON_LOST, "the guest has ended");
	live_guest_finish(c, NULL, &e);
}

void live_guest_free(struct live_cell *c)
{
	if (c->guest == NULL)
		return;
	if (c->guest->call != NULL)
		c->guest->call->cell = NULL;
	loop_timer_cancel(c->cells->loop, &c->guest->timer);
	io_close_all(c->guest->fds, c->guest->nfds);
	io_close_all(&c->guest->base_fd, 1);
	free(c->guest);
	c->guest = NULL;
}

/* ---- requests */

static int live_guest_is_ready(const struct live_cell *c, struct err *e)
{
	if (c->state != LIVE_UP || !c->connected || c->frozen)
		return err_set(e, ERR_CONFLICT, "the guest cannot be reached now");
	if (c->guest != NULL && c->guest->waits)
		return err_set(e, ERR_CONFLICT, "another request to the guest is under way");
	return 0;
}

static void live_guest_begin(struct live_cell *c, enum agent_type answer, bool stay,
			     struct live_guest_call *k)
{
	struct live_guest *g = guest_of(c);

	g->answer = answer;
	g->waits = true;
	g->stay = stay;
	g->timer = (struct loop_timer){ .on_expire = on_late, .arg = g };
	loop_timer_set(c->cells->loop, &g->timer, clock_now_ns() + live_guest_wait_ms * CLOCK_MS);
	g->call = k;
	k->cell = c;
	live_cell_flush(c);
}

void live_guest_snapshot(struct live_cell *c, bool stay, struct live_guest_call *k)
{
	struct err e;

	k->cell = NULL;
	if (live_guest_is_ready(c, &e) < 0 ||
	    agent_send_snapshot(&c->agent, stay, k->changes_max, &e) < 0)
		k->on_done(k, NULL, &e);
	else
		live_guest_begin(c, AGENT_SNAPSHOT_DONE, stay, k);
}

void live_guest_resume(struct live_cell *c, const struct boot_request *r, struct live_guest_call *k)
{
	struct boot_request again = *r;
	struct err e;

	k->cell = NULL;
	again.flags = again.fds = 0;
	if (live_guest_is_ready(c, &e) < 0 || agent_send_resume(&c->agent, &again, &e) < 0)
		k->on_done(k, NULL, &e);
	else
		live_guest_begin(c, AGENT_BOOTED, false, k);
}

void live_guest_cancel(struct live_guest_call *k)
{
	if (k->cell != NULL && k->cell->guest != NULL && k->cell->guest->call == k)
		k->cell->guest->call = NULL;
	k->cell = NULL;
}
