/* secret_part.c - the table of the part, and what it keeps for the node and for a session. */
#include "secret_part.h"

#include <assert.h>
#include <stdlib.h>

#include "secret_delivery.h"
#include "secret_egress.h"
#include "secret_execution.h"
#include "secret_mask.h"
#include "secret_state.h"

struct secret_node *secret_node(struct core *c)
{
	return *core_part(c, &secret_part);
}

struct secret_state *secret_state_of(const struct session *s)
{
	return *session_part(s, &secret_part);
}

struct secret_state *secret_state(struct session *s)
{
	struct secret_state *st = secret_state_of(s);

	if (st == NULL) {
		st = calloc(1, sizeof(*st));
		assert(st != NULL);
		st->session = s;
		*session_part(s, &secret_part) = st;
	}
	return st;
}

static int setup(struct core *c, struct err *e)
{
	void **at = core_part(c, &secret_part);

	*at = calloc(1, sizeof(struct secret_node));
	assert(*at != NULL);
	return secret_start(c, e);
}

static void release(struct core *c)
{
	void **at = core_part(c, &secret_part);

	free(*at);
	*at = NULL;
}

static bool delete_one(struct core *c, struct tenant *t)
{
	return secret_delete_one(c, t);
}

static void on_started(struct session *s)
{
	secret_mask(s);
	secret_deliver(s);
}

static void on_free(struct session *s, const struct err *why)
{
	(void)why;
	secret_forget(s);
	*session_part(s, &secret_part) = NULL;
}

const struct session_part secret_part = {
	.name = "secrets",
	.setup = setup,
	.release = release,
	.on_second = secret_chores,
	.delete_one = delete_one,
	.check = secret_check_session,
	.on_started = on_started,
	.on_adopted = secret_adopted,
	.is_ready = secret_is_ready,
	.on_resumed = secret_refresh,
	.on_changed = secret_apply_change,
	.on_session_second = secret_retry,
	.check_execution = secret_check_execution,
	.prepare = secret_prepare,
	.on_execution_ended = secret_execution_ended,
	.add_env = secret_env,
	.on_free = on_free,
};
