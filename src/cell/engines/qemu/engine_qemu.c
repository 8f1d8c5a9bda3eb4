/* engine_qemu.c - the engine of microVMs: QEMU with the machine `microvm`. See engine.h.
 *
 * QEMU is commanded over its control channel (qmp.h), one command at a time: `step` names the
 * command in progress, and on_answer() chooses the next. A snapshot is: the state of the devices,
 * written by QEMU into a memory file of ours. Then the memory, read from QEMU's process in pieces
 * (guest_memory.h). The command that writes the devices' state without the memory is named after
 * Xen, its first user. It works without Xen, and `migrate-incoming` reads its file. Before that,
 * pages that differ from the image are written into QEMU's process (guest_memory.h).
 *
 * QEMU is not trusted: an answer that does not fit ends the engine, a file that it has written is
 * bounded and sealed before anyone reads it. The guest's kernel ends by a reset or a power-off,
 * which QEMU reports as SHUTDOWN before it exits. */
#include "cell/engines/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "cell/engines/qemu/guest_memory.h"
#include "cell/engines/qemu/qemu_start.h"
#include "cell/engines/qemu/qmp.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"

#define LOAD_POLL_MS 1		/* while a clone's state is loaded: 20 ms in all */
#define COPY_PIECE (8ULL << 20) /* about 3 ms */

/* The step in progress. */
enum qemu_step {
	STEP_NONE,
	STEP_GREETING,	   /* QEMU has been started */
	STEP_CAPABILITIES, /* the handshake */
	STEP_LATER,	   /* a clone's state is to come, no command runs */
	STEP_CHANGES,	   /* pages are written, no command runs */
	STEP_PASS,	   /* a clone's state was passed */
	STEP_INCOMING,	   /* told to load a clone's state */
	STEP_LOADING,	   /* asked whether a clone's state is loaded, or waiting to ask again */
	STEP_ORDER,	   /* stop, cont: nothing follows */
	STEP_ADD,	   /* the file for the devices' state was passed */
	STEP_SAVE,	   /* it is written */
	STEP_REMOVE,	   /* QEMU closes it */
	STEP_COPY,	   /* the memory is copied, no command runs */
};

struct engine {
	const struct engine_host *host;
	struct engine_call *call; /* in progress, or NULL */
	enum qemu_step step;
	bool waits; /* LOADING: no question waits for its answer */
	pid_t pid;  /* of QEMU. 0: not started, or reaped */
	bool gone;  /* reported */
	struct qmp qmp;
	struct loop_fd control;
	struct loop_timer timer; /* the next question, the next piece */
	int stream_fd;		 /* until start ends */
	int base_fd;		 /* what the guest's memory maps, -1 after a cold start */
	int devices_fd;		 /* of the snapshot in progress, of a clone until it is loaded */
	int changes_fd;		 /* of a clone, until they are written. -1: there are none */
	int later_fd;		 /* where the last two of a clone come from. -1: they are here */
	struct loop_fd later;
	uint64_t memory_bytes, fdset;
	enum boot_accel accel;
	struct guest_memory memory;
	struct guest_memory_changes changes;
};

static void on_control(struct loop_fd *f, uint32_t events);
static void on_timer(struct loop_timer *t);
static void on_later(struct loop_fd *f, uint32_t events);

static struct engine *qemu_new(const struct engine_host *host)
{
	struct engine *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->host = host;
	g->stream_fd = g->base_fd = g->devices_fd = g->changes_fd = g->later_fd = -1;
	qmp_init(&g->qmp, -1);
	guest_memory_init(&g->memory);
	guest_memory_changes_init(&g->changes);
	g->later = (struct loop_fd){ .fd = -1, .on_ready = on_later, .arg = g };
	g->control = (struct loop_fd){ .fd = -1, .on_ready = on_control, .arg = g };
	g->timer = (struct loop_timer){ .on_expire = on_timer, .arg = g };
	return g;
}

/* Close the descriptors of the operation that ends. */
static void qemu_end_step(struct engine *g)
{
	loop_timer_cancel(g->host->loop, &g->timer);
	guest_memory_end(&g->memory);
	guest_memory_changes_end(&g->changes);
	loop_remove(g->host->loop, &g->later);
	fd_close(TAKE_FD(g->later_fd));
	fd_close(TAKE_FD(g->changes_fd));
	fd_close(TAKE_FD(g->devices_fd));
	g->step = STEP_NONE;
}

static void qemu_end_call(struct engine *g, const struct err *e)
{
	struct engine_call *c = g->call;

	qemu_end_step(g);
	g->call = NULL;
	if (c != NULL)
		completion_end(&c->done, e);
}

static enum boot_stage qemu_stage_of(const struct engine *g)
{
	if (g->step >= STEP_ADD)
		return BOOT_AT_SNAPSHOT;
	return g->step != STEP_ORDER && g->base_fd >= 0 ? BOOT_AT_RESTORE : BOOT_AT_ENGINE;
}

static void qemu_fail_call(struct engine *g, const struct err *e)
{
	if (g->call != NULL)
		g->call->stage = qemu_stage_of(g);
	qemu_end_call(g, e);
}

/* The engine is of no more use. */
static void qemu_report_gone(struct engine *g, enum boot_guest state, const char *why)
{
	struct err e = { 0 };

	loop_remove(g->host->loop, &g->control);
	if (g->gone)
		return;
	g->gone = true;
	(void)err_set(&e, ERR_SYSTEM, "%s", why);
	e.sys = ECONNRESET;
	bool starting = g->step >= STEP_GREETING && g->step <= STEP_LOADING;
	qemu_fail_call(g, &e);
	if (!starting)
		g->host->on_gone(g->host, state, why);
}

/* QEMU broke its own protocol, or cannot be commanded: it is ended. */
static void qemu_report_broken(struct engine *g, const struct err *e)
{
	if (g->pid > 0)
		(void)kill(g->pid, SIGKILL);
	qemu_report_gone(g, BOOT_GUEST_EXITED, e->msg);
}

static void qemu_command(struct engine *g, enum qemu_step step, const char *text, int fd)
{
	struct err e = { 0 };

	g->step = step;
	if (qmp_send(&g->qmp, text, fd, &e) < 0)
		qemu_report_broken(g, &e);
}

/* A copy of a descriptor of the request, -1 if there is none. */
static int qemu_keep(const struct boot_request *r, const int *fds, enum boot_fd which, int *ret,
		     struct err *e)
{
	int at = boot_fds_index(r->fds, which);

	*ret = at < 0 ? -1 : fcntl(fds[at], F_DUPFD_CLOEXEC, 3);
	return at >= 0 && *ret < 0 ? err_sys(e, "the guest's memory") : 0;
}

static void qemu_start_guest(struct engine *g, const struct boot_request *r, const int *fds,
			     struct engine_call *c)
{
	struct qemu_process p = { .control_fd = -1, .stream_fd = -1 };
	struct err e = { 0 };

	g->call = c;
	g->step = STEP_GREETING;
	g->memory_bytes = r->memory_bytes;
	if (qemu_keep(r, fds, BOOT_FD_RAM, &g->base_fd, &e) < 0 ||
	    qemu_keep(r, fds, BOOT_FD_DEVICES, &g->devices_fd, &e) < 0 ||
	    qemu_keep(r, fds, BOOT_FD_CHANGES, &g->changes_fd, &e) < 0 ||
	    qemu_keep(r, fds, BOOT_FD_LATER, &g->later_fd, &e) < 0 ||
	    qemu_start(r, fds, g->host->console, &p, &e) < 0) {
		qemu_fail_call(g, &e);
		return;
	}
	g->pid = p.pid;
	g->accel = p.accel;
	g->stream_fd = p.stream_fd;
	qmp_init(&g->qmp, p.control_fd);
	if (loop_add(g->host->loop, &g->control, p.control_fd, EPOLLIN, &e) < 0)
		qemu_report_broken(g, &e);
}

static void qemu_started(struct engine *g)
{
	g->call->fds[0] = TAKE_FD(g->stream_fd);
	g->call->accel = g->accel;
	qemu_end_call(g, NULL);
}

static void qemu_stop(struct engine *g, struct engine_call *c)
{
	g->call = c;
	qemu_command(g, STEP_ORDER, "{\"execute\":\"stop\"}", -1);
}

static void qemu_go_on(struct engine *g, struct engine_call *c)
{
	g->call = c;
	qemu_command(g, STEP_ORDER, "{\"execute\":\"cont\"}", -1);
}

static void qemu_snapshot(struct engine *g, struct engine_call *c)
{
	struct err e = { 0 };
	int fd = -1;

	g->call = c;
	g->step = STEP_ADD;
	int status = guest_memory_devices_make(&g->devices_fd, &fd, &e);
	OWN_FD own = fd;
	if (status < 0) {
		qemu_fail_call(g, &e);
		return;
	}
	qemu_command(g, STEP_ADD, "{\"execute\":\"add-fd\"}", own);
}

static void qemu_save_devices(struct engine *g, struct json_value set)
{
	char text[128];
	struct err e = { 0 };

	if (!json_read_uint(json_read_member(set, "fdset-id"), &g->fdset)) {
		(void)err_set(&e, ERR_INVALID, "QEMU's answer to add-fd has no number");
		qemu_report_broken(g, &e);
		return;
	}
	(void)snprintf(text, sizeof(text),
		       "{\"execute\":\"xen-save-devices-state\",\"arguments\":"
		       "{\"filename\":\"/dev/fdset/%" PRIu64 "\"}}",
		       g->fdset);
	qemu_command(g, STEP_SAVE, text, -1);
}

static void qemu_remove_devices(struct engine *g)
{
	char text[96];

	(void)snprintf(text, sizeof(text),
		       "{\"execute\":\"remove-fd\",\"arguments\":{\"fdset-id\":%" PRIu64 "}}",
		       g->fdset);
	qemu_command(g, STEP_REMOVE, text, -1);
}

static void qemu_begin_copy(struct engine *g)
{
	struct err e = { 0 };

	g->step = STEP_COPY;
	if (guest_memory_begin(&g->memory, g->pid, g->base_fd, g->memory_bytes,
			       g->call->changes_max, &e) < 0) {
		qemu_fail_call(g, &e);
		return;
	}
	loop_timer_set(g->host->loop, &g->timer, loop_now_ns(g->host->loop));
}

static void qemu_copy_piece(struct engine *g)
{
	struct engine_call *c = g->call;
	struct err e = { 0 };
	int more = guest_memory_step(&g->memory, COPY_PIECE, &e);
	bool only_changes = g->memory.only_changes;

	if (more > 0) {
		loop_timer_set(g->host->loop, &g->timer, loop_now_ns(g->host->loop));
		return;
	}
	if (more < 0 || guest_memory_devices_seal(g->devices_fd, &e) < 0 ||
	    guest_memory_take(&g->memory, &c->fds[0], &e) < 0) {
		qemu_fail_call(g, &e);
		return;
	}
	c->fds[1] = TAKE_FD(g->devices_fd);
	c->only_changes = only_changes;
	qemu_end_call(g, NULL);
}

static void qemu_pass_devices(struct engine *g)
{
	struct err e = { 0 };
	int fd = -1, status = guest_memory_devices_reopen(g->devices_fd, &fd, &e);
	OWN_FD own = fd;

	if (status < 0)
		qemu_report_broken(g, &e);
	else
		qemu_command(g, STEP_PASS,
			     "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"devices\"}}", own);
}

static void qemu_load(struct engine *g)
{
	qemu_command(g, STEP_INCOMING,
		     "{\"execute\":\"migrate-incoming\",\"arguments\":{\"uri\":\"fd:devices\"}}",
		     -1);
}

static void qemu_write_piece(struct engine *g)
{
	struct err e = { 0 };
	int more = guest_memory_changes_step(&g->changes, COPY_PIECE, &e);

	if (more > 0) {
		loop_timer_set(g->host->loop, &g->timer, loop_now_ns(g->host->loop));
		return;
	}
	if (more < 0) {
		qemu_report_broken(g, &e);
		return;
	}
	guest_memory_changes_end(&g->changes);
	qemu_pass_devices(g);
}

static void qemu_restore(struct engine *g)
{
	struct err e = { 0 };

	if (g->changes_fd < 0) {
		qemu_pass_devices(g);
		return;
	}
	g->step = STEP_CHANGES;
	if (guest_memory_changes_begin(&g->changes, g->pid, g->base_fd, g->memory_bytes,
				       TAKE_FD(g->changes_fd), &e) < 0)
		qemu_report_broken(g, &e);
	else
		qemu_write_piece(g);
}

/* A clone's state, or the end of its sender. */
static void on_later(struct loop_fd *f, uint32_t events)
{
	struct engine *g = f->arg;
	int fds[2] = { -1, -1 };
	size_t n = 0;
	char byte;
	struct err e = { 0 };
	ssize_t len = io_recv(g->later_fd, &byte, 1, fds, COUNT(fds), &n, &e);

	loop_remove(g->host->loop, &g->later);
	if (len == 1 && n > 0) {
		g->devices_fd = fds[0];
		g->changes_fd = fds[1];
		qemu_restore(g);
		return;
	}
	if (len >= 0)
		(void)err_set(&e, ERR_INVALID, "the state of the guest has not come");
	qemu_report_broken(g, &e);
}

/* QEMU has made its machine, and with it the mapping of the image. */
static void on_machine(struct engine *g)
{
	struct err e = { 0 };

	if (g->later_fd < 0) {
		qemu_restore(g);
		return;
	}
	g->step = STEP_LATER;
	if (loop_add(g->host->loop, &g->later, g->later_fd, EPOLLIN, &e) < 0)
		qemu_report_broken(g, &e);
}

static void qemu_ask_loaded(struct engine *g)
{
	g->waits = false;
	qemu_command(g, STEP_LOADING, "{\"execute\":\"query-status\"}", -1);
}

/* A clone is loaded when it is paused. QEMU exits if it cannot load it. */
static void on_status(struct engine *g, struct json_value status)
{
	struct json_value word = json_read_member(status, "status");
	struct loop *l = g->host->loop;
	struct err e = { 0 };

	if (json_read_is(word, "paused")) {
		qemu_started(g);
		return;
	}
	if (json_read_is(word, "inmigrate")) {
		g->waits = true;
		loop_timer_set(l, &g->timer, loop_now_ns(l) + LOAD_POLL_MS * CLOCK_MS);
		return;
	}
	(void)err_set(&e, ERR_INVALID, "the guest is in no state that was expected");
	qemu_report_broken(g, &e);
}

static void on_timer(struct loop_timer *t)
{
	struct engine *g = t->arg;

	if (g->step == STEP_COPY)
		qemu_copy_piece(g);
	else if (g->step == STEP_CHANGES)
		qemu_write_piece(g);
	else if (g->step == STEP_LOADING)
		qemu_ask_loaded(g);
}

static void on_return(struct engine *g, struct json_value value)
{
	struct err e = { 0 };

	if (g->step == STEP_CAPABILITIES && g->base_fd < 0)
		qemu_started(g);
	else if (g->step == STEP_CAPABILITIES)
		on_machine(g);
	else if (g->step == STEP_PASS)
		qemu_load(g);
	else if (g->step == STEP_INCOMING)
		qemu_ask_loaded(g);
	else if (g->step == STEP_LOADING && !g->waits)
		on_status(g, value);
	else if (g->step == STEP_ORDER)
		qemu_end_call(g, NULL);
	else if (g->step == STEP_ADD)
		qemu_save_devices(g, value);
	else if (g->step == STEP_SAVE)
		qemu_remove_devices(g);
	else if (g->step == STEP_REMOVE)
		qemu_begin_copy(g);
	else {
		(void)err_set(&e, ERR_INVALID, "QEMU answered a command that it was not given");
		qemu_report_broken(g, &e);
	}
}

/* The text is QEMU's: err_sanitize() makes it safe to print. */
static void on_refusal(struct engine *g, struct json_value value)
{
	struct buf text = BUF_INIT(200);
	struct err e = { 0 };

	if (json_read_text(json_read_member(value, "desc"), &text, &e) < 0)
		buf_clear(&text);
	(void)err_set(&e, ERR_SYSTEM, "QEMU refused a command: %s", buf_text(&text));
	buf_release(&text);
	err_sanitize(&e);
	e.sys = EIO;
	if (g->step == STEP_NONE || g->step <= STEP_LOADING) {
		qemu_report_broken(g, &e);
		return;
	}
	qemu_fail_call(g, &e);
}

static void on_event(struct engine *g, const struct qmp_message *m)
{
	if (strcmp(m->name, "SHUTDOWN") != 0)
		return;
	if (json_read_is(json_read_member(m->value, "reason"), "guest-shutdown"))
		qemu_report_gone(g, BOOT_GUEST_PANICKED, "the guest has shut down");
	else
		qemu_report_gone(g, BOOT_GUEST_PANICKED, "the guest's kernel has ended");
}

static void on_message(struct engine *g, const struct qmp_message *m)
{
	struct err e = { 0 };

	if (m->kind == QMP_EVENT) {
		on_event(g, m);
		return;
	}
	if (m->kind == QMP_ERROR) {
		on_refusal(g, m->value);
		return;
	}
	if (m->kind == QMP_RETURN) {
		on_return(g, m->value);
		return;
	}
	if (g->step == STEP_GREETING) {
		qemu_command(g, STEP_CAPABILITIES, "{\"execute\":\"qmp_capabilities\"}", -1);
		return;
	}
	(void)err_set(&e, ERR_INVALID, "QEMU has greeted twice");
	qemu_report_broken(g, &e);
}

/* Handle received lines. Stop when the engine is gone. */
static void qemu_read_control(struct engine *g)
{
	struct qmp_message m;
	struct err e = { 0 };
	int n = qmp_receive(&g->qmp, &e);

	while (n > 0 && !g->gone) {
		if (qmp_next(&g->qmp, &m, &e) < 0)
			n = -1;
		else if (m.kind == QMP_NONE)
			break;
		else
			on_message(g, &m);
	}
	if (n < 0)
		qemu_report_broken(g, &e);
	else if (n == 0) /* its exit is reported by on_exit() */
		loop_remove(g->host->loop, &g->control);
}

static void on_control(struct loop_fd *f, uint32_t events)
{
	qemu_read_control(f->arg);
}

static bool qemu_on_exit(struct engine *g, pid_t pid, int status)
{
	char why[96];

	if (pid <= 0 || pid != g->pid)
		return false;
	g->pid = 0;
	/* Its last words may be unread. */
	if (!g->gone && g->control.fd >= 0)
		qemu_read_control(g);
	if (WIFSIGNALED(status))
		(void)snprintf(why, sizeof(why), "QEMU was ended by signal %d", WTERMSIG(status));
	else
		(void)snprintf(why, sizeof(why), "QEMU has exited with status %d",
			       WEXITSTATUS(status));
	qemu_report_gone(g, BOOT_GUEST_EXITED, why);
	return true;
}

static void qemu_free(struct engine *g)
{
	if (g == NULL)
		return;
	if (g->pid > 0)
		(void)kill(g->pid, SIGKILL);
	qemu_end_step(g);
	loop_remove(g->host->loop, &g->control);
	qmp_close(&g->qmp);
	fd_close(TAKE_FD(g->stream_fd));
	fd_close(TAKE_FD(g->base_fd));
	free(g);
}

const struct engine_ops engine_qemu = {
	.name = "QEMU",
	.can_snapshot = true,
	.new = qemu_new,
	.start = qemu_start_guest,
	.stop = qemu_stop,
	.go_on = qemu_go_on,
	.snapshot = qemu_snapshot,
	.on_exit = qemu_on_exit,
	.free = qemu_free,
};
