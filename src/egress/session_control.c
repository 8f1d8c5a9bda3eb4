/* session_control.c - theory of operation
 *
 * A configuration is read in full before anything of the session changes, so a malformed one leaves
 * it as it was. With a new policy every connection is judged again; the old policy lives until that
 * is done.
 *
 * Both listeners are shared with PID 1 of the cell, which may do anything with them: egress checks
 * that they are sockets of the right kind, and makes no call on them that could block. */
#include "session_control.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "datagrams.h"
#include "dns_state.h"
#include "dns_tcp.h"
#include "dns_udp.h"
#include "flow.h"
#include "flow_accept.h"
#include "idle_conns.h"
#include "owner_query.h"
#include "package_view.h"
#include "resolver.h"
#include "secrets.h"
#include "session_config.h"
#include "session_counts.h"
#include "session_limits.h"
#include "synthetic_names.h"
#include "untrusted_fd.h"

/* ---- the configuration */

static int join_tenant(struct egress_session *session, const char *tenant, struct err *e)
{
	if (session->share.tenant != NULL && strcmp(session->share.tenant->name, tenant) == 0)
		return 0;
	if (session->share.tenant != NULL)
		return err_set(e, ERR_INVALID,
			       "session configuration: the tenant of a session cannot change");
	if (resource_share_join(&session->egress->shares, &session->share, tenant) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	session->lookups.tenant = &session->share.tenant->lookups;
	return 0;
}

struct naming {
	struct synthetic_names *names;
	unsigned left; /* half of the places: names in use are not replaced by these */
};

/* Gives a host of the policy its address before the first query, for programs that remember an
 * address from an earlier egress process. */
static void on_host(const char *host, void *arg)
{
	struct naming *n = arg;
	struct ip v4, v6;

	if (n->left == 0)
		return;
	n->left--;
	IGNORED(synthetic_names_give(n->names, host, &v4, &v6), "the first query tries again");
}

/* Judges all connections by the new policy and secrets, then frees the old ones. */
static void replace(struct egress_session *session, struct policy *old, struct secrets *old_secrets)
{
	if (!session->attached) /* first message of a new channel: only now cordond knows the
				   session */
		session_counts_send_all(session);
	idle_conns_empty(session->idle_conns);
	flow_recheck_all(session, old_secrets);
	policy_free(old);
	secrets_free(old_secrets);
}

/* Takes policy and secrets out of c. */
static int apply(struct egress_session *session, struct session_config *c, struct err *e)
{
	struct policy *old = session->policy;
	struct secrets *old_secrets = session->secrets;
	struct naming naming = { session->names, SYNTHETIC_NAMES_MAX / 2 };

	if (join_tenant(session, c->tenant, e) < 0)
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
		replace(session, old, old_secrets);
	return 0;
}

int session_change(struct egress_session *session, const char *config, size_t len, struct err *e)
{
	struct session_config c;
	int applied;

	if (session_config_read(config, len, &c, e) < 0)
		return -1;
	applied = apply(session, &c, e);
	session_config_release(&c);
	return applied;
}

int session_change_secrets(struct egress_session *session, const char *text, size_t len,
			   struct err *e)
{
	struct secrets *old = session->secrets, *now = NULL;

	if (session_config_read_secrets(text, len, &now, e) < 0)
		return -1;
	session->secrets = now;
	replace(session, NULL, old);
	return 0;
}

/* ---- listeners */

static int check_socket(int fd, int type, struct err *e)
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
static void set_congestion_control(int listener)
{
	(void)setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

static void on_tcp(struct loop_fd *f, uint32_t events)
{
	struct egress_session *session = f->arg;

	(void)events;
	if (flow_accept(session) < 0)
		session_detach(session);
}

static void on_udp(struct loop_fd *f, uint32_t events)
{
	(void)events;
	dns_udp_serve(f->arg);
}

static void close_listeners(struct egress_session *session)
{
	loop_timer_cancel(session->egress->loop, &session->accept_again);
	loop_remove(session->egress->loop, &session->tcp_watch);
	loop_remove(session->egress->loop, &session->udp_watch);
	owner_query_close(session);
	untrusted_close(&session->tcp, 1);
	untrusted_close(&session->udp, 1);
}

/* Takes the descriptors, also on failure. */
static int open_listeners(struct egress_session *session, int fds[EGRESS_FDS_MAX], struct err *e)
{
	close_listeners(session);
	session->tcp = fds[0];
	session->udp = fds[1];
	owner_query_open(session, fds[2]);
	fds[0] = fds[1] = fds[2] = -1;
	session->tcp_watch = (struct loop_fd){ .fd = -1, .on_ready = on_tcp, .arg = session };
	session->udp_watch = (struct loop_fd){ .fd = -1, .on_ready = on_udp, .arg = session };
	if (check_socket(session->tcp, SOCK_STREAM, e) < 0 ||
	    check_socket(session->udp, SOCK_DGRAM, e) < 0)
		return -1;
	set_congestion_control(session->tcp);
	if (loop_add(session->egress->loop, &session->tcp_watch, session->tcp, EPOLLIN, e) < 0 ||
	    loop_add(session->egress->loop, &session->udp_watch, session->udp, EPOLLIN, e) < 0)
		return -1;
	return 0;
}

/* ---- the session */

static struct egress_session *session_new(struct egress *egress, const char *id)
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
		session = session_new(egress, id);
	if (session == NULL || session->names == NULL || session->idle_conns == NULL)
		(void)err_set(e, ERR_SYSTEM, "out of memory");
	else if (session_change(session, config, len, e) == 0)
		attached = open_listeners(session, fds, e);
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
	close_listeners(session);
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
