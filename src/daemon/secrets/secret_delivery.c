/* secret_delivery.c - see secret_delivery.h. Variables are added to the environment of executions.
 * Files and the socket are made by the built-in "secrets" of PID 1
 * (src/cell/init/files/secret_builtin.c).
 *
 * The built-in gets a table of all secrets that the cell should have. It is started when there is
 * something to deliver, ends after that if there are only files, and stays, without making the
 * session busy, while there is a socket. A table is composed at the moment it can be written, and
 * is wiped when it is written. */
#include "daemon/secrets/secret_delivery.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "daemon/cells/live_cell.h"
#include "daemon/execution/file_op.h"
#include "daemon/node/core.h"
#include "daemon/secrets/seal.h"
#include "daemon/secrets/secret_execution.h"
#include "daemon/secrets/secret_values.h"
#include "daemon/secrets/secret.h"
#include "daemon/secrets/secret_state.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_stop.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/log.h"
#include "lib/wire/codec.h"
#include "lib/wire/file_msg.h"

#define TRIES_MAX 5
#define ROW_ROOM (STORE_NAME_MAX * 2 + SECRET_WHERE_MAX + 32)
#define TABLE_HEAD 4

bool secret_delivery_is_needed(const struct session *s)
{
	return secret_has_way(session_row(s)->secrets, SECRET_FILE | SECRET_SOCKET);
}

/* The value of a secret that may be used so. The caller wipes it. */
static int secret_delivery_take(struct session *s, const struct secret_spec *l, char **ret,
				size_t *ret_len)
{
	struct store_secret row;
	struct err e;
	int taken;

	if (store_secret_get_by_name(core_store(session_core(s)), session_row(s)->tenant, l->name,
				     &row, &e) < 0)
		return -1;
	taken = (row.ways & l->way) == 0 || secret_is_expired(&row)
			? -1
			: secret_open(session_core(s), &row, ret, ret_len, &e);
	store_secret_release(&row);
	return taken;
}

/* ---- variables */

/* A secret that may not be used any more is left out, so the program starts without it. */
static void secret_delivery_put_variables(struct session *s, const char *at, struct buf *to)
{
	struct secret_spec l;

	while (secret_spec_next(&at, &l)) {
		char *value = NULL;
		size_t len = 0;

		if (l.way == SECRET_BROKER) {
			buf_printf(to, "%s=%s", l.where, l.placeholder);
			buf_put(to, "", 1);
		} else if (l.way == SECRET_ENV && secret_delivery_take(s, &l, &value, &len) == 0) {
			buf_printf(to, "%s=", l.where);
			buf_put(to, value, len + 1);
			seal_wipe(value, len);
		}
	}
}

void secret_delivery_add_env(struct session *s, struct execution *x, struct buf *to)
{
	secret_mask_now(s);
	to->secret = true;
	secret_delivery_put_variables(s, execution_row(x)->secrets, to);
	secret_delivery_put_variables(s, session_row(s)->secrets, to);
}

/* ---- the table */

/* The form of a row is that of secret_builtin.c. */
static void secret_delivery_put_row(struct session *s, const struct secret_spec *l, struct buf *to)
{
	uint8_t head[ROW_ROOM];
	struct codec c = codec_writer(head, sizeof(head));
	const char *name = l->name, *where = l->where, *owner = l->owner;
	char *value = NULL;
	size_t len = 0;

	if (secret_delivery_take(s, l, &value, &len) < 0)
		return; /* what is not in the table is removed from the cell */
	(void)codec_number(&c, 1, l->way == SECRET_FILE ? 'f' : 's');
	codec_string(&c, STORE_NAME_MAX, &name);
	codec_string(&c, SECRET_WHERE_MAX, &where);
	codec_string(&c, STORE_NAME_MAX, &owner);
	(void)codec_number(&c, 4, l->mode);
	(void)codec_number(&c, 4, len);
	assert(!c.bad);
	buf_put(to, head, sizeof(head) - c.n);
	buf_put(to, value, len);
	seal_wipe(value, len);
}

/* The table's length is known at the end, and written in front. */
static void secret_delivery_compose(struct secret_state *st)
{
	struct secret_walk all = { .session = st->session };
	uint8_t head[TABLE_HEAD] = { 0 };
	struct codec c = codec_writer(head, sizeof(head));
	struct secret_spec l;

	secret_mask_now(st->session);
	st->files_sent = secret_walk_has_file(st->session);
	st->files = st->files || st->files_sent; /* also if the execution ends before the answer */
	buf_init(&st->table, TABLE_HEAD + SECRET_LINES_MAX * (SECRET_VALUE_MAX + ROW_ROOM));
	st->table.secret = true;
	buf_put(&st->table, head, sizeof(head));
	while (secret_walk_next(&all, &l))
		if ((l.way & (SECRET_FILE | SECRET_SOCKET)) != 0)
			secret_delivery_put_row(st->session, &l, &st->table);
	(void)codec_number(&c, sizeof(head), st->table.len - sizeof(head));
	memcpy(st->table.data, head, sizeof(head));
	st->sent = 0;
}

/* Write as much as the built-in takes. The next table waits until this one was answered. */
static void secret_delivery_feed(struct secret_state *st)
{
	if (st->awaiting || (!st->wanted && st->table.data == NULL))
		return;
	if (st->table.data == NULL) {
		st->wanted = false;
		secret_delivery_compose(st);
	}
	st->sent += file_op_input(st->op, st->table.data + st->sent, st->table.len - st->sent);
	if (st->sent < st->table.len)
		return;
	buf_release(&st->table);
	st->awaiting = true;
}

/* ---- the built-in */

/* With a socket the built-in stays, and takes further tables. */
static bool secret_delivery_has_socket(const struct session *s)
{
	return secret_has_way(session_row(s)->secrets, SECRET_SOCKET);
}

/* The built-in has accepted the table. */
static void on_accepted(struct secret_state *st)
{
	struct session *s = st->session;

	st->awaiting = false;
	st->tries = 0;
	if (st->delivering) {
		st->delivering = false;
		session_parts_settled(s);
	}
	if (st->wanted) {
		secret_delivery_feed(st);
		return;
	}
	st->files = st->files_sent;
	if (!secret_delivery_has_socket(s)) {
		st->closing = true;
		file_op_end_input(st->op);
	}
	completions_end_all(&st->when_delivered, NULL);
}

/* The first delivery has failed for good: the session ends. Called from the loop, so that no
 * callback of a file operation stops the session from inside. */
static void on_give_up(struct loop_task *t)
{
	struct secret_state *st = t->arg;
	struct session *s = st->session;

	if (!st->delivering || session_row(s)->state >= SESSION_ENDING)
		return;
	st->delivering = false;
	session_fail(s, &st->failed, "the secrets of the session could not be delivered");
}

static void secret_delivery_give_up_soon(struct secret_state *st)
{
	if (st->give_up.queued)
		return;
	st->give_up = (struct loop_task){ .on_run = on_give_up, .arg = st };
	loop_defer(core_loop(session_core(st->session)), &st->give_up);
}

/* The delivery failed: secret_delivery_retry() tries again. */
static void on_refused(struct secret_state *st, const struct err *e)
{
	log_warn("secrets not delivered", "session_id=%s error=%s", session_row(st->session)->id,
		 e->msg);
	st->failed = *e;
	st->wanted = true;
	completions_end_all(&st->when_delivered, e); /* those executions fail */
}

/* Records of the built-in: READY for a table, or an error. After the first error the rest is
 * dropped. */
static size_t on_output(struct file_op *op, const uint8_t *data, size_t len)
{
	struct secret_state *st = file_op_arg(op);
	struct file_msg m;
	struct err e;
	int n;

	if (st->failed.code != ERR_NONE)
		return len;
	if (buf_add(&st->answer, data, len, &e) < 0) {
		st->failed = e;
		return len;
	}
	while ((n = file_msg_next(st->answer.data, st->answer.len, &m, &e)) > 0) {
		if (m.kind == FILE_MSG_ERROR)
			st->failed = m.error;
		else if (m.kind == FILE_MSG_READY && st->awaiting)
			on_accepted(st);
		buf_consume(&st->answer, (size_t)n);
	}
	if (n < 0)
		st->failed = e;
	return len;
}

static void on_room(struct file_op *op)
{
	secret_delivery_feed(file_op_arg(op));
}

/* The built-in has ended: as asked, with something still due, or by a failure. */
static void on_end(struct file_op *op, int status, const struct err *e)
{
	struct secret_state *st = file_op_arg(op);
	struct err why = { 0 };
	bool again = st->closing && st->wanted;
	bool owed = st->awaiting || st->table.data != NULL || (st->wanted && !again);

	st->op = NULL;
	st->closing = false;
	st->awaiting = false;
	buf_release(&st->table);
	buf_release(&st->answer);
	if (session_row(st->session)->state >= SESSION_ENDING)
		return;
	if (e != NULL)
		why = *e;
	else if (st->failed.code != ERR_NONE)
		why = st->failed;
	else if (status != 0 || owed || secret_delivery_has_socket(st->session))
		(void)err_set(&why, ERR_CONFLICT, "the built-in ended with status %d", status);
	if (why.code == ERR_NONE) {
		if (again) /* something changed after its end was requested */
			secret_delivery_start(st->session);
		return;
	}
	on_refused(st, &why);
	if (st->delivering && e == NULL)
		secret_delivery_give_up_soon(
			st); /* the built-in has refused, and would refuse again */
}

static const struct file_op_events events = { .on_output = on_output,
					      .on_room = on_room,
					      .on_end = on_end };

/* The user that the built-in runs as: root, if the cell has one. */
static const char *secret_delivery_user_of(const struct session *s)
{
	bool one_id = core_restrictions(session_core(s))->ids == 1;

	return one_id || session_row(s)->profile == CELL_LOCKED ? "user" : "root";
}

/* Must the cell have something, or lose a file that it has? */
static bool secret_delivery_is_anything_due(struct session *s)
{
	const struct secret_state *st = secret_state_of(s);

	return secret_delivery_is_needed(s) || secret_walk_has_file(s) || (st != NULL && st->files);
}

/* One built-in of a session at most. A running one takes the next table. */
void secret_delivery_start(struct session *s)
{
	static const char *const argv[] = { "secrets" };
	struct secret_state *st;
	struct err e;

	if (session_row(s)->state >= SESSION_ENDING || !secret_delivery_is_anything_due(s))
		return;
	st = secret_state(s);
	st->wanted = true;
	if (session_row(s)->state != SESSION_RUNNING || session_cell(s) == NULL ||
	    !session_cell(s)->connected)
		return; /* delivered when the session is resumed */
	if (st->op != NULL) {
		if (!st->closing)
			secret_delivery_feed(st);
		return;
	}
	st->failed = (struct err){ 0 };
	buf_init(&st->answer, 2 * (size_t)FILE_MSG_MAX);
	st->op = file_op_start_inside(s, secret_delivery_user_of(s), argv, COUNT(argv), &events, st,
				      &e);
	if (st->op == NULL)
		on_refused(st, &e);
}

void secret_delivery_retry(struct session *s)
{
	struct secret_state *st = secret_state_of(s);

	if (st == NULL || !st->wanted || st->op != NULL || session_row(s)->state != SESSION_RUNNING)
		return;
	if (st->tries++ < TRIES_MAX)
		secret_delivery_start(s);
	else if (st->delivering)
		secret_delivery_give_up_soon(st);
}

void secret_delivery_cell_gone(struct session *s)
{
	struct secret_state *st = secret_state_of(s);
	struct err e;

	if (st == NULL)
		return;
	if (st->op != NULL)
		file_op_cancel(st->op);
	st->op = NULL;
	buf_release(&st->table);
	buf_release(&st->answer);
	st->awaiting = st->closing = st->files = st->files_sent = false;
	st->tries = 0;
	st->wanted = st->delivering = secret_delivery_is_needed(s);
	(void)err_set_reason(&e, REASON_GONE, "session %s has no cell any more",
			     session_row(s)->id);
	completions_end_all(&st->when_delivered, &e);
}

/* Tries begin at 0: the cell may have another state now. */
void secret_delivery_refresh(struct session *s)
{
	struct secret_state *st = secret_state_of(s);

	if (st != NULL)
		st->tries = 0;
	secret_delivery_start(s);
	secret_mask(s);
}

bool secret_delivery_is_done(const struct session *s)
{
	const struct secret_state *st = secret_state_of(s);

	return st == NULL || !st->delivering;
}
