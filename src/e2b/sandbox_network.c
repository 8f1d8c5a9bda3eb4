/* sandbox_network.c - whom a sandbox may contact, said anew; see network.h. */
#include <stdlib.h>

#include "adapter.h"
#include "members.h"
#include "network.h"
#include "reply.h"
#include "sandbox.h"

static void set_network(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct session *s = sandbox_find_running(r);
	struct err e = { 0 };
	char *text = NULL;
	json_t *root;
	int set = -1;

	if (s == NULL)
		return;
	root = members_parse(body, len, &e);
	if (root != NULL && network_update(session_row(s)->network, root, &text, &e) == 0)
		set = session_set_network(s, text, &e);
	free(text);
	json_decref(root);
	if (set < 0)
		sandbox_fail(r, &e);
	else
		reply_empty(r, 204);
}

void sandbox_network(struct request *r)
{
	request_body(r, set_network);
}
