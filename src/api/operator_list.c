#include "operator_list.h"

#include "auth.h"
#include "reply.h"

void operator_list(struct request *r, const char *name, operator_list_fn *write_all)
{
	struct err e = { 0 };
	struct json j;

	if (!auth_is_operator(r)) {
		reply_code(r, 403, "forbidden", "only the operator may do this");
		return;
	}
	json_init_heap(&j, REPLY_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, name, '[');
	if (write_all(r->core, &j, &e) < 0) {
		json_release(&j);
		reply_error(r, &e);
		return;
	}
	json_close(&j, ']');
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
