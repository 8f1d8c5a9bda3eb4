#include "guest_limits.h"

#include <stdlib.h>

#include "clock.h"

#define MINUTE_NS (60000 * CLOCK_MS)

/* What was used, of the guest or of one rule. Requests are counted by a bucket that holds a
 * minute's worth and fills evenly. */
struct used {
	uint64_t connections, bytes_out, bytes_in;
	uint64_t full_ns; /* when the bucket will be full again */
};

struct rates {
	uint64_t version; /* of the policy */
	size_t nrules;
	struct used guest;
	struct used rules[];
};

int limits_renew(struct guest *g, struct err *e)
{
	size_t n = policy_rules(g->policy);
	struct rates *r = calloc(1, sizeof(*r) + n * sizeof(r->rules[0]));

	if (r == NULL)
		return err_set(e, ERR_SYSTEM, "memory is short");
	if (g->rates != NULL)
		r->guest = g->rates->guest;
	r->version = g->version;
	r->nrules = n;
	limits_free(g->rates);
	g->rates = r;
	return 0;
}

void limits_free(struct rates *r)
{
	free(r);
}

static struct used *used_of(const struct guest *g, const struct policy_rule *rule)
{
	return rule == NULL || rule->number >= g->rates->nrules ? NULL
								: &g->rates->rules[rule->number];
}

static bool room_for_connection(const struct policy_limits *l, const struct used *u)
{
	return l->connections == 0 || u->connections < l->connections;
}

bool limits_connection(struct guest *g, const struct policy_rule *rule, const char **ret_why)
{
	struct used *all = &g->rates->guest, *of_rule = used_of(g, rule);

	*ret_why = "this session has too many connections";
	if (!room_for_connection(policy_limits(g->policy), all))
		return false;
	*ret_why = "the rule's limit of connections is reached";
	if (of_rule != NULL && !room_for_connection(&rule->limits, of_rule))
		return false;
	all->connections++;
	if (of_rule != NULL)
		of_rule->connections++;
	g->counts.connections++;
	return true;
}

void limits_connection_over(struct guest *g, const struct policy_rule *rule, uint64_t version)
{
	struct used *of_rule = version == g->rates->version ? used_of(g, rule) : NULL;

	g->rates->guest.connections--;
	if (of_rule != NULL && of_rule->connections > 0)
		of_rule->connections--;
}

static bool take_request(const struct policy_limits *l, struct used *u, uint64_t now)
{
	uint64_t each;

	if (l->requests_per_minute == 0)
		return true;
	each = MINUTE_NS / l->requests_per_minute;
	if (u->full_ns < now)
		u->full_ns = now;
	if (u->full_ns - now + each > MINUTE_NS)
		return false;
	u->full_ns += each;
	return true;
}

bool limits_request(struct guest *g, const struct policy_rule *rule, const char **ret_why)
{
	uint64_t now = loop_now_ns(g->egress->loop);
	struct used *of_rule = used_of(g, rule);

	*ret_why = "the rule's limit of requests per minute is reached";
	if (of_rule != NULL && !take_request(&rule->limits, of_rule, now))
		return false;
	*ret_why = "this session's limit of requests per minute is reached";
	if (!take_request(policy_limits(g->policy), &g->rates->guest, now))
		return false;
	g->counts.requests++;
	return true;
}

static bool add_bytes(const struct policy_limits *l, struct used *u, uint64_t out, uint64_t in)
{
	u->bytes_out += out;
	u->bytes_in += in;
	return (l->bytes_out == 0 || u->bytes_out <= l->bytes_out) &&
	       (l->bytes_in == 0 || u->bytes_in <= l->bytes_in);
}

bool limits_bytes(struct guest *g, const struct policy_rule *rule, uint64_t out, uint64_t in,
		  const char **ret_why)
{
	struct used *of_rule = used_of(g, rule);
	bool fits = of_rule == NULL || add_bytes(&rule->limits, of_rule, out, in);

	g->counts.bytes_out += out;
	g->counts.bytes_in += in;
	*ret_why = "the rule's limit of bytes is reached";
	if (add_bytes(policy_limits(g->policy), &g->rates->guest, out, in))
		return fits;
	*ret_why = "this session's limit of bytes is reached";
	return false;
}
