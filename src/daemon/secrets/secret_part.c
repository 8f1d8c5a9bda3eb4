/* secret_part.c - secrets as a table of functions for the core (session_hooks.h), and the parts of
 * the node and of a session. */
#include "daemon/secrets/secret_part.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/execution/file_op.h"
#include "daemon/secrets/secret_admit.h"
#include "daemon/secrets/secret.h"
#include "daemon/secrets/secret_audit.h"
#include "daemon/secrets/secret_delivery.h"
#include "daemon/secrets/secret_execution.h"
#include "daemon/secrets/secret_values.h"
#include "daemon/secrets/secret_state.h"

static int secret_part_setup(struct core *c, struct err *e)
{
	void **at = session_parts_of_core(c, &secret_part);

	*at = calloc(1, sizeof(struct secret_node));
	assert(*at != NULL);
	return secret_start(c, e);
}

static void secret_part_release(struct core *c)
{
	void **at = session_parts_of_core(c, &secret_part);

	free(*at);
	*at = NULL;
}

static bool secret_part_delete_one(struct core *c, struct tenant *t)
{
	return secret_delete_one(c, t);
}

/* The mask is made before any value is delivered. */
static void on_started(struct session *s)
{
	/* Also for a session cold before this daemon's start. */
	if (secret_delivery_is_needed(s))
		secret_state(s)->delivering = true;
	secret_past_write(s);
	secret_mask(s);
	secret_audit_given(s, session_row(s)->secrets, "");
	secret_delivery_start(s);
}

static void secret_part_free_state(struct session *s)
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

static void on_restored(struct session *s)
{
	secret_restored(s);
	secret_past_read(s);
}

static void on_cell_gone(struct session *s, const struct err *why)
{
	secret_delivery_cell_gone(s);
}

/* Past values of a session stay in the store unless it has ended: the next cordond masks them. */
static void on_free(struct session *s, const struct err *why)
{
	if (session_row(s)->state == SESSION_ENDED && secret_state_of(s) != NULL)
		secret_past_delete(s);
	secret_part_free_state(s);
	*session_parts_of(s, &secret_part) = NULL;
}

/* The table that the core calls. Hooks without a wrapper are functions of this folder. */
const struct session_part secret_part = {
	.name = "secrets",
	.setup = secret_part_setup,
	.release = secret_part_release,
	.on_second = secret_expire,
	.delete_one = secret_part_delete_one,
	.check = secret_admit,
	.on_started = on_started,
	.on_restored = on_restored,
	.on_making = secret_mask,
	.on_adopted = secret_mask,
	.is_ready = secret_delivery_is_done,
	.on_resumed = secret_delivery_refresh,
	.on_changed = secret_change_apply,
	.on_session_second = secret_delivery_retry,
	.check_execution = secret_check_execution,
	.check_memory = secret_check_memory,
	.add_values = secret_values_add,
	.keep_values = secret_kept_write,
	.prepare = secret_prepare,
	.on_execution_ended = secret_execution_ended,
	.add_env = secret_delivery_add_env,
	.on_cell_gone = on_cell_gone,
	.on_free = on_free,
};
