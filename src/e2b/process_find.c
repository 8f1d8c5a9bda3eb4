#include "process_find.h"

#include "rpc.h"

struct search {
	const struct process_selector *which;
	struct execution *running, *left;
};

static void on_execution(struct execution *x, void *arg)
{
	struct search *f = arg;
	bool is = f->which->tag == NULL
			  ? f->which->pid != 0 && execution_pid(x) == f->which->pid
			  : process_spec_has_tag(execution_row(x)->client, f->which->tag);

	if (!is || execution_complete(x))
		return;
	if (!execution_ended(x))
		f->running = x;
	else
		f->left = x;
}

struct execution *process_find(struct session *s, const struct process_selector *which)
{
	struct search f = { .which = which };

	execution_each(s, on_execution, &f);
	return f.running != NULL ? f.running : f.left;
}

void process_find_fail(struct request *r, const struct process_selector *which)
{
	if (which->tag != NULL)
		rpc_fail(r, RPC_NOT_FOUND, "process with tag %.256s not found", which->tag);
	else
		rpc_fail(r, RPC_NOT_FOUND, "process with pid %u not found", which->pid);
}

void process_find_refuse(struct request *r, const struct err *e)
{
	rpc_fail(r, e->code == ERR_UNSUPPORTED ? RPC_UNIMPLEMENTED : RPC_INVALID_ARGUMENT, "%s",
		 e->msg);
}
