/* policy_proxy.c - the member "proxy" of a document: a SOCKS5 proxy that egress connects through.
 * Called by policy_read.c after rules and ceilings were read, since a layer above may deny the
 * proxy. The password stays in the document and is never shown (policy_select.c). */
#include "lib/policy/policy_private.h"

#include <string.h>

/* Read "name:1080", "192.0.2.1:1080" or "[2001:db8::1]:1080". */
static int read_address(struct policy *p, const char *text, struct err *e)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon == NULL ? 0 : (size_t)(colon - text);
	size_t digits = colon == NULL ? 0 : strspn(colon + 1, "0123456789");
	char *host = policy_alloc(p, HOST_MAX, 1);
	struct ip ip;

	if (host == NULL)
		return policy_no_memory(e);
	if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	} else if (memchr(text, ':', n) != NULL) {
		n = 0; /* an IPv6 address without brackets: its end is ambiguous */
	}
	if (n == 0 || n >= HOST_MAX || digits == 0 || digits > 5 || colon[1 + digits] != '\0' ||
	    strtoul(colon + 1, NULL, 10) == 0 || strtoul(colon + 1, NULL, 10) > 65535)
		return policy_value_fail(e, "proxy", "address", "must be HOST:PORT");
	if (ip_read(text, n, &ip) == 0) {
		memcpy(host, text, n);
	} else if (host_normal(text, n, host) < 0) {
		return policy_value_fail(e, "proxy", "address", "must be HOST:PORT");
	}
	p->proxy.host = host;
	p->proxy.port = (uint16_t)strtoul(colon + 1, NULL, 10);
	return 0;
}

static int policy_proxy_refuse(enum policy_layer layer, struct err *e)
{
	return err_set(e, ERR_DENIED, "proxy: the %s's policy does not allow it",
		       policy_layer_names[layer]);
}

/* A proxy denied by a layer above stays denied. */
static int check_rules(const struct policy *p, const struct policy_target *to,
		       enum policy_layer layer, struct err *e)
{
	const struct policy_rule *r;
	struct policy_walk w;

	policy_list_walk(&p->list, to, false, &w);
	while ((r = policy_list_next(&w)) != NULL && r->layer < layer) {
		if (policy_match_of(r)->inspects)
			continue;
		return r->allow ? 0 : policy_proxy_refuse(r->layer, e);
	}
	return 0;
}

/* All connections go to the proxy first, so every layer above must allow it. */
static int check_above(const struct policy *p, enum policy_layer layer, struct err *e)
{
	struct policy_target to = { .host = p->proxy.host, .port = p->proxy.port };

	if (ip_read(p->proxy.host, strlen(p->proxy.host), &to.ip) == 0)
		to.host = NULL;
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)layer; i++) {
		const struct policy_rule *r;
		struct policy_walk w;

		if (!p->ceilings[i].given)
			continue;
		policy_list_walk(&p->ceilings[i], &to, false, &w);
		r = policy_list_next(&w);
		if (r == NULL || !r->allow || policy_match_of(r)->inspects)
			return policy_proxy_refuse((enum policy_layer)i, e);
	}
	return check_rules(p, &to, layer, e);
}

/* Only a merged document tells the layer of its proxy. */
int policy_proxy_read(struct policy *p, const json_t *v, enum policy_layer layer, struct err *e)
{
	static const char *const members[] = { "address", "username", "password", "layer" };
	const char *address = NULL;
	size_t found = layer;

	if (v == NULL)
		return 0;
	p->proxy.user = p->proxy.password = "";
	if (policy_value_known(v, members, p->merged ? COUNT(members) : COUNT(members) - 1, "proxy",
			       e) < 0 ||
	    policy_value_text(json_object_get(v, "address"), 300, "proxy", "address", &address, e) <
		    0 ||
	    policy_value_text(json_object_get(v, "username"), 255, "proxy", "username",
			      &p->proxy.user, e) < 0 ||
	    policy_value_text(json_object_get(v, "password"), 255, "proxy", "password",
			      &p->proxy.password, e) < 0 ||
	    policy_value_word(json_object_get(v, "layer"), policy_layer_names, POLICY_LAYERS,
			      "proxy", "layer", &found, e) < 0)
		return -1;
	if (address == NULL)
		return policy_value_fail(e, "proxy", "address", "is missing");
	if ((*p->proxy.user == '\0') != (*p->proxy.password == '\0'))
		return policy_value_fail(e, "proxy", "",
					 "needs both username and password, or none");
	if (read_address(p, address, e) < 0)
		return -1;
	p->proxy.layer = (enum policy_layer)found;
	return check_above(p, p->proxy.layer, e);
}

const struct policy_proxy *policy_proxy(const struct policy *p)
{
	return &p->proxy;
}
