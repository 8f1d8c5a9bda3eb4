/* session_policy.c - whom a session may contact: three layers (the node's, its tenant's, its own)
 * made into one document. The layers are kept apart and merged when they are needed, so that a
 * change of one counts for all. */
#include "session_policy.h"

#include <string.h>

#include "core_private.h"
#include "event_log.h"
#include "policy.h"
#include "policy_memo.h"
#include "policy_select.h"
#include "secret_egress.h"
#include "secret_quota.h"
#include "secret_state.h"
#include "session.h"
#include "session_egress.h"
#include "session_lifecycle.h"
#include "tenant.h"

/* Of all sessions of a tenant together; small ones are always taken, so that a session can be made
 * stricter whatever the others have. */
#define DOCUMENTS_MAX (4U << 20)
#define DOCUMENT_SMALL (4U << 10)

int session_policy_setup(struct core *c, struct err *e)
{
	struct policy *p = NULL;

	c->merged = policy_memo_new();
	if (c->merged == NULL)
		return err_sys(e, "allocate");
	if (policy_select_presets(c->o.config->network_default, &c->default_policy, e) < 0)
		return err_wrap(e, "network_default");
	if (c->o.node_policy == NULL)
		return 0;
	if (policy_read(c->o.node_policy, strlen(c->o.node_policy), POLICY_NODE, &p, e) < 0)
		return err_wrap(e, "egress_policy");
	policy_free(p);
	return 0;
}

const char *session_chosen(const struct core *c, const struct store_session *row)
{
	return row->policy == NULL || row->policy[0] == '\0' ? c->default_policy : row->policy;
}

const char *session_choice(const struct session *s)
{
	return session_chosen(s->core, &s->row);
}

const char *session_network_state(const struct session *s)
{
	switch (s->door.state) {
	case DOOR_NONE:
		return "none";
	case DOOR_OPEN:
		return "open";
	case DOOR_FAILED:
		return "failed";
	case DOOR_WANTED:
	case DOOR_ASKED:
	case DOOR_SENT:
		break;
	}
	return "opening";
}

static int merge(const struct core *c, const struct tenant *t, const char *document, char **ret,
		 struct err *e)
{
	const char *layers[POLICY_LAYERS] = { [POLICY_NODE] = c->o.node_policy,
					      [POLICY_TENANT] = tenant_policy(t),
					      [POLICY_SESSION] = document };

	return policy_memo_merge(c->merged, layers, ret, e);
}

int session_merged(struct core *c, const struct tenant *t, const struct store_session *row,
		   char **ret, struct err *e)
{
	return merge(c, t, session_chosen(c, row), ret, e);
}

int session_policy(const struct session *s, char **ret, struct err *e)
{
	return merge(s->core, s->tenant, session_choice(s), ret, e);
}

static void add_size(struct session *s, void *arg)
{
	size_t *sum = arg;

	*sum += s->row.policy == NULL ? 0 : strlen(s->row.policy);
}

static int check_size(struct core *c, const struct tenant *t, const char *document, struct err *e)
{
	size_t sum = strlen(document);

	if (sum <= DOCUMENT_SMALL)
		return 0;
	session_each(c, t, add_size, &sum);
	if (sum <= DOCUMENTS_MAX)
		return 0;
	return err_set_reason(e, REASON_QUOTA_POLICIES,
			      "those of all sessions have at most %u bytes", DOCUMENTS_MAX);
}

int session_check_policy(struct core *c, const struct tenant *t, const char *document,
			 struct err *e)
{
	OWN_MEM char *merged = NULL;

	if (document[0] == '\0' || policy_select_is_none(document))
		return 0; /* the default was checked when it was read */
	if (check_size(c, t, document, e) < 0 ||
	    (strstr(document, "${secret.") != NULL &&
	     secret_quota_more(c, t, secret_referenced(c, t, document), e) < 0))
		return -1;
	return merge(c, t, document, &merged, e) < 0 ? err_wrap(e, "network") : 0;
}

static int save(struct session *s, const char *document, struct err *e)
{
	struct store_session before = s->row;
	char *copy = strdup(document), name[POLICY_SELECT_NAME_MAX];
	struct core *c = s->core;

	if (copy == NULL)
		return err_sys(e, "allocate");
	s->row.policy = copy;
	policy_select_name(session_choice(s), name);
	if (store_begin(c->store, e) < 0 ||
	    store_session_update_settings(c->store, &s->row, e) < 0 ||
	    event_log_append(c, s->row.tenant, s->row.id, "", "session.network", e, "policy\t%s\n",
			     name) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		s->row = before;
		free(copy);
		return -1;
	}
	free(s->policy);
	s->policy = copy;
	return 0;
}

int session_set_policy(struct session *s, const char *document, struct completion *w, struct err *e)
{
	OWN_MEM char *deny = NULL;

	if (session_check_policy(s->core, s->tenant, document, e) < 0)
		return -1;
	/* PID 1 listens for good: what nobody serves would wait for ever, not be refused. */
	if (s->door.state != DOOR_NONE &&
	    policy_select_is_none(document[0] == '\0' ? s->core->default_policy : document)) {
		if (policy_select_presets("deny", &deny, e) < 0)
			return -1;
		document = deny;
	}
	if (save(s, document, e) < 0)
		return -1;
	session_touch(s);
	session_egress_changed(s, w);
	return 0;
}
