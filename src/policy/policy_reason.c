/* policy_reason.c - theory of operation
 *
 * Writes the reason of a refusal; called by policy_decide.c. It is read by an agent, which may
 * otherwise try the next way: each says what was refused, by which rule, and what is allowed
 * instead. It never contains values of a policy's headers or secrets. */
#include "policy_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "packages_private.h"

#define HOST_SHOWN 100

static void append(struct policy_answer *a, const char *fmt, ...) PRINTF(2, 3);

/* Adds to the reason; cut if it does not fit. */
static void append(struct policy_answer *a, const char *fmt, ...)
{
	size_t n = strlen(a->reason);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(a->reason + n, sizeof(a->reason) - n, fmt, ap);
	va_end(ap);
}

static void append_target(struct policy_answer *a, const struct policy_target *to)
{
	char text[IP_TEXT_MAX];

	a->reason[0] = '\0';
	if (to->host != NULL) {
		append(a, "%.*s%s", HOST_SHOWN, to->host,
		       strlen(to->host) > HOST_SHOWN ? "..." : "");
	} else {
		ip_format(&to->ip, text);
		append(a, ip_is_v4(&to->ip) ? "%s" : "[%s]", text);
	}
	if (to->port != 0)
		append(a, ":%u", to->port);
}

void policy_reason_rule(const struct policy_target *to, const struct policy_rule *r,
			struct policy_answer *ret)
{
	append_target(ret, to);
	append(ret, " is denied by this session's network policy (%s)", r->name);
	if (*r->reason != '\0')
		append(ret, ": %s", r->reason);
}

void policy_reason_plain(const struct policy_target *to, const struct policy_rule *r,
			 struct policy_answer *ret)
{
	append_target(ret, to);
	append(ret,
	       " is allowed over https only: '%s' puts in a secret, which is never sent "
	       "unencrypted",
	       r->name);
}

void policy_reason_ceiling(const struct policy_target *to, enum policy_layer layer, const char *why,
			   struct policy_answer *ret)
{
	append_target(ret, to);
	append(ret, " is not allowed%s by the %s's policy, which this session's cannot exceed", why,
	       policy_layer_names[layer]);
}

void policy_reason_ceiling_raw(const struct policy_target *to, struct policy_answer *ret)
{
	append_target(ret, to);
	append(ret,
	       " may be reached with TLS or HTTP only: a ceiling above this session's policy does "
	       "not allow protocol tcp");
}

void policy_reason_packages(const struct policy_target *to, enum policy_layer layer,
			    struct policy_answer *ret)
{
	append_target(ret, to);
	append(ret,
	       " cannot be used with tls pass or protocol tcp: the %s's policy judges packages, "
	       "so requests must be read",
	       policy_layer_names[layer]);
}

void policy_reason_websocket(const struct policy_target *to, const struct policy_rule *r,
			     enum policy_layer layer, struct policy_answer *ret)
{
	append_target(ret, to);
	if (r != NULL)
		append(ret, ": %.40s does not allow WebSocket", r->name);
	else
		append(ret,
		       ": the %s's ceiling inspects requests there, and does not allow WebSockets",
		       policy_layer_names[layer]);
}

static size_t shown_length(const struct host_pattern *h)
{
	return h->n + (h->below ? 2 : 0) + 2;
}

/* Adds the hosts of rules that allow, as many as there is room for. False: no more. */
static bool append_hosts(struct policy_answer *a, const struct policy_match *m, bool *first)
{
	for (size_t i = 0; i < m->nhosts; i++) {
		const struct host_pattern *h = &m->hosts[i];

		if (strlen(a->reason) + shown_length(h) + sizeof("; allowed hosts: ...") >=
		    sizeof(a->reason)) {
			if (!*first)
				append(a, ", ...");
			return false;
		}
		append(a, "%s%s%s", *first ? "; allowed hosts: " : ", ",
		       h->any	  ? "*"
		       : h->below ? "*."
				  : "",
		       h->text);
		*first = false;
	}
	return true;
}

/* A host of a listed registry, asked without TLS. */
static bool is_plain_registry(const struct policy *p, const struct policy_target *to,
			      const struct policy_request *q)
{
	struct policy_target over_tls = *to;

	if (to->host == NULL || (q != NULL ? q->tls : to->port != 80))
		return false;
	if (to->port == 80)
		over_tls.port = 443;
	return packages_rules_open(p, &over_tls, NULL, false) != NULL;
}

void policy_reason_none(const struct policy *p, const struct policy_target *to,
			const struct policy_request *q, struct policy_answer *ret)
{
	bool first = true;

	append_target(ret, to);
	if (is_plain_registry(p, to, q)) {
		append(ret, " is opened for TLS only (packages.registries): plain HTTP needs a "
			    "rule");
		ret->by_registry = true;
		return;
	}
	if (q != NULL) {
		ret->reason[0] = '\0';
		append(ret, "%.20s %.60s%s at ", q->method, q->path,
		       strlen(q->path) > 60 ? "..." : "");
		append(ret, "%.*s", HOST_SHOWN, to->host != NULL ? to->host : "this address");
		append(ret, " is not allowed by this session's network policy (no rule for this "
			    "request)");
		return;
	}
	append(ret, " is not allowed by this session's network policy (no rule matches)");
	for (size_t i = 0; i < p->list.n; i++)
		if (p->list.rules[i].allow &&
		    !append_hosts(ret, policy_match_of(&p->list.rules[i]), &first))
			return;
}
