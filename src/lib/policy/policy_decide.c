/* policy_decide.c - theory of operation
 *
 * Decides about names, connections and requests. Called by cordon-egress (dns.c, flow.c,
 * gateway_judge.c) and by `cordon policy explain`. Nothing here allocates or fails.
 *
 * There are three questions, and one order of rules. A name exists if a rule that allows something
 * there comes before a rule that denies all of it. A connection is decided by the first rule for
 * its host and port that does not inspect requests. If a rule that inspects comes before it, and
 * anything can be allowed at all, requests must be inspected. A request is decided by the first
 * rule that matches all of it.
 *
 * The ceilings of the layers above (lists of rules, too) must also allow everything that a lower
 * layer allows. Everything not clearly allowed is refused.
 *
 * Where no rule denies, the registries of packages members allow their hosts (packages_rules.c). */
#include "lib/policy/policy_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/policy/packages_private.h"

/* ---- theory of operation
 *
 * Writes the reason of a refusal. Called by policy_decide.c. The reader is an agent, which may
 * otherwise try another way. So each reason names the refused target, the rule, and the allowed
 * targets. It never contains values of a policy's headers or secrets. */

/* Names may have 253 bytes. The reason must keep room for its cause. */
#define HOST_SHOWN 100

static void policy_reason_append(struct policy_answer *a, const char *fmt, ...) PRINTF(2, 3);

/* Add to the reason, cut to its size. */
static void policy_reason_append(struct policy_answer *a, const char *fmt, ...)
{
	size_t n = strlen(a->reason);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(a->reason + n, sizeof(a->reason) - n, fmt, ap);
	va_end(ap);
}

/* Begin the reason with "HOST:PORT". IPv6 addresses are in brackets. */
static void policy_reason_append_target(struct policy_answer *a, const struct policy_target *to)
{
	char text[IP_TEXT_MAX];

	a->reason[0] = '\0';
	if (to->host != NULL) {
		policy_reason_append(a, "%.*s%s", HOST_SHOWN, to->host,
				     strlen(to->host) > HOST_SHOWN ? "..." : "");
	} else {
		ip_format(&to->ip, text);
		policy_reason_append(a, ip_is_v4(&to->ip) ? "%s" : "[%s]", text);
	}
	if (to->port != 0)
		policy_reason_append(a, ":%u", to->port);
}

void policy_reason_rule(const struct policy_target *to, const struct policy_rule *r,
			struct policy_answer *ret)
{
	policy_reason_append_target(ret, to);
	policy_reason_append(ret, " is denied by this session's network policy (%s)", r->name);
	if (*r->reason != '\0')
		policy_reason_append(ret, ": %s", r->reason);
}

/* A rule could not be compared with the request, which decided against the request. */
static void policy_reason_against(const struct policy_target *to, const char *why,
				  struct policy_answer *ret)
{
	policy_reason_append_target(ret, to);
	policy_reason_append(ret, " is refused because rules must be compared with the request: %s",
			     why);
}

void policy_reason_plain(const struct policy_target *to, const struct policy_rule *r,
			 struct policy_answer *ret)
{
	policy_reason_append_target(ret, to);
	policy_reason_append(
		ret,
		" is allowed over https only: '%s' puts in a secret, which is never sent "
		"unencrypted",
		r->name);
}

void policy_reason_ceiling(const struct policy_target *to, enum policy_layer layer, const char *why,
			   struct policy_answer *ret)
{
	policy_reason_append_target(ret, to);
	policy_reason_append(
		ret, " is not allowed%s by the %s's policy, which this session's cannot exceed",
		why, policy_layer_names[layer]);
}

void policy_reason_ceiling_raw(const struct policy_target *to, struct policy_answer *ret)
{
	policy_reason_append_target(ret, to);
	policy_reason_append(
		ret,
		" may be reached with TLS or HTTP only: a ceiling above this session's policy does "
		"not allow protocol tcp");
}

void policy_reason_packages(const struct policy_target *to, enum policy_layer layer,
			    struct policy_answer *ret)
{
	policy_reason_append_target(ret, to);
	policy_reason_append(
		ret,
		" cannot be used with tls pass or protocol tcp: the %s's policy judges packages, "
		"so requests must be read",
		policy_layer_names[layer]);
}

void policy_reason_websocket(const struct policy_target *to, const struct policy_rule *r,
			     enum policy_layer layer, struct policy_answer *ret)
{
	policy_reason_append_target(ret, to);
	if (r != NULL)
		policy_reason_append(ret, ": %.40s does not allow WebSocket", r->name);
	else
		policy_reason_append(
			ret,
			": the %s's ceiling inspects requests there, and does not allow WebSockets",
			policy_layer_names[layer]);
}

static size_t policy_reason_shown_length(const struct host_pattern *h)
{
	return h->n + (h->below ? 2 : 0) + 2;
}

/* Add the hosts of an allow rule, as many as fit. False: the reason is full. */
static bool policy_reason_append_hosts(struct policy_answer *a, const struct policy_match *m,
				       bool *first)
{
	for (size_t i = 0; i < m->nhosts; i++) {
		const struct host_pattern *h = &m->hosts[i];

		if (strlen(a->reason) + policy_reason_shown_length(h) +
			    sizeof("; allowed hosts: ...") >=
		    sizeof(a->reason)) {
			if (!*first)
				policy_reason_append(a, ", ...");
			return false;
		}
		policy_reason_append(a, "%s%s%s", *first ? "; allowed hosts: " : ", ",
				     h->any	? "*"
				     : h->below ? "*."
						: "",
				     h->text);
		*first = false;
	}
	return true;
}

/* Is it a host of a listed registry, asked without TLS? */
static bool policy_reason_is_plain_registry(const struct policy *p, const struct policy_target *to,
					    const struct policy_request *q)
{
	struct policy_target over_tls = *to;

	if (to->host == NULL || (q != NULL ? q->tls : to->port != 80))
		return false;
	if (to->port == 80)
		over_tls.port = 443;
	return packages_rules_open(p, &over_tls, NULL, false) != NULL;
}

/* The allowed hosts are listed for connections only: a refused request has reached an allowed
 * host. */
void policy_reason_none(const struct policy *p, const struct policy_target *to,
			const struct policy_request *q, struct policy_answer *ret)
{
	bool first = true;

	policy_reason_append_target(ret, to);
	if (policy_reason_is_plain_registry(p, to, q)) {
		policy_reason_append(
			ret, " is opened for TLS only (packages.registries): plain HTTP needs a "
			     "rule");
		ret->by_registry = true;
		return;
	}
	if (q != NULL) {
		ret->reason[0] = '\0';
		policy_reason_append(ret, "%.20s %.60s%s at ", q->method, q->path,
				     strlen(q->path) > 60 ? "..." : "");
		policy_reason_append(ret, "%.*s", HOST_SHOWN,
				     to->host != NULL ? to->host : "this address");
		policy_reason_append(
			ret, " is not allowed by this session's network policy (no rule for this "
			     "request)");
		return;
	}
	policy_reason_append(ret,
			     " is not allowed by this session's network policy (no rule matches)");
	for (size_t i = 0; i < p->list.n; i++)
		if (p->list.rules[i].allow &&
		    !policy_reason_append_hosts(ret, policy_match_of(&p->list.rules[i]), &first))
			return;
}

/* Does the rule need to see requests, although it matches every request? */
static bool policy_decide_needs_requests(const struct policy_rule *r)
{
	return r->nset > 0 || r->nsecrets > 0 || r->class == POLICY_MODEL ||
	       r->tls == POLICY_TLS_TERMINATE;
}

/* The verdict of a ceiling about a connection. */
static enum policy_verdict policy_decide_ceiling_connect(const struct policy_list *list,
							 const struct policy_target *to,
							 bool any_port)
{
	const struct policy_rule *r;
	struct policy_walk w;
	bool looks = false, may = false;

	policy_list_walk(list, to, any_port, &w);
	while ((r = policy_list_next(&w)) != NULL) {
		const struct policy_match *m = policy_match_of(r);
		/* A question about a name is for all ports: a rule for some ports decides
		 * nothing. */
		bool partial = m->inspects || (any_port && !r->allow && m->nports > 0);

		if (!partial)
			break;
		looks = true;
		may |= r->allow;
	}
	may |= r != NULL && r->allow;
	if (!may)
		return POLICY_REFUSE;
	return looks ? POLICY_INSPECT : POLICY_PERMIT;
}

/* The verdict of all ceilings above a layer, computed when first needed. */
struct above {
	const struct policy *p;
	const struct policy_target *to;
	bool any_port;
	bool known[POLICY_LAYERS];
	enum policy_verdict verdict[POLICY_LAYERS];
	enum policy_layer layer; /* the last layer that refused, or must inspect */
};

/* Ceilings only restrict: one refusal is enough, and one that must inspect is kept. */
static enum policy_verdict policy_decide_find_above(struct above *a, enum policy_layer layer)
{
	enum policy_verdict all = POLICY_PERMIT;

	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++) {
		enum policy_verdict one;

		if (!a->p->ceilings[i].given)
			continue;
		one = policy_decide_ceiling_connect(&a->p->ceilings[i], a->to, a->any_port);
		if (one != POLICY_PERMIT)
			a->layer = (enum policy_layer)i;
		if (one == POLICY_REFUSE)
			return one;
		if (one == POLICY_INSPECT)
			all = one;
	}
	return all;
}

static enum policy_verdict policy_decide_ask_above(struct above *a, enum policy_layer layer)
{
	if (!a->known[layer]) {
		a->verdict[layer] = policy_decide_find_above(a, layer);
		a->known[layer] = true;
	}
	return a->verdict[layer];
}

/* Does a registry open the target, where no rule denies it? */
static bool policy_decide_opens(struct above *a, const char *path)
{
	const struct packages_entry *entry = packages_rules_open(a->p, a->to, path, false);

	return entry != NULL && policy_decide_ask_above(a, entry->layer) != POLICY_REFUSE;
}

void policy_name(const struct policy *p, const char *host, struct policy_answer *ret)
{
	const struct policy_target to = { .host = host };
	struct above above = { .p = p, .to = &to, .any_port = true };
	const struct policy_rule *r, *cut = NULL;
	struct policy_walk w;

	*ret = (struct policy_answer){ .verdict = POLICY_REFUSE };
	policy_list_walk(&p->list, &to, true, &w);
	while ((r = policy_list_next(&w)) != NULL) {
		const struct policy_match *m = policy_match_of(r);

		ret->rule = r;
		if (!r->allow && !m->inspects && m->nports == 0) {
			policy_reason_rule(&to, r, ret);
			/* A ceiling stops a rule before it, so a registry may still open the
			 * host. */
			if (cut != NULL && policy_decide_opens(&above, NULL))
				*ret = (struct policy_answer){ .verdict = POLICY_PERMIT,
							       .by_registry = true };
			return;
		}
		if (!r->allow)
			continue;
		if (policy_decide_ask_above(&above, r->layer) != POLICY_REFUSE) {
			ret->verdict = POLICY_PERMIT;
			return;
		}
		cut = r;
	}
	ret->rule = cut;
	if (policy_decide_opens(&above, NULL))
		*ret = (struct policy_answer){ .verdict = POLICY_PERMIT, .by_registry = true };
	else if (p->allow && policy_decide_ask_above(&above, p->allow_layer) != POLICY_REFUSE)
		*ret = (struct policy_answer){ .verdict = POLICY_PERMIT };
	else if (cut != NULL || p->allow)
		policy_reason_ceiling(&to, above.layer, "", ret);
	else
		policy_reason_none(p, &to, NULL, ret);
}

/* The summary of the rules for a connection. */
struct course {
	const struct policy_rule *first;   /* the first rule that inspects requests */
	const struct policy_rule *decides; /* the first rule that does not, NULL: the default */
	bool may;			   /* a rule that inspects could allow */
};

/* Walk over the rules up to the first that decides without requests. */
static struct course policy_decide_find_course(struct above *above)
{
	struct course c = { 0 };
	const struct policy_rule *r;
	struct policy_walk w;

	policy_list_walk(&above->p->list, above->to, false, &w);
	while ((r = policy_list_next(&w)) != NULL) {
		if (!policy_match_of(r)->inspects)
			break;
		if (c.first == NULL)
			c.first = r;
		c.may = c.may ||
			(r->allow && policy_decide_ask_above(above, r->layer) != POLICY_REFUSE);
	}
	c.decides = r;
	return c;
}

/* Do the bytes of the connection stay unread? */
static bool policy_decide_is_unseen(const struct policy_rule *r)
{
	return r != NULL && (r->raw || r->tls == POLICY_TLS_PASS);
}

/* A ceiling allows names. Bytes of any kind sent to one could be for another host behind it. */
static bool policy_decide_has_ceiling(const struct policy *p, enum policy_layer layer)
{
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++)
		if (p->ceilings[i].given)
			return true;
	return false;
}

/* Decide about a connection that rules permit unread, if there are packages members. */
static enum policy_verdict policy_decide_packages(struct above *above, const struct policy_rule *r,
						  struct policy_answer *ret)
{
	enum policy_layer layer = POLICY_NODE;

	if (packages_rules_read(above->p, above->to, r)) {
		ret->raw = false;
		return POLICY_INSPECT;
	}
	if (!packages_rules_above(above->p, r, &layer))
		return POLICY_PERMIT;
	policy_reason_packages(above->to, layer, ret);
	return POLICY_REFUSE;
}

/* Decide by the rule or default that decides the connection. */
static enum policy_verdict policy_decide_end(struct above *above, const struct policy_rule *r,
					     struct policy_answer *ret)
{
	const struct policy *p = above->p;
	enum policy_layer layer = r != NULL ? r->layer : p->allow_layer;
	enum policy_verdict verdict;

	if (r != NULL && !r->allow) {
		policy_reason_rule(above->to, r, ret);
		return POLICY_REFUSE;
	}
	if (r == NULL && !p->allow) {
		policy_reason_none(p, above->to, NULL, ret);
		return POLICY_REFUSE;
	}
	verdict = policy_decide_ask_above(above, layer);
	ret->raw = (r == NULL || r->raw) && !policy_decide_has_ceiling(p, layer);
	if (verdict == POLICY_PERMIT && r != NULL && r->raw && !ret->raw) {
		policy_reason_ceiling_raw(above->to, ret);
		return POLICY_REFUSE;
	}
	if (verdict == POLICY_INSPECT && policy_decide_is_unseen(r)) {
		policy_reason_ceiling(above->to, above->layer, " without inspecting requests", ret);
		return POLICY_REFUSE;
	}
	if (verdict == POLICY_REFUSE)
		policy_reason_ceiling(above->to, above->layer, "", ret);
	if (verdict == POLICY_PERMIT && r != NULL && policy_decide_needs_requests(r))
		return POLICY_INSPECT;
	return verdict == POLICY_PERMIT ? policy_decide_packages(above, r, ret) : verdict;
}

/* An inspecting rule in front of the deciding one wins, if anything could be allowed. A listed
 * registry opens a host that no rule denies. */
void policy_connect(const struct policy *p, const struct policy_target *to,
		    struct policy_answer *ret)
{
	struct above above = { .p = p, .to = to };
	struct course c = policy_decide_find_course(&above);

	*ret = (struct policy_answer){ .rule = c.decides };
	ret->verdict = policy_decide_end(&above, c.decides, ret);
	if (c.first != NULL && (ret->verdict != POLICY_REFUSE || c.may))
		*ret = (struct policy_answer){ .verdict = POLICY_INSPECT, .rule = c.first };
	else if (ret->verdict == POLICY_REFUSE && (c.decides == NULL || c.decides->allow) &&
		 policy_decide_opens(&above, NULL))
		*ret = (struct policy_answer){ .verdict = POLICY_INSPECT, .by_registry = true };
}

/* The first rule for the request, with everything compared. */
static const struct policy_rule *policy_decide_find_fit(const struct policy_list *list,
							const struct policy_target *to,
							struct policy_seen *q)
{
	const struct policy_rule *r;
	struct policy_walk w;

	policy_list_walk(list, to, false, &w);
	w.seen = q;
	while ((r = policy_list_next(&w)) != NULL)
		if (!w.match->inspects || policy_request_fits(w.match, q))
			return r;
	return NULL;
}

/* The first layer above that does not allow the request. POLICY_LAYERS: none. */
static enum policy_layer policy_decide_find_ceiling(const struct policy *p, enum policy_layer layer,
						    const struct policy_target *to,
						    struct policy_seen *q)
{
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++) {
		const struct policy_rule *r;

		if (!p->ceilings[i].given)
			continue;
		r = policy_decide_find_fit(&p->ceilings[i], to, q);
		if (r == NULL || !r->allow)
			return (enum policy_layer)i;
	}
	return POLICY_LAYERS;
}

/* Does a list inspect requests to the target? The first rule for the target tells: no rule behind
 * one that does not inspect is asked. */
static bool policy_decide_list_inspects(const struct policy_list *list,
					const struct policy_target *to)
{
	const struct policy_rule *r;
	struct policy_walk w;

	policy_list_walk(list, to, false, &w);
	r = policy_list_next(&w);
	return r != NULL && policy_match_of(r)->inspects;
}

static bool policy_decide_any_inspects(const struct policy *p, enum policy_layer layer,
				       const struct policy_target *to)
{
	bool looks = policy_decide_list_inspects(&p->list, to);

	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++)
		looks = looks ||
			(p->ceilings[i].given && policy_decide_list_inspects(&p->ceilings[i], to));
	return looks;
}

/* A WebSocket is one judged request, followed by bytes without a judgement. A ceiling that inspects
 * requests must allow WebSockets explicitly. */
static bool policy_decide_may_upgrade(const struct policy *p, const struct policy_rule *rule,
				      enum policy_layer layer, const struct policy_target *to,
				      struct policy_seen *q, struct policy_answer *ret)
{
	if (rule != NULL && rule->websocket == POLICY_NO) {
		policy_reason_websocket(to, rule, layer, ret);
		return false;
	}
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++) {
		const struct policy_list *list = &p->ceilings[i];
		const struct policy_rule *r =
			list->given ? policy_decide_find_fit(list, to, q) : NULL;

		if (r == NULL || r->websocket == POLICY_YES ||
		    (r->websocket == POLICY_UNSET && !policy_decide_list_inspects(list, to)))
			continue;
		policy_reason_websocket(to, NULL, (enum policy_layer)i, ret);
		return false;
	}
	return true;
}

/* May a listed registry permit the request? No rule decides the request, or a ceiling does not
 * allow its rule. */
static bool policy_decide_ask_registry(const struct policy *p, const struct policy_target *to,
				       struct policy_seen *seen, struct policy_answer *ret)
{
	const struct packages_entry *entry =
		packages_rules_open(p, to, seen->request->path, !seen->request->tls);

	if (entry == NULL || seen->request->websocket ||
	    policy_decide_find_ceiling(p, entry->layer, to, seen) != POLICY_LAYERS)
		return false;
	*ret = (struct policy_answer){ .verdict = POLICY_PERMIT,
				       .inspected = true,
				       .by_registry = true };
	return true;
}

static void policy_decide_ask(const struct policy *p, const struct policy_target *to,
			      struct policy_seen *seen, struct policy_answer *ret)
{
	const struct policy_rule *rule = policy_decide_find_fit(&p->list, to, seen);
	enum policy_layer layer = rule != NULL ? rule->layer : p->allow_layer, above;

	*ret = (struct policy_answer){ .verdict = POLICY_REFUSE, .rule = rule };
	if (rule == NULL && !p->allow) {
		if (!policy_decide_ask_registry(p, to, seen, ret))
			policy_reason_none(p, to, seen->request, ret);
		return;
	}
	if (rule != NULL && !rule->allow) {
		policy_reason_rule(to, rule, ret);
		return;
	}
	above = policy_decide_find_ceiling(p, layer, to, seen);
	if (above != POLICY_LAYERS) {
		if (!policy_decide_ask_registry(p, to, seen, ret))
			policy_reason_ceiling(to, above, "", ret);
	} else if (rule != NULL && rule->nsecrets > 0 && !seen->request->tls) {
		policy_reason_plain(to, rule, ret);
	} else if (!seen->request->websocket ||
		   policy_decide_may_upgrade(p, rule, layer, to, seen, ret)) {
		ret->verdict = POLICY_PERMIT;
		ret->inspected = p->packages != NULL || policy_decide_any_inspects(p, layer, to);
	}
}

void policy_ask(const struct policy *p, const struct policy_target *to,
		const struct policy_request *r, struct policy_answer *ret)
{
	struct policy_seen seen;

	policy_request_see(r, &seen);
	policy_decide_ask(p, to, &seen, ret);
	if (seen.against != NULL && ret->verdict == POLICY_REFUSE)
		policy_reason_against(to, seen.against, ret);
	policy_request_forget(&seen);
}

/* Does a block of private addresses open this address? Services that hand out the keys of the
 * machine are excluded, unless named by their exact address. */
static bool policy_decide_is_named(const struct ip_net *net, const struct ip *ip, enum ip_kind kind)
{
	return ip_net_holds(net, ip) && (kind != IP_METADATA || net->bits == 128);
}

bool policy_reachable(const struct policy *p, const struct ip *ip)
{
	enum ip_kind kind = ip_kind(ip);

	if (kind == IP_PUBLIC)
		return true;
	if (kind == IP_MULTICAST || kind == IP_UNSPECIFIED)
		return false;
	for (size_t i = 0; i < p->nprivate; i++)
		if (policy_decide_is_named(&p->private_nets[i], ip, kind))
			return true;
	return false;
}

bool policy_names(const struct policy *p, const struct ip *ip)
{
	for (size_t i = 0; i < p->nprivate; i++)
		if (p->private_nets[i].bits == 128 && ip_same(&p->private_nets[i].ip, ip))
			return true;
	return false;
}
