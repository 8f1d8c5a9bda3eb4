/* session_control.c - theory of operation
 *
 * A configuration is read in full before anything of the session changes, so a malformed one leaves
 * it as it was. With a new policy every connection is judged again. The old policy lives until the
 * end of that.
 *
 * Both listeners are shared with PID 1 of the cell, which may do anything with them: egress checks
 * that they are sockets of the right kind, and makes no call on them that could block. */
#include "egress/control/session_control.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress/control/session_counts.h"
#include "egress/control/session_limits.h"
#include "egress/dns/dns_state.h"
#include "egress/dns/dns_tcp.h"
#include "egress/dns/dns_udp.h"
#include "egress/dns/synthetic_names.h"
#include "egress/flow/datagrams.h"
#include "egress/flow/flow.h"
#include "egress/flow/flow_accept.h"
#include "egress/flow/idle_conns.h"
#include "egress/flow/owner_query.h"
#include "egress/packages/package_view.h"
#include "egress/secrets/secrets.h"
#include "lib/base/str.h"
#include "lib/base/untrusted_fd.h"
#include "lib/outbound/resolver.h"

void session_config_release(struct session_config *c)
{
	policy_free(c->policy);
	if (c->secrets != NULL)
		secrets_free(c->secrets);
	json_decref(c->used);
}

/* `cordon run` does not merge: it sends the documents of the layers as texts. */
static json_t *session_config_merge(const json_t *layers, struct err *e)
{
	const char *texts[POLICY_LAYERS];
	char *merged = NULL;
	json_t *root;

	if (json_array_size(layers) != POLICY_LAYERS) {
		(void)err_set(e, ERR_INVALID, "session configuration: no policy");
		return NULL;
	}
	for (size_t i = 0; i < POLICY_LAYERS; i++)
		texts[i] = json_string_value(json_array_get(layers, i));
	if (policy_merge(texts, &merged, e) < 0)
		return NULL;
	root = json_loads(merged, 0, NULL);
	free(merged);
	if (root == NULL)
		(void)err_set(e, ERR_SYSTEM, "out of memory");
	return root;
}

static int session_config_read_policy(const json_t *root, struct policy **ret, struct err *e)
{
	json_t *policy = json_incref(json_object_get(root, "policy"));
	int read = -1;

	if (policy == NULL)
		policy = session_config_merge(json_object_get(root, "layers"), e);
	if (policy != NULL)
		read = policy_read_json(policy, POLICY_LAYERS, ret, e);
	json_decref(policy);
	return read;
}

/* The text may be long, so it is parsed once for all its members. */
int session_config_read(const char *text, size_t len, struct session_config *ret, struct err *e)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	const char *tenant = json_string_value(json_object_get(root, "tenant"));
	int read = -1;

	*ret = (struct session_config){ .used = json_incref(json_object_get(root, "used")) };
	str_copy(ret->tenant, tenant == NULL ? "" : tenant);
	if (!json_is_object(root))
		(void)err_set(e, ERR_INVALID, "session configuration: not a JSON object");
	else if (session_config_read_policy(root, &ret->policy, e) == 0)
		read = secrets_read(root, &ret->secrets, e);
	json_decref(root);
	if (read < 0)
		session_config_release(ret);
	return read;
}

int session_config_read_secrets(const char *text, size_t len, struct secrets **ret, struct err *e)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	int read = -1;

	if (!json_is_object(root))
		(void)err_set(e, ERR_INVALID, "secrets of a session: not a JSON object");
	else
		read = secrets_read(root, ret, e);
	json_decref(root);
	return read;
}

/* ---- the configuration */

static int session_control_join_tenant(struct egress_session *session, const char *tenant,
				       struct err *e)
{
	if (session->share.tenant != NULL && strcmp(session->share.tenant->name, tenant) == 0)
		return 0;
	if (session->share.tenant != NULL)
		return err_set(e, ERR_INVALID,
			       "session configuration: the tenant of a session cannot change");
	if (resource_share_join(&session->egress->shares, &session->share, tenant) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	session->lookups.tenant = &session->share.tenant->lookups;
	synthetic_names_join(session->names, &session->share.tenant->names);
	return 0;
}

struct session_control_naming {
	struct synthetic_names *names;
	unsigned left; /* half of the places: names in use are not replaced by these */
};

/* Give a host of the policy its address before the first query, for programs that remember an
 * address from an earlier egress process. */
static void on_host(const char *host, void *arg)
{
	struct session_control_naming *n = arg;
	struct ip v4, v6;

	if (n->left == 0)
		return;
	n->left--;
	IGNORED(synthetic_names_give(n->names, host, &v4, &v6), "the first query tries again");
}

/* Judge all connections by the new policy and secrets, then free the old ones. */
static void session_control_replace(struct egress_session *session, struct policy *old,
				    struct secrets *old_secrets)
{
	if (!session->attached) /* first message of a new channel: only now cordond knows the
				   session */
		session_counts_send_all(session);
	idle_conns_empty(session->idle_conns);
	flow_recheck_all(session, old_secrets);
	policy_free(old);
	secrets_free(old_secrets);
}

/* Take policy and secrets out of c. */
static int session_control_apply(struct egress_session *session, struct session_config *c,
				 struct err *e)
{
	struct policy *old = session->policy;
	struct secrets *old_secrets = session->secrets;
	struct session_control_naming naming = { session->names, SYNTHETIC_NAMES_MAX / 2 };

	if (session_control_join_tenant(session, c->tenant, e) < 0 ||
	    secrets_bind(c->secrets, c->policy, e) < 0)
		return -1;
	session_counts_restore(session, c->used);
	session->policy = c->policy;
	session->version++;
	if (session_limits_renew(session, e) < 0) {
		session->policy = old;
		session->version--;
		return -1;
	}
	session->secrets = c->secrets;
	c->policy = NULL;
	c->secrets = NULL;
	policy_each_host(session->policy, on_host, &naming);
	if (old != NULL)
		session_control_replace(session, old, old_secrets);
	return 0;
}

int session_change(struct egress_session *session, const char *config, size_t len, struct err *e)
{
	struct session_config c;
	int applied;

	if (session_config_read(config, len, &c, e) < 0)
		return -1;
	applied = session_control_apply(session, &c, e);
	session_config_release(&c);
	return applied;
}

int session_change_secrets(struct egress_session *session, const char *text, size_t len,
			   struct err *e)
{
	struct secrets *old = session->secrets, *now = NULL;

	if (session_config_read_secrets(text, len, &now, e) < 0)
		return -1;
	if (secrets_bind(now, session->policy, e) < 0) {
		secrets_free(now);
		return -1;
	}
	session->secrets = now;
	session_control_replace(session, NULL, old);
	return 0;
}

/* ---- listeners */

static int session_control_check_socket(int fd, int type, struct err *e)
{
	int got = 0, listens = 0, domain = 0, protocol = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &got, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0)
		return err_sys(e, "listener");
	if (got != type || (domain != AF_INET && domain != AF_INET6) ||
	    protocol != (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP) ||
	    (type == SOCK_STREAM) != (listens != 0))
		return err_set(e, ERR_INVALID, "listener: not a socket of the expected kind");
	return 0;
}

/* Connections of a cell never leave the machine. A machine whose default is BBR would pace them
 * with timers, which costs as much as all the rest of a download. Set before a connection is
 * accepted, because pacing stays on when a connection changes to another algorithm. Reno is always
 * there. */
static void session_control_set_congestion_control(int listener)
{
	(void)setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

static void on_tcp(struct loop_fd *f, uint32_t events)
{
	struct egress_session *session = f->arg;

	if (flow_accept(session) < 0)
		session_detach(session);
}

static void on_udp(struct loop_fd *f, uint32_t events)
{
	dns_udp_serve(f->arg);
}

static void session_control_close_listeners(struct egress_session *session)
{
	loop_timer_cancel(session->egress->loop, &session->accept_again);
	loop_remove(session->egress->loop, &session->tcp_watch);
	loop_remove(session->egress->loop, &session->udp_watch);
	owner_query_close(session);
	untrusted_close(&session->tcp, 1);
	untrusted_close(&session->udp, 1);
}

/* Take the descriptors, also on failure. */
static int session_control_open_listeners(struct egress_session *session, int fds[EGRESS_FDS_MAX],
					  struct err *e)
{
	session_control_close_listeners(session);
	session->tcp = fds[0];
	session->udp = fds[1];
	owner_query_open(session, fds[2]);
	fds[0] = fds[1] = fds[2] = -1;
	session->tcp_watch = (struct loop_fd){ .fd = -1, .on_ready = on_tcp, .arg = session };
	session->udp_watch = (struct loop_fd){ .fd = -1, .on_ready = on_udp, .arg = session };
	if (session_control_check_socket(session->tcp, SOCK_STREAM, e) < 0 ||
	    session_control_check_socket(session->udp, SOCK_DGRAM, e) < 0)
		return -1;
	session_control_set_congestion_control(session->tcp);
	if (loop_add(session->egress->loop, &session->tcp_watch, session->tcp, EPOLLIN, e) < 0 ||
	    loop_add(session->egress->loop, &session->udp_watch, session->udp, EPOLLIN, e) < 0)
		return -1;
	return 0;
}

/* ---- the session */

static struct egress_session *session_control_session_new(struct egress *egress, const char *id)
{
	struct egress_session *session = egress_session_new(egress, id);

	if (session == NULL)
		return NULL;
	session->names = synthetic_names_new();
	session->idle_conns = idle_conns_new(egress->loop, &session->share);
	return session;
}

int session_attach(struct egress *egress, const char *id, int fds[EGRESS_FDS_MAX],
		   const char *config, size_t len, struct err *e)
{
	struct egress_session *session = egress_session_find(egress, id);
	int attached = -1;

	if (session == NULL)
		session = session_control_session_new(egress, id);
	if (session == NULL || session->names == NULL || session->idle_conns == NULL)
		(void)err_set(e, ERR_SYSTEM, "out of memory");
	else if (session_change(session, config, len, e) == 0)
		attached = session_control_open_listeners(session, fds, e);
	untrusted_close(fds, EGRESS_FDS_MAX);
	if (attached == 0)
		session->attached = true;
	else if (session != NULL)
		session_detach(session);
	return attached;
}

void session_detach(struct egress_session *session)
{
	session->leaving = true;
	session_control_close_listeners(session);
	dns_tcp_cut_all(session);
	dns_state_free(session);
	datagrams_release(session);
	flow_cut_all(session);
	package_views_leave(session);
	assert(session->flows == NULL);
	idle_conns_free(session->idle_conns);
	resolver_owner_gone(session->egress->resolver, &session->lookups);
	session_counts_send(session);
	synthetic_names_free(session->names);
	resource_share_leave(&session->share);
	policy_free(session->policy);
	if (session->secrets != NULL)
		secrets_free(session->secrets);
	egress_session_free(session);
}
