/* secret_part.c - secrets as a table of functions for the core (session_parts.h), and what is kept
 * for the node and for a session. */
#include "secret_part.h"

#include <assert.h>
#include <stdlib.h>

#include "file_op.h"
#include "secret_admit.h"
#include "secret_change.h"
#include "secret_delivery.h"
#include "secret_execution.h"
#include "secret_mask.h"
#include "secret_state.h"
#include "secret_values.h"

struct secret_node *secret_node(struct core *c)
{
	return *session_parts_of_core(c, &secret_part);
}

struct secret_state *secret_state_of(const struct session *s)
{
	return *session_parts_of(s, &secret_part);
}

struct secret_state *secret_state(struct session *s)
{
	struct secret_state *st = secret_state_of(s);

	if (st == NULL) {
		st = calloc(1, sizeof(*st));
		assert(st != NULL);
		st->session = s;
		*session_parts_of(s, &secret_part) = st;
	}
	return st;
}

static int setup(struct core *c, struct err *e)
{
	void **at = session_parts_of_core(c, &secret_part);

	*at = calloc(1, sizeof(struct secret_node));
	assert(*at != NULL);
	return secret_start(c, e);
}

static void release(struct core *c)
{
	void **at = session_parts_of_core(c, &secret_part);

	free(*at);
	*at = NULL;
}

static bool delete_one(struct core *c, struct tenant *t)
{
	return secret_delete_one(c, t);
}

static void on_started(struct session *s)
{
	/* Also of a session that was cold before this daemon started. */
	if (secret_delivery_is_needed(s))
		secret_state(s)->delivering = true;
	secret_mask(s);
	secret_delivery_start(s);
}

static void free_state(struct session *s)
{
	struct secret_state *st = secret_state_of(s);

	if (st == NULL)
		return;
	if (st->op != NULL)
		file_op_cancel(st->op);
	loop_task_cancel(core_loop(session_core(s)), &st->give_up);
	buf_release(&st->table);
	buf_release(&st->answer);
	while (st->past != NULL) {
		struct secret_past *p = st->past;

		st->past = p->next;
		free(p);
	}
	free(st->sent_names);
	free(st->references);
	free(st->had);
	free(st->lines);
	free(st);
}

static void on_cell_gone(struct session *s, const struct err *why)
{
	(void)why;
	secret_delivery_cell_gone(s);
}

static void on_free(struct session *s, const struct err *why)
{
	(void)why;
	free_state(s);
	*session_parts_of(s, &secret_part) = NULL;
}

const struct session_part secret_part = {
	.name = "secrets",
	.setup = setup,
	.release = release,
	.on_second = secret_expire,
	.delete_one = delete_one,
	.check = secret_admit,
	.on_started = on_started,
	.on_restored = secret_restored,
	.on_making = secret_mask,
	.on_adopted = secret_mask,
	.is_ready = secret_delivery_is_done,
	.on_resumed = secret_delivery_refresh,
	.on_changed = secret_change_apply,
	.on_session_second = secret_delivery_retry,
	.check_execution = secret_check_execution,
	.check_memory = secret_check_memory,
	.add_values = secret_values_add,
	.prepare = secret_prepare,
	.on_execution_ended = secret_execution_ended,
	.add_env = secret_delivery_add_env,
	.on_cell_gone = on_cell_gone,
	.on_free = on_free,
};
