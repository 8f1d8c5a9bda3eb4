/* session_op.c - see session_op.h. */
#include "daemon/session/session_op.h"

#include <assert.h>

#include "daemon/node/core_private.h"

void session_op_begin(struct session_op *op, struct session *s,
		      const struct session_op_calls *calls)
{
	assert(s->ops[calls->kind] == NULL);
	op->calls = calls;
	op->session = s;
	s->ops[calls->kind] = op;
}

void session_op_end(struct session_op *op)
{
	if (op->session != NULL)
		op->session->ops[op->calls->kind] = NULL;
	op->session = NULL;
}

struct session_op *session_op_find(const struct session *s, enum session_op_kind kind)
{
	return s->ops[kind];
}

/* A callback may end other operations, so each is looked up when it is its turn. */
void session_ops_lost(struct session *s, const struct err *why)
{
	for (unsigned i = 0; i < SESSION_OPS; i++)
		if (s->ops[i] != NULL && s->ops[i]->calls->on_lost != NULL)
			s->ops[i]->calls->on_lost(s->ops[i], why);
}

void session_ops_free(struct session *s, const struct err *why)
{
	for (unsigned i = 0; i < SESSION_OPS; i++)
		if (s->ops[i] != NULL)
			s->ops[i]->calls->on_free(s->ops[i], why);
}
