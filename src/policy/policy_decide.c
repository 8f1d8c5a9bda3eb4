/* policy_decide.c - theory of operation
 *
 * Decides about names, connections and requests; called by cordon-egress (dns.c, flow.c,
 * gateway_judge.c) and by `cordon policy explain`. Nothing here allocates or fails.
 *
 * There are three questions, and one order of rules. A name exists if a rule that allows something
 * there comes before one that denies all of it. A connection is decided by the first rule for its
 * host and port that does not inspect requests; if a rule that does comes before it, and anything
 * can be allowed at all, requests must be inspected. A request is decided by the first rule that
 * matches all of it.
 *
 * What a lower layer allows must also be allowed by the ceilings of the layers above, which are
 * lists of the same kind. Whatever is not clearly allowed is refused.
 *
 * Where no rule denies, the registries of packages members allow their hosts (packages_rules.c). */
#include "policy_private.h"

#include <string.h>

#include "packages_private.h"

static bool needs_requests(const struct policy_rule *r)
{
	return r->nset > 0 || r->nsecrets > 0 || r->class == POLICY_MODEL ||
	       r->tls == POLICY_TLS_TERMINATE;
}

/* The verdict of a ceiling about a connection. */
static enum policy_verdict ceiling_connect(const struct policy_list *list,
					   const struct policy_target *to, bool any_port)
{
	const struct policy_rule *r;
	struct policy_walk w;
	bool looks = false, may = false;

	policy_list_walk(list, to, any_port, &w);
	while ((r = policy_list_next(&w)) != NULL) {
		const struct policy_match *m = policy_match_of(r);
		/* A name is about all ports: a rule for some of them decides nothing. */
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

/* The verdict of all ceilings above a layer, found when it is first needed. */
struct above {
	const struct policy *p;
	const struct policy_target *to;
	bool any_port;
	bool known[POLICY_LAYERS];
	enum policy_verdict verdict[POLICY_LAYERS];
	enum policy_layer layer; /* the last one that refused, or must inspect */
};

static enum policy_verdict find_above(struct above *a, enum policy_layer layer)
{
	enum policy_verdict all = POLICY_PERMIT;

	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++) {
		enum policy_verdict one;

		if (!a->p->ceilings[i].given)
			continue;
		one = ceiling_connect(&a->p->ceilings[i], a->to, a->any_port);
		if (one != POLICY_PERMIT)
			a->layer = (enum policy_layer)i;
		if (one == POLICY_REFUSE)
			return one;
		if (one == POLICY_INSPECT)
			all = one;
	}
	return all;
}

static enum policy_verdict ask_above(struct above *a, enum policy_layer layer)
{
	if (!a->known[layer]) {
		a->verdict[layer] = find_above(a, layer);
		a->known[layer] = true;
	}
	return a->verdict[layer];
}

/* Does a registry open the target, where no rule denies it? */
static bool opens(struct above *a, const char *path)
{
	const struct packages_entry *entry = packages_rules_open(a->p, a->to, path, false);

	return entry != NULL && ask_above(a, entry->layer) != POLICY_REFUSE;
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
			/* A rule before it, which a ceiling stops, may leave it to a registry. */
			if (cut != NULL && opens(&above, NULL))
				*ret = (struct policy_answer){ .verdict = POLICY_PERMIT,
							       .by_registry = true };
			return;
		}
		if (!r->allow)
			continue;
		if (ask_above(&above, r->layer) != POLICY_REFUSE) {
			ret->verdict = POLICY_PERMIT;
			return;
		}
		cut = r;
	}
	ret->rule = cut;
	if (opens(&above, NULL))
		*ret = (struct policy_answer){ .verdict = POLICY_PERMIT, .by_registry = true };
	else if (p->allow && ask_above(&above, p->allow_layer) != POLICY_REFUSE)
		*ret = (struct policy_answer){ .verdict = POLICY_PERMIT };
	else if (cut != NULL || p->allow)
		policy_reason_ceiling(&to, above.layer, "", ret);
	else
		policy_reason_none(p, &to, NULL, ret);
}

/* The rules for a connection, summed up. */
struct course {
	const struct policy_rule *first;   /* the first that inspects requests */
	const struct policy_rule *decides; /* the first that does not; NULL: the default */
	bool may;			   /* one that inspects could allow */
};

static struct course find_course(struct above *above)
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
		c.may = c.may || (r->allow && ask_above(above, r->layer) != POLICY_REFUSE);
	}
	c.decides = r;
	return c;
}

static bool is_unseen(const struct policy_rule *r)
{
	return r != NULL && (r->raw || r->tls == POLICY_TLS_PASS);
}

/* A ceiling allows names; bytes of any kind sent to one could be meant for another host behind it.
 */
static bool has_ceiling(const struct policy *p, enum policy_layer layer)
{
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++)
		if (p->ceilings[i].given)
			return true;
	return false;
}

/* The verdict about a connection that rules permit unread, if there are packages members. */
static enum policy_verdict decide_packages(struct above *above, const struct policy_rule *r,
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

/* The verdict of the rule or default that decides the connection. */
static enum policy_verdict decide_end(struct above *above, const struct policy_rule *r,
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
	verdict = ask_above(above, layer);
	ret->raw = (r == NULL || r->raw) && !has_ceiling(p, layer);
	if (verdict == POLICY_PERMIT && r != NULL && r->raw && !ret->raw) {
		policy_reason_ceiling_raw(above->to, ret);
		return POLICY_REFUSE;
	}
	if (verdict == POLICY_INSPECT && is_unseen(r)) {
		policy_reason_ceiling(above->to, above->layer, " without inspecting requests", ret);
		return POLICY_REFUSE;
	}
	if (verdict == POLICY_REFUSE)
		policy_reason_ceiling(above->to, above->layer, "", ret);
	if (verdict == POLICY_PERMIT && r != NULL && needs_requests(r))
		return POLICY_INSPECT;
	return verdict == POLICY_PERMIT ? decide_packages(above, r, ret) : verdict;
}

void policy_connect(const struct policy *p, const struct policy_target *to,
		    struct policy_answer *ret)
{
	struct above above = { .p = p, .to = to };
	struct course c = find_course(&above);

	*ret = (struct policy_answer){ .rule = c.decides };
	ret->verdict = decide_end(&above, c.decides, ret);
	if (c.first != NULL && (ret->verdict != POLICY_REFUSE || c.may))
		*ret = (struct policy_answer){ .verdict = POLICY_INSPECT, .rule = c.first };
	else if (ret->verdict == POLICY_REFUSE && (c.decides == NULL || c.decides->allow) &&
		 opens(&above, NULL))
		*ret = (struct policy_answer){ .verdict = POLICY_INSPECT, .by_registry = true };
}

static const struct policy_rule *find_fit(const struct policy_list *list,
					  const struct policy_target *to, struct policy_seen *q)
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

/* The first layer above that does not allow it; POLICY_LAYERS: none. */
static enum policy_layer find_ceiling(const struct policy *p, enum policy_layer layer,
				      const struct policy_target *to, struct policy_seen *q)
{
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++) {
		const struct policy_rule *r;

		if (!p->ceilings[i].given)
			continue;
		r = find_fit(&p->ceilings[i], to, q);
		if (r == NULL || !r->allow)
			return (enum policy_layer)i;
	}
	return POLICY_LAYERS;
}

/* Does a list inspect requests to the target? The first rule for the target decides: after one that
 * does not inspect, no other is asked. */
static bool list_inspects(const struct policy_list *list, const struct policy_target *to)
{
	const struct policy_rule *r;
	struct policy_walk w;

	policy_list_walk(list, to, false, &w);
	r = policy_list_next(&w);
	return r != NULL && policy_match_of(r)->inspects;
}

static bool any_inspects(const struct policy *p, enum policy_layer layer,
			 const struct policy_target *to)
{
	bool looks = list_inspects(&p->list, to);

	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++)
		looks = looks || (p->ceilings[i].given && list_inspects(&p->ceilings[i], to));
	return looks;
}

/* A WebSocket is one request that was judged, and then bytes that are not. A ceiling that inspects
 * requests must allow WebSockets explicitly. */
static bool may_upgrade(const struct policy *p, const struct policy_rule *rule,
			enum policy_layer layer, const struct policy_target *to,
			struct policy_seen *q, struct policy_answer *ret)
{
	if (rule != NULL && rule->websocket == POLICY_NO) {
		policy_reason_websocket(to, rule, layer, ret);
		return false;
	}
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++) {
		const struct policy_list *list = &p->ceilings[i];
		const struct policy_rule *r = list->given ? find_fit(list, to, q) : NULL;

		if (r == NULL || r->websocket == POLICY_YES ||
		    (r->websocket == POLICY_UNSET && !list_inspects(list, to)))
			continue;
		policy_reason_websocket(to, NULL, (enum policy_layer)i, ret);
		return false;
	}
	return true;
}

/* A request that no rule decides, or whose rule a ceiling does not allow. */
static bool ask_registry(const struct policy *p, const struct policy_target *to,
			 struct policy_seen *seen, struct policy_answer *ret)
{
	const struct packages_entry *entry =
		packages_rules_open(p, to, seen->request->path, !seen->request->tls);

	if (entry == NULL || seen->request->websocket ||
	    find_ceiling(p, entry->layer, to, seen) != POLICY_LAYERS)
		return false;
	*ret = (struct policy_answer){ .verdict = POLICY_PERMIT,
				       .inspected = true,
				       .by_registry = true };
	return true;
}

static void ask(const struct policy *p, const struct policy_target *to, struct policy_seen *seen,
		struct policy_answer *ret)
{
	const struct policy_rule *rule = find_fit(&p->list, to, seen);
	enum policy_layer layer = rule != NULL ? rule->layer : p->allow_layer, above;

	*ret = (struct policy_answer){ .verdict = POLICY_REFUSE, .rule = rule };
	if (rule == NULL && !p->allow) {
		if (!ask_registry(p, to, seen, ret))
			policy_reason_none(p, to, seen->request, ret);
		return;
	}
	if (rule != NULL && !rule->allow) {
		policy_reason_rule(to, rule, ret);
		return;
	}
	above = find_ceiling(p, layer, to, seen);
	if (above != POLICY_LAYERS) {
		if (!ask_registry(p, to, seen, ret))
			policy_reason_ceiling(to, above, "", ret);
	} else if (rule != NULL && rule->nsecrets > 0 && !seen->request->tls) {
		policy_reason_plain(to, rule, ret);
	} else if (!seen->request->websocket || may_upgrade(p, rule, layer, to, seen, ret)) {
		ret->verdict = POLICY_PERMIT;
		ret->inspected = p->packages != NULL || any_inspects(p, layer, to);
	}
}

void policy_ask(const struct policy *p, const struct policy_target *to,
		const struct policy_request *r, struct policy_answer *ret)
{
	struct policy_seen seen;

	policy_request_see(r, &seen);
	ask(p, to, &seen, ret);
	policy_request_forget(&seen);
}

/* A block of private addresses does not include services that hand out the keys of the machine:
 * those must be named by their exact address. */
static bool is_named(const struct ip_net *net, const struct ip *ip, enum ip_kind kind)
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
		if (is_named(&p->private_nets[i], ip, kind))
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
