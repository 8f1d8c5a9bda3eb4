/* session_policy.c - see session_policy.h. The layers are kept apart and merged when they are
 * needed, so that a change of one layer counts for all sessions. A memo keeps the last results. */
#include "daemon/egressctl/session_policy.h"

#include <string.h>

#include "daemon/alarms/alarm.h"
#include "daemon/egressctl/net_state.h"
#include "daemon/egressctl/session_egress.h"
#include "daemon/node/core.h"
#include "daemon/secrets/secret_admit.h"
#include "daemon/secrets/secret_egress.h"
#include "daemon/session/session.h"
#include "daemon/tenant/allow.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/policy/policy.h"
#include "lib/policy/policy_memo.h"
#include "lib/policy/policy_select.h"

/* Bytes of the documents of all sessions of a tenant. A small one is always accepted, so that a
 * session can be restricted at the bound, too. */
#define DOCUMENTS_MAX (4U << 20)
#define PACKAGE_DOCUMENTS_MAX (32U << 20) /* of those with packages, which may have many pins */
#define DOCUMENT_SMALL (4U << 10)

int session_policy_setup(struct net_access *n, struct err *e)
{
	const struct core *c = n->core;
	struct policy *p = NULL;

	n->merged = policy_memo_new();
	if (n->merged == NULL)
		return err_sys(e, "allocate");
	if (policy_select_presets(core_config(c)->network_default, &n->default_policy, e) < 0)
		return err_wrap(e, "network_default");
	if (core_options(c)->node_policy == NULL)
		return 0;
	if (policy_read(core_options(c)->node_policy, strlen(core_options(c)->node_policy),
			POLICY_NODE, &p, e) < 0)
		return err_wrap(e, "egress_policy");
	policy_free(p);
	return 0;
}

const char *session_policy_of_row(const struct core *c, const struct store_session *row)
{
	return row->policy == NULL || row->policy[0] == '\0' ? net_access_of(c)->default_policy
							     : row->policy;
}

const char *session_policy_own(const struct session *s)
{
	return session_policy_of_row(session_core(s), session_row(s));
}

static int session_policy_merge_layers(const struct core *c, const struct tenant *t,
				       const char *document, char **ret, struct err *e)
{
	const char *layers[POLICY_LAYERS] = { [POLICY_NODE] = core_options(c)->node_policy,
					      [POLICY_TENANT] = tenant_policy(t),
					      [POLICY_SESSION] = document };

	return policy_memo_merge(net_access_of(c)->merged, layers, ret, e);
}

int session_policy_merge_document(struct core *c, const struct tenant *t, const char *document,
				  char **ret, struct err *e)
{
	return session_policy_merge_layers(c, t, document, ret, e);
}

int session_policy_merge(const struct session *s, char **ret, struct err *e)
{
	return session_policy_merge_layers(session_core(s), session_tenant(s),
					   session_policy_own(s), ret, e);
}

static bool session_policy_has_packages(const char *document)
{
	return strstr(document, "\"packages\":{") !=
	       NULL; /* documents are written without spaces */
}

struct session_policy_sizes {
	size_t sum;
	bool packages; /* of documents with packages, or without */
};

static void session_policy_add_size(struct session *s, void *arg)
{
	const char *document = session_row(s)->policy;
	struct session_policy_sizes *all = arg;

	if (document != NULL && session_policy_has_packages(document) == all->packages)
		all->sum += strlen(document);
}

static int session_policy_check_size(struct core *c, const struct tenant *t, const char *document,
				     struct err *e)
{
	struct session_policy_sizes all = { .sum = strlen(document),
					    .packages = session_policy_has_packages(document) };
	size_t max = all.packages ? PACKAGE_DOCUMENTS_MAX : DOCUMENTS_MAX;

	if (all.sum <= DOCUMENT_SMALL)
		return 0;
	session_each(c, t, session_policy_add_size, &all);
	if (all.sum <= max)
		return 0;
	return err_set_reason(
		e, REASON_QUOTA_POLICIES,
		"the network policies of all sessions may have at most %zu bytes together", max);
}

int session_policy_check(struct core *c, const struct tenant *t, const char *document,
			 struct err *e)
{
	OWN_MEM char *merged = NULL;

	if (document[0] == '\0' || policy_select_is_none(document))
		return 0; /* the default was checked when it was read */
	if (session_policy_check_size(c, t, document, e) < 0 ||
	    (strstr(document, "${secret.") != NULL &&
	     secret_quota_more(c, t, secret_egress_referenced(c, t, document), e) < 0))
		return -1;
	return session_policy_merge_layers(c, t, document, &merged, e) < 0 ||
			       secret_egress_check(merged, e) < 0
		       ? err_wrap(e, "network")
		       : 0;
}

int session_policy_set(struct session *s, const char *document, const struct store_actor *who,
		       struct completion *w, struct err *e)
{
	OWN_MEM char *deny = NULL;
	char name[POLICY_SELECT_NAME_MAX];

	if (session_policy_check(session_core(s), session_tenant(s), document, e) < 0)
		return -1;
	/* PID 1 keeps listening: without egress, connections would wait forever instead of being
	 * refused. */
	if (net_session_of(s)->egress.state != SESSION_EGRESS_NONE &&
	    policy_select_is_none(document[0] == '\0'
					  ? net_access_of(session_core(s))->default_policy
					  : document)) {
		if (policy_select_denied(document, &deny, e) < 0)
			return -1;
		document = deny;
	}
	policy_select_name(document[0] == '\0' ? net_access_of(session_core(s))->default_policy
					       : document,
			   name);
	if (allow_network(session_core(s), session_tenant(s), who, name, e) < 0 ||
	    session_save_policy(s, document, name, who, e) < 0)
		return -1;
	alarm_rules_changed(s);
	session_egress_changed(s, SESSION_EGRESS_POLICY, w);
	return 0;
}
