#include "egress/flow/endpoint.h"

#include <stdio.h>
#include <string.h>

#include "egress/dns/synthetic_names.h"

void endpoint_at(struct synthetic_names *names, const struct ip *ip, uint16_t port,
		 struct endpoint *ret)
{
	const char *name;

	*ret = (struct endpoint){ .ip = *ip, .port = port };
	if (!synthetic_names_is_synthetic(ip))
		return;
	name = synthetic_names_is_listener(ip) ? NULL : synthetic_names_find(names, ip);
	if (name)
		memcpy(ret->host, name, strlen(name) + 1);
	else
		ret->no_name = true;
}

/* Remove ":80" from the end of s. -1: malformed, or missing without a default. */
static int take_port(struct http1_span *s, uint16_t default_port, uint16_t *ret)
{
	const char *colon = s->n > 0 ? memrchr(s->p, ':', s->n) : NULL;
	const char *bracket = s->n > 0 ? memrchr(s->p, ']', s->n) : NULL;
	const char *end = s->p + s->n;
	unsigned long value = 0;

	*ret = default_port;
	if (!colon || (bracket && bracket > colon))
		return default_port > 0 ? 0 : -1;
	if (end - colon < 2 || end - colon > 6)
		return -1;
	for (const char *c = colon + 1; c < end; c++) {
		if (*c < '0' || *c > '9')
			return -1;
		value = value * 10 + (unsigned long)(*c - '0');
	}
	if (value == 0 || value > UINT16_MAX)
		return -1;
	s->n = (size_t)(colon - s->p);
	*ret = (uint16_t)value;
	return 0;
}

int endpoint_read(struct synthetic_names *names, struct http1_span host_port, uint16_t default_port,
		  struct endpoint *ret, const char **ret_why)
{
	struct http1_span s = host_port;
	uint16_t port;
	struct ip ip;

	*ret_why = "the host has no port, or a malformed one";
	if (take_port(&s, default_port, &port) < 0)
		return -1;
	if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']') {
		s = (struct http1_span){ s.p + 1, s.n - 2 };
		*ret_why = "the host is not an address";
		if (!memchr(s.p, ':', s.n) || ip_read(s.p, s.n, &ip) < 0)
			return -1;
		endpoint_at(names, &ip, port, ret);
		return 0;
	}
	if (s.n > 0 && ip_read(s.p, s.n, &ip) == 0 && ip_is_v4(&ip)) {
		endpoint_at(names, &ip, port, ret);
		return 0;
	}
	*ret = (struct endpoint){ .port = port, .by_name = true };
	*ret_why = "the host is neither a name nor an address in its usual form";
	return host_normal(s.p, s.n, ret->host);
}

struct policy_target endpoint_target(const struct endpoint *p)
{
	return (struct policy_target){ .host = p->host[0] ? p->host : NULL,
				       .ip = p->ip,
				       .port = p->port };
}

void endpoint_name(const struct endpoint *p, char ret[HOST_MAX])
{
	if (p->host[0])
		memcpy(ret, p->host, strlen(p->host) + 1);
	else
		ip_format(&p->ip, ret);
}

void endpoint_host(const struct endpoint *p, bool tls, char ret[ENDPOINT_HOST_MAX])
{
	char name[HOST_MAX];
	bool brackets = !p->host[0] && !ip_is_v4(&p->ip);

	endpoint_name(p, name);
	if (p->port == (tls ? 443 : 80))
		(void)snprintf(ret, ENDPOINT_HOST_MAX, brackets ? "[%s]" : "%s", name);
	else
		(void)snprintf(ret, ENDPOINT_HOST_MAX, brackets ? "[%s]:%u" : "%s:%u", name,
			       p->port);
}

bool endpoint_same(const struct endpoint *a, const struct endpoint *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0 &&
	       (a->host[0] || ip_same(&a->ip, &b->ip));
}
