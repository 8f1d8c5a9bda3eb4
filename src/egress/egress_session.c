/* egress_session.c - theory of operation
 *
 * An order is read in full before anything of the session changes, so a bad one leaves it as it
 * was. With a new policy every connection is judged again; the old policy lives until that is done.
 *
 * Both descriptors are shared with PID 1 of the cell, who may do anything with them: they are
 * checked for what they are, and never called in a way that could wait. */
#include "egress_session.h"

#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "counts.h"
#include "dns.h"
#include "flow.h"
#include "untrusted_fd.h"
#include "session_limits.h"
#include "synthetic_names.h"
#include "secrets.h"
#include "idle_conns.h"

struct egress_session *egress_session_find(struct egress *g, const char *id)
{
	for (struct egress_session *at = g->sessions; at != NULL; at = at->next)
		if (strcmp(at->id, id) == 0)
			return at;
	return NULL;
}

/* What an order says. */
struct order {
	struct policy *policy;
	struct secrets *secrets;
	json_t *used; /* NULL: nothing was, so far */
	char tenant[EGRESS_ID_MAX];
};

static void order_release(struct order *o)
{
	policy_free(o->policy);
	if (o->secrets != NULL)
		secrets_free(o->secrets);
	json_decref(o->used);
}

/* Of who cannot merge: the layers' documents, as texts. */
static json_t *merge(const json_t *layers, struct err *e)
{
	const char *texts[POLICY_LAYERS];
	char *merged = NULL;
	json_t *root;

	if (json_array_size(layers) != POLICY_LAYERS) {
		(void)err_set(e, ERR_INVALID, "order: no policy");
		return NULL;
	}
	for (size_t i = 0; i < POLICY_LAYERS; i++)
		texts[i] = json_string_value(json_array_get(layers, i));
	if (policy_merge(texts, &merged, e) < 0)
		return NULL;
	root = json_loads(merged, 0, NULL);
	free(merged);
	if (root == NULL)
		(void)err_set(e, ERR_SYSTEM, "memory is short");
	return root;
}

static int read_policy(const json_t *root, struct policy **ret, struct err *e)
{
	json_t *policy = json_incref(json_object_get(root, "policy"));
	int read = -1;

	if (policy == NULL)
		policy = merge(json_object_get(root, "layers"), e);
	if (policy != NULL)
		read = policy_read_json(policy, POLICY_LAYERS, ret, e);
	json_decref(policy);
	return read;
}

/* An order may be long: it is parsed once. */
static int order_read(const char *text, size_t len, struct order *ret, struct err *e)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	const char *tenant = json_string_value(json_object_get(root, "tenant"));
	int read = -1;

	*ret = (struct order){ .used = json_incref(json_object_get(root, "used")) };
	(void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", tenant == NULL ? "" : tenant);
	if (!json_is_object(root))
		(void)err_set(e, ERR_INVALID, "the order is not a JSON object");
	else if (read_policy(root, &ret->policy, e) == 0)
		read = secrets_read(root, &ret->secrets, e);
	json_decref(root);
	if (read < 0)
		order_release(ret);
	return read;
}

/* It is this tenant's from now on. */
static int join(struct egress_session *g, const char *tenant, struct err *e)
{
	struct share *s;

	if (g->share != NULL && strcmp(g->share->tenant, tenant) == 0)
		return 0;
	if (g->share != NULL)
		return err_set(e, ERR_INVALID, "order: a session cannot change its tenant");
	s = share_join(g->egress, tenant);
	if (s == NULL)
		return err_set(e, ERR_SYSTEM, "memory is short");
	g->share = s;
	g->lookups.tenant = &s->lookups;
	return 0;
}

struct naming {
	struct synthetic_names *names;
	unsigned left; /* not all: those in use must not have to go for them */
};

/* Before anybody asks, for programs that remember an address of an earlier egress. */
static void name_host(const char *host, void *arg)
{
	struct naming *n = arg;
	struct ip v4, v6;

	if (n->left == 0)
		return;
	n->left--;
	IGNORED(synthetic_names_give(n->names, host, &v4, &v6), "it is given when it is asked for");
}

/* Takes what the order holds. */
static int obey(struct egress_session *g, struct order *o, struct err *e)
{
	struct policy *old = g->policy;
	struct secrets *old_secrets = g->secrets;
	struct naming naming = { g->names, SYNTHETIC_NAMES_MAX / 2 };

	if (join(g, o->tenant, e) < 0)
		return -1;
	counts_restore(g, o->used);
	g->policy = o->policy;
	g->version++;
	if (limits_renew(g, e) < 0) {
		g->policy = old;
		g->version--;
		return -1;
	}
	g->secrets = o->secrets;
	o->policy = NULL;
	o->secrets = NULL;
	policy_each_host(g->policy, name_host, &naming);
	if (old != NULL && !g->here) /* the first order of a new channel: cordond knows it now */
		counts_repeat(g);
	if (old != NULL) {
		flow_recheck(g, old_secrets);
		policy_free(old);
		secrets_free(old_secrets);
	}
	return 0;
}

int egress_session_change(struct egress_session *g, const char *order, size_t len, struct err *e)
{
	struct order o;
	int obeyed;

	if (order_read(order, len, &o, e) < 0)
		return -1;
	obeyed = obey(g, &o, e);
	order_release(&o);
	return obeyed;
}

static int check_socket(int fd, int type, struct err *e)
{
	int got = 0, listens = 0, domain = 0, protocol = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &got, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0)
		return err_sys(e, "door");
	if (got != type || (domain != AF_INET && domain != AF_INET6) ||
	    protocol != (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP) ||
	    (type == SOCK_STREAM) != (listens != 0))
		return err_set(e, ERR_INVALID, "door: not the sockets it should be");
	return 0;
}

static void on_tcp(struct loop_fd *f, uint32_t events)
{
	(void)events;
	flow_accept(f->arg);
}

static void on_udp(struct loop_fd *f, uint32_t events)
{
	(void)events;
	dns_serve_udp(f->arg);
}

static void close_door(struct egress_session *g)
{
	loop_timer_cancel(g->egress->loop, &g->again);
	loop_remove(g->egress->loop, &g->on_tcp);
	loop_remove(g->egress->loop, &g->on_udp);
	untrusted_close(&g->tcp, 1);
	untrusted_close(&g->udp, 1);
}

/* Takes both descriptors, also on failure. */
static int open_door(struct egress_session *g, int fds[2], struct err *e)
{
	close_door(g);
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

static struct egress_session *session_new(struct egress *egress, const char *id)
{
	struct egress_session *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->egress = egress;
	used_init(&g->used);
	memcpy(g->id, id, strlen(id) + 1);
	g->tcp = g->udp = -1;
	g->on_tcp.fd = g->on_udp.fd = -1;
	g->names = synthetic_names_new();
	g->upstreams = idle_conns_new(g);
	g->next = egress->sessions;
	egress->sessions = g;
	egress->nsessions++;
	return g;
}

int egress_session_attach(struct egress *egress, const char *id, int fds[2], const char *order,
			  size_t len, struct err *e)
{
	struct egress_session *g = egress_session_find(egress, id);
	int attached = -1;

	if (g == NULL)
		g = session_new(egress, id);
	if (g == NULL || g->names == NULL || g->upstreams == NULL)
		(void)err_set(e, ERR_SYSTEM, "memory is short");
	else if (egress_session_change(g, order, len, e) == 0)
		attached = open_door(g, fds, e);
	untrusted_close(fds, 2);
	if (attached == 0)
		g->here = true;
	else if (g != NULL)
		egress_session_detach(g);
	return attached;
}

void egress_session_detach(struct egress_session *g)
{
	struct egress_session **at = &g->egress->sessions;

	close_door(g);
	dns_tcp_cut_all(g);
	flow_cut_all(g);
	idle_conns_free(g->upstreams);
	resolver_owner_gone(g->egress->resolver, &g->lookups);
	counts_tell(g);
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	g->egress->nsessions--;
	synthetic_names_free(g->names);
	used_release(&g->used);
	share_leave(g->egress, g->share);
	policy_free(g->policy);
	if (g->secrets != NULL)
		secrets_free(g->secrets);
	sent_release(&g->sent);
	free(g);
}
