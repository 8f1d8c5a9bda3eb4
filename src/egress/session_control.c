/* session_control.c - theory of operation
 *
 * A configuration is read in full before anything of the session changes, so a malformed one leaves
 * it as it was. With a new policy every connection is judged again; the old policy lives until that
 * is done.
 *
 * Both listeners are shared with PID 1 of the cell, which may do anything with them: egress checks
 * that they are sockets of the right kind, and makes no call on them that could block. */
#include "session_control.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "counts.h"
#include "dns_state.h"
#include "dns_tcp.h"
#include "dns_udp.h"
#include "flow.h"
#include "flow_accept.h"
#include "idle_conns.h"
#include "resolver.h"
#include "secrets.h"
#include "session_config.h"
#include "session_limits.h"
#include "synthetic_names.h"
#include "untrusted_fd.h"

/* ---- the configuration */

static int join_tenant(struct egress_session *g, const char *tenant, struct err *e)
{
	if (g->share.tenant != NULL && strcmp(g->share.tenant->name, tenant) == 0)
		return 0;
	if (g->share.tenant != NULL)
		return err_set(e, ERR_INVALID,
			       "session configuration: the tenant of a session cannot change");
	if (share_join(&g->egress->shares, &g->share, tenant) < 0)
		return err_set(e, ERR_SYSTEM, "memory is short");
	g->lookups.tenant = &g->share.tenant->lookups;
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
static void replace(struct egress_session *g, struct policy *old, struct secrets *old_secrets)
{
	if (!g->attached) /* first message of a new channel: only now cordond knows the session */
		counts_repeat(g);
	idle_conns_empty(g->upstreams);
	flow_recheck_all(g, old_secrets);
	policy_free(old);
	secrets_free(old_secrets);
}

/* Takes policy and secrets out of c. */
static int apply(struct egress_session *g, struct session_config *c, struct err *e)
{
	struct policy *old = g->policy;
	struct secrets *old_secrets = g->secrets;
	struct naming naming = { g->names, SYNTHETIC_NAMES_MAX / 2 };

	if (join_tenant(g, c->tenant, e) < 0)
		return -1;
	counts_restore(g, c->used);
	g->policy = c->policy;
	g->version++;
	if (limits_renew(g, e) < 0) {
		g->policy = old;
		g->version--;
		return -1;
	}
	g->secrets = c->secrets;
	c->policy = NULL;
	c->secrets = NULL;
	policy_each_host(g->policy, on_host, &naming);
	if (old != NULL)
		replace(g, old, old_secrets);
	return 0;
}

int session_change(struct egress_session *g, const char *config, size_t len, struct err *e)
{
	struct session_config c;
	int applied;

	if (session_config_read(config, len, &c, e) < 0)
		return -1;
	applied = apply(g, &c, e);
	session_config_release(&c);
	return applied;
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

static void on_tcp(struct loop_fd *f, uint32_t events)
{
	struct egress_session *g = f->arg;

	(void)events;
	if (flow_accept(g) < 0)
		session_detach(g);
}

static void on_udp(struct loop_fd *f, uint32_t events)
{
	(void)events;
	dns_udp_serve(f->arg);
}

static void close_listeners(struct egress_session *g)
{
	loop_timer_cancel(g->egress->loop, &g->accept_again);
	loop_remove(g->egress->loop, &g->on_tcp);
	loop_remove(g->egress->loop, &g->on_udp);
	untrusted_close(&g->tcp, 1);
	untrusted_close(&g->udp, 1);
}

/* Takes both descriptors, also on failure. */
static int open_listeners(struct egress_session *g, int fds[2], struct err *e)
{
	close_listeners(g);
	g->tcp = fds[0];
	g->udp = fds[1];
	fds[0] = fds[1] = -1;
	g->on_tcp = (struct loop_fd){ .fd = -1, .ready = on_tcp, .arg = g };
	g->on_udp = (struct loop_fd){ .fd = -1, .ready = on_udp, .arg = g };
	if (check_socket(g->tcp, SOCK_STREAM, e) < 0 || check_socket(g->udp, SOCK_DGRAM, e) < 0 ||
	    loop_add(g->egress->loop, &g->on_tcp, g->tcp, EPOLLIN, e) < 0 ||
	    loop_add(g->egress->loop, &g->on_udp, g->udp, EPOLLIN, e) < 0)
		return -1;
	return 0;
}

/* ---- the session */

static struct egress_session *session_new(struct egress *egress, const char *id)
{
	struct egress_session *g = egress_session_new(egress, id);

	if (g == NULL)
		return NULL;
	g->names = synthetic_names_new();
	g->upstreams = idle_conns_new(egress->loop, &g->share);
	return g;
}

int session_attach(struct egress *egress, const char *id, int fds[2], const char *config,
		   size_t len, struct err *e)
{
	struct egress_session *g = egress_session_find(egress, id);
	int attached = -1;

	if (g == NULL)
		g = session_new(egress, id);
	if (g == NULL || g->names == NULL || g->upstreams == NULL)
		(void)err_set(e, ERR_SYSTEM, "memory is short");
	else if (session_change(g, config, len, e) == 0)
		attached = open_listeners(g, fds, e);
	untrusted_close(fds, 2);
	if (attached == 0)
		g->attached = true;
	else if (g != NULL)
		session_detach(g);
	return attached;
}

void session_detach(struct egress_session *g)
{
	close_listeners(g);
	dns_tcp_cut_all(g);
	dns_state_free(g);
	flow_cut_all(g);
	idle_conns_free(g->upstreams);
	resolver_owner_gone(g->egress->resolver, &g->lookups);
	counts_tell(g);
	synthetic_names_free(g->names);
	share_leave(&g->share);
	policy_free(g->policy);
	if (g->secrets != NULL)
		secrets_free(g->secrets);
	egress_session_free(g);
}
