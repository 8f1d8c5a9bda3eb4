/* sandbox_network.c - replaces the outbound rules of a sandbox; see network.h. */
#include <stdlib.h>
#include <string.h>

#include "e2b_private.h"
#include "change_quota.h"
#include "json_members.h"
#include "network.h"
#include "network_policy.h"
#include "reply.h"
#include "allow.h"
#include "policy_select.h"
#include "sandbox.h"
#include "secret.h"
#include "session_policy.h"

struct naming {
	struct request *r;
	struct err *e;
};

static int check_secret(const char *name, void *arg)
{
	struct naming *n = arg;
	struct store_secret row;

	if (secret_get(n->r->core, n->r->tenant, name, &row, n->e) == 0) {
		store_secret_release(&row);
		return 0;
	}
	if (n->e->code == ERR_NOT_FOUND)
		(void)err_set(n->e, ERR_INVALID, "network.rules: there is no secret %.100s", name);
	return -1;
}

int sandbox_network_policy(struct request *r, const char *text, char **ret, struct err *e)
{
	struct naming naming = { .r = r, .e = e };
	char name[POLICY_SELECT_NAME_MAX];
	OWN_MEM char *policy = NULL;

	if (network_policy_secrets(text, check_secret, &naming) != 0)
		return -1;
	policy_select_name(session_policy_of_row(r->core, &(struct store_session){ 0 }), name);
	if (network_policy_write(text, strcmp(name, "internet") == 0, &policy, e) < 0)
		return -1;
	/* Checked once more, as what any client gives. */
	if (policy[0] != '\0')
		return policy_select_read(policy, strlen(policy), POLICY_SESSION, ret, e);
	*ret = policy;
	policy = NULL;
	return 0;
}

static void on_applied(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		sandbox_fail(r, e);
	else
		reply_empty(r, 204);
}

static int update(struct request *r, struct session *s, json_t *root, struct err *e)
{
	OWN_MEM char *text = NULL, *policy = NULL;
	char name[POLICY_SELECT_NAME_MAX];

	if (network_update(session_row(s)->network, root, &text, e) < 0 ||
	    change_quota_take(r->tenant, strlen(text), e) < 0 ||
	    sandbox_network_policy(r, text, &policy, e) < 0 ||
	    session_policy_check(r->core, r->tenant, policy, e) < 0)
		return -1;
	policy_select_name(policy, name); /* refused before anything is stored */
	if (allow_network(r->core, r->tenant, request_actor(r), name, e) < 0 ||
	    session_set_network(s, text, e) < 0)
		return -1;
	r->wait.on_done = on_applied;
	return session_policy_set(s, policy, request_actor(r), &r->wait, e);
}

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct session *s = sandbox_find_running(r);
	struct err e = { 0 };
	json_t *root;
	int set;

	if (s == NULL)
		return;
	root = json_members_parse(body, len, &e);
	set = root == NULL ? -1 : update(r, s, root, &e);
	json_decref(root);
	if (set < 0)
		sandbox_fail(r, &e);
}

void sandbox_network(struct request *r)
{
	request_long_body(r, on_body);
}
