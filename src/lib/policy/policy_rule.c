/* policy_rule.c - theory of operation
 *
 * Reads one rule. Called by policy_read.c. A rule is an object, or one text for the most common
 * kind, expanded to an object first. policy_rule.c reads its conditions,
 * policy_rule.c its effects. This file reads the members that both need, and checks for
 * contradictions: a member without effect is an error. */
#include "lib/policy/policy_private.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/policy/fold.h"
#include "lib/policy/glob.h"
#include "lib/policy/path.h"

/* ---- the effects of a rule on requests that it allows: headers to set, secrets
 * to put in, limits, and records of prompts. Called by policy_rule.c. */

#define SECRET_NAME_MAX 64
#define SETS_MAX 32

/* The names of secrets consist of these. */
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";

static bool policy_rule_effects_is_secret_name(const char *text, size_t n)
{
	return n > 0 && n <= SECRET_NAME_MAX && strspn(text, letters) >= n;
}

/* May a rule set this header? The gateway writes framing and headers of one connection, and Host
 * selected the rule. */
static bool policy_rule_effects_may_be_set(const char *name)
{
	static const char *const ours[] = { "host",	  "content-length", "transfer-encoding",
					    "connection", "keep-alive",	    "upgrade",
					    "te",	  "trailer",	    "expect" };

	for (size_t i = 0; i < COUNT(ours); i++)
		if (strcasecmp(name, ours[i]) == 0)
			return false;
	return strncasecmp(name, "proxy-", 6) != 0 && http1_is_token(name, strlen(name));
}

/* Find the names in "${secret.NAME}", at most cap of them. -1: malformed. */
static int policy_rule_effects_find_secrets(const char *value, struct http1_span *ret, size_t cap)
{
	static const char head[] = "${secret.";
	size_t n = 0;

	while ((value = strstr(value, "${")) != NULL) {
		const char *name = value + sizeof(head) - 1;
		size_t len;

		if (strncmp(value, head, sizeof(head) - 1) != 0)
			return -1;
		len = strcspn(name, "}");
		if (name[len] != '}' || !policy_rule_effects_is_secret_name(name, len) || n == cap)
			return -1;
		ret[n++] = (struct http1_span){ name, len };
		value = name + len;
	}
	return (int)n;
}

static bool policy_rule_effects_has_secret(const char *const *names, size_t n,
					   struct http1_span name)
{
	for (size_t i = 0; i < n; i++)
		if (http1_span_is(name, names[i]))
			return true;
	return false;
}

/* Allow the rule every secret that one of its headers names. */
static int policy_rule_effects_add_secrets(struct policy *p, const char *value, const char *at,
					   const char **names, size_t *n, struct err *e)
{
	struct http1_span found[8];
	int count = policy_rule_effects_find_secrets(value, found, COUNT(found));

	if (count < 0)
		return policy_value_fail(e, at, "set_headers",
					 "what begins with ${ must be "
					 "${secret.NAME}, at most 8 times");
	for (int i = 0; i < count; i++) {
		char *copy;

		if (policy_rule_effects_has_secret(names, *n, found[i]))
			continue;
		if (*n == POLICY_ITEMS_MAX)
			return policy_value_fail(e, at, "secret", "too many secrets");
		copy = policy_alloc(p, found[i].n + 1, 1);
		if (copy == NULL)
			return policy_no_memory(e);
		memcpy(copy, found[i].p, found[i].n);
		names[(*n)++] = copy;
	}
	return 0;
}

static int policy_rule_effects_read_secrets(struct policy *p, const json_t *v, const char *at,
					    const char **names, size_t *n, struct err *e)
{
	const char *const *given = NULL;

	if (policy_value_texts(p, v, SECRET_NAME_MAX, at, "secret", &given, n, e) < 0)
		return -1;
	for (size_t i = 0; i < *n; i++) {
		if (!policy_rule_effects_is_secret_name(given[i], strlen(given[i])))
			return policy_value_fail(e, at, "secret",
						 "'%s' is not the name of a secret", given[i]);
		names[i] = given[i];
	}
	return 0;
}

static int policy_rule_effects_read_sets(struct policy *p, json_t *v, const char *at,
					 struct policy_rule *r, const char **names, size_t *n,
					 struct err *e)
{
	struct policy_header *set;
	const char *key;
	json_t *value;

	if (v == NULL)
		return 0;
	if (!json_is_object(v) || json_object_size(v) == 0 || json_object_size(v) > SETS_MAX)
		return policy_value_fail(e, at, "set_headers",
					 "must be an object of 1 to %d headers", SETS_MAX);
	set = policy_alloc(p, json_object_size(v), sizeof(*set));
	if (set == NULL)
		return policy_no_memory(e);
	r->set = set;
	json_object_foreach(v, key, value)
	{
		const char *text = json_string_value(value);

		if (!policy_rule_effects_may_be_set(key))
			return policy_value_fail(e, at, "set_headers", "'%.60s' cannot be set",
						 key);
		if (text == NULL || strlen(text) > 4096 || !http1_is_value(text, strlen(text)))
			return policy_value_fail(
				e, at, "set_headers",
				"'%.60s' has a value that is not allowed in a header", key);
		if (policy_rule_effects_add_secrets(p, text, at, names, n, e) < 0)
			return -1;
		set[r->nset++] = (struct policy_header){ .name = key, .value = text };
	}
	return 0;
}

/* names is shared: the member secret is read into it first, then secrets named in headers. */
int policy_rule_effects(struct policy *p, const json_t *v, const char *at, struct policy_rule *r,
			struct err *e)
{
	json_t *secret = json_object_get(v, "secret"), *set = json_object_get(v, "set_headers");
	const char **names = NULL;

	if (policy_value_limits(json_object_get(v, "limits"), at, &r->limits, e) < 0 ||
	    policy_value_bool(json_object_get(v, "prompts"), at, "prompts", &r->prompts, e) < 0)
		return -1;
	if (r->prompts && r->class != POLICY_MODEL)
		return policy_value_fail(e, at, "prompts",
					 "is allowed in rules of class model only");
	if (secret == NULL && set == NULL)
		return 0;
	names = policy_alloc(p, POLICY_ITEMS_MAX, sizeof(*names));
	if (names == NULL)
		return policy_no_memory(e);
	r->secrets = names;
	return policy_rule_effects_read_secrets(p, secret, at, names, &r->nsecrets, e) < 0 ||
			       policy_rule_effects_read_sets(p, set, at, r, names, &r->nsecrets,
							     e) < 0
		       ? -1
		       : 0;
}

/* ---- the conditions of a rule: hosts, blocks of addresses, ports, methods,
 * paths, query and headers. Called by policy_rule.c. Texts must be in the normal form that
 * decisions compare. Data compared for every request is prepared here (first bytes of paths, blocks
 * in words). */

/* Bound the hosts of the whole document, because each costs an entry in the index. */
static int policy_rule_match_read_hosts(struct policy *p, const json_t *v, const char *at,
					struct policy_match *m, struct err *e)
{
	const char *const *texts = NULL;
	struct host_pattern *hosts;
	size_t n = 0;

	if (v == NULL)
		return 0;
	if (policy_value_texts(p, v, 512, at, "host", &texts, &n, e) < 0)
		return -1;
	p->hosts += n;
	if (p->hosts > POLICY_HOSTS_MAX)
		return policy_value_fail(e, at, "host", "more than %d hosts in one document",
					 POLICY_HOSTS_MAX);
	hosts = policy_alloc(p, n, sizeof(*hosts));
	if (hosts == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < n; i++)
		if (host_pattern_read(texts[i], &hosts[i]) < 0)
			return policy_value_fail(
				e, at, "host",
				strstr(texts[i], "://") != NULL
					? "'%.80s' is a URL: leave out https:// and the path"
					: "'%.80s' is neither a name nor *.NAME nor * "
					  "(addresses belong to cidr, other scripts to xn--)",
				texts[i]);
	m->hosts = hosts;
	m->nhosts = n;
	return 0;
}

static bool policy_rule_match_is_port(const json_t *v)
{
	return json_is_integer(v) && json_integer_value(v) >= 1 && json_integer_value(v) <= 65535;
}

/* Read PORT or [FIRST, LAST]. */
static bool policy_rule_match_read_range(const json_t *v, struct policy_ports *ret)
{
	const json_t *first = v, *last = v;

	if (json_is_array(v) && json_array_size(v) == 2) {
		first = json_array_get(v, 0);
		last = json_array_get(v, 1);
	}
	if (!policy_rule_match_is_port(first) || !policy_rule_match_is_port(last))
		return false;
	ret->first = (uint16_t)json_integer_value(first);
	ret->last = (uint16_t)json_integer_value(last);
	return ret->first <= ret->last;
}

/* Without ports, a rule that allows opens the ports of the web only. A rule that denies denies all
 * ports. */
static int policy_rule_match_read_ports(struct policy *p, const json_t *v, const char *at,
					bool allow, struct policy_match *m, struct err *e)
{
	static const struct policy_ports web[] = { { 80, 80 }, { 443, 443 } };
	const char *word = json_string_value(v);
	size_t n = json_array_size(v);
	struct policy_ports *ports;

	if (v == NULL && allow) {
		m->ports = web;
		m->nports = COUNT(web);
	}
	if (v == NULL || (word != NULL && strcmp(word, "any") == 0))
		return 0;
	if (!json_is_array(v) || n == 0 || n > POLICY_ITEMS_MAX)
		return policy_value_fail(e, at, "ports",
					 "must be \"any\" or a list of ports and "
					 "[first, last]");
	ports = policy_alloc(p, n, sizeof(*ports));
	if (ports == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < n; i++)
		if (!policy_rule_match_read_range(json_array_get(v, i), &ports[i]))
			return policy_value_fail(e, at, "ports",
						 "item %zu is neither a port nor "
						 "[first, last]",
						 i);
	m->ports = ports;
	m->nports = n;
	return 0;
}

/* Patterns with several stars cost time for each byte of a request, so the document may have
 * few. */
static int policy_rule_match_count_slow(struct policy *p, const char *glob, const char *at,
					const char *name, struct err *e)
{
	if (glob_is_slow(glob) && ++p->slow > POLICY_SLOW_MAX)
		return policy_value_fail(e, at, name,
					 "more than %d patterns with several stars in one document",
					 POLICY_SLOW_MAX);
	return 0;
}

/* Add the folded paths, which a rule that denies compares, too. */
static int policy_rule_match_fold_paths(struct policy *p, struct policy_match *m, struct err *e)
{
	struct policy_path *loose = policy_alloc(p, m->npaths, sizeof(*loose));

	if (loose == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < m->npaths; i++) {
		char *text = policy_alloc(p, strlen(m->paths[i].text) + 1, 1);

		if (text == NULL)
			return policy_no_memory(e);
		fold_pattern(m->paths[i].text, text);
		policy_request_compile(text, &loose[i]);
	}
	m->loose = loose;
	return 0;
}

static int policy_rule_match_read_paths(struct policy *p, const json_t *v, const char *at,
					struct policy_match *m, struct err *e)
{
	const char *const *texts = NULL;
	struct policy_path *paths;
	struct err why = { 0 };
	size_t n = 0;

	if (policy_value_texts(p, v, PATH_PATTERN_MAX, at, "paths", &texts, &n, e) < 0)
		return -1;
	paths = policy_alloc(p, n, sizeof(*paths));
	if (paths == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < n; i++) {
		if (path_pattern_check(texts[i], &why) < 0)
			return policy_value_fail(e, at, "paths", "%s", why.msg);
		if (policy_rule_match_count_slow(p, texts[i], at, "paths", e) < 0)
			return -1;
		policy_request_compile(texts[i], &paths[i]);
	}
	m->paths = paths;
	m->npaths = n;
	return m->allow || n == 0 ? 0 : policy_rule_match_fold_paths(p, m, e);
}

/* Load 8 bytes. Their order does not matter, as all are masked alike. */
static uint64_t policy_rule_match_word_of(const uint8_t *b)
{
	uint64_t word;

	memcpy(&word, b, sizeof(word));
	return word;
}

/* Decisions compare two words instead of 16 bytes and a count of bits. */
static int policy_rule_match_read_nets(struct policy *p, const json_t *v, const char *at,
				       struct policy_match *m, struct err *e)
{
	struct policy_net *fast;

	if (policy_value_nets(p, v, at, "cidr", &m->nets, &m->nnets, e) < 0)
		return -1;
	fast = policy_alloc(p, m->nnets, sizeof(*fast));
	if (fast == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < m->nnets; i++) {
		uint8_t mask[16] = { 0 };

		for (unsigned bit = 0; bit < m->nets[i].bits; bit++)
			mask[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
		for (size_t k = 0; k < 2; k++) {
			fast[i].mask[k] = policy_rule_match_word_of(mask + 8 * k);
			fast[i].want[k] = policy_rule_match_word_of(m->nets[i].ip.b + 8 * k) &
					  fast[i].mask[k];
		}
	}
	m->fast_nets = fast;
	return 0;
}

/* CONNECT would open a tunnel to a host that no rule judges. */
static int policy_rule_match_read_methods(struct policy *p, const json_t *v, const char *at,
					  struct policy_match *m, struct err *e)
{
	if (policy_value_texts(p, v, HTTP1_METHOD_MAX, at, "methods", &m->methods, &m->nmethods,
			       e) < 0)
		return -1;
	for (size_t i = 0; i < m->nmethods; i++)
		if (!http1_is_token(m->methods[i], strlen(m->methods[i])) ||
		    strcmp(m->methods[i], "CONNECT") == 0)
			return policy_value_fail(e, at, "methods", "'%s' is not a method",
						 m->methods[i]);
	return 0;
}

static int policy_rule_match_read_pair(struct policy *p, const char *key, const json_t *v,
				       const char *at, const char *name, struct policy_pair *ret,
				       struct err *e)
{
	char *folded;

	if (*key == '\0' || strlen(key) > 128)
		return policy_value_fail(e, at, name, "a name has 1 to 128 bytes");
	ret->name = key;
	if (policy_value_text(v, GLOB_MAX, at, name, &ret->glob, e) < 0)
		return -1;
	folded = policy_alloc(p, strlen(key) + 1, 1);
	if (folded == NULL)
		return policy_no_memory(e);
	memcpy(folded, key, strlen(key) + 1);
	fold_parameter(folded);
	ret->folded = folded;
	return policy_rule_match_count_slow(p, ret->glob, at, name, e);
}

/* Read an object of names and patterns. */
static int policy_rule_match_read_pairs(struct policy *p, json_t *v, const char *at,
					const char *name, const struct policy_pair **ret,
					size_t *ret_n, struct err *e)
{
	size_t n = json_object_size(v), i = 0;
	struct policy_pair *pairs;
	const char *key;
	json_t *value;

	if (v == NULL)
		return 0;
	if (!json_is_object(v) || n == 0 || n > 32)
		return policy_value_fail(e, at, name, "must be an object of 1 to 32 patterns");
	pairs = policy_alloc(p, n, sizeof(*pairs));
	if (pairs == NULL)
		return policy_no_memory(e);
	json_object_foreach(v, key, value)
	{
		if (policy_rule_match_read_pair(p, key, value, at, name, &pairs[i++], e) < 0)
			return -1;
	}
	*ret = pairs;
	*ret_n = n;
	return 0;
}

static int policy_rule_match_check_header_names(const struct policy_match *m, const char *at,
						struct err *e)
{
	for (size_t i = 0; i < m->nheaders; i++)
		if (!http1_is_token(m->headers[i].name, strlen(m->headers[i].name)))
			return policy_value_fail(e, at, "headers",
						 "'%s' is not the name of a header",
						 m->headers[i].name);
	return 0;
}

int policy_rule_match(struct policy *p, const json_t *v, const char *at, bool allow,
		      struct policy_match *ret, struct err *e)
{
	ret->allow = allow;
	if (policy_rule_match_read_hosts(p, json_object_get(v, "host"), at, ret, e) < 0 ||
	    policy_rule_match_read_nets(p, json_object_get(v, "cidr"), at, ret, e) < 0 ||
	    policy_rule_match_read_ports(p, json_object_get(v, "ports"), at, allow, ret, e) < 0 ||
	    policy_rule_match_read_methods(p, json_object_get(v, "methods"), at, ret, e) < 0 ||
	    policy_rule_match_read_paths(p, json_object_get(v, "paths"), at, ret, e) < 0 ||
	    policy_rule_match_read_pairs(p, json_object_get(v, "query"), at, "query", &ret->query,
					 &ret->nquery, e) < 0 ||
	    policy_rule_match_read_pairs(p, json_object_get(v, "headers"), at, "headers",
					 &ret->headers, &ret->nheaders, e) < 0 ||
	    policy_rule_match_check_header_names(ret, at, e) < 0)
		return -1;
	if (ret->nhosts > 0 && ret->nnets > 0)
		return policy_value_fail(e, at, "cidr", "cannot be used with host: make two rules");
	ret->anywhere = ret->nhosts == 0 && ret->nnets == 0;
	ret->inspects = ret->nmethods + ret->npaths + ret->nquery + ret->nheaders > 0;
	return 0;
}

static const char *const class_names[POLICY_CLASSES] = { "other", "packages", "docs", "api",
							 "model" };

const char *policy_class_name(enum policy_class c)
{
	return c < POLICY_CLASSES ? class_names[c] : "other";
}

/* Expand a path. "/simple": it and all paths below. "/simple/": all paths below. With stars:
 * unchanged. */
static json_t *policy_rule_expand_path(const char *path)
{
	size_t n = strlen(path);

	if (strchr(path, '*') != NULL)
		return json_pack("[s]", path);
	if (path[n - 1] == '/')
		return json_pack("[s+]", path, "**");
	return json_pack("[s, s+]", path, path, "/**");
}

/* Cut the port off the host or address. -1: malformed. */
static int policy_rule_cut_port(char *host, json_int_t *ret_port)
{
	char *colon = strrchr(host, ':');
	size_t n, digits;

	*ret_port = 0;
	if (host[0] == '[') {
		char *end = strchr(host, ']');

		if (end == NULL || (end[1] != '\0' && end + 1 != colon))
			return -1;
		*end = '\0';
		memmove(host, host + 1, strlen(host));
		if (colon != end + 1)
			return 0;
	} else if (colon != NULL) {
		*colon = '\0';
	}
	if (colon == NULL)
		return 0;
	n = strlen(colon + 1);
	digits = strspn(colon + 1, "0123456789");
	if (n == 0 || n > 5 || digits != n)
		return -1;
	*ret_port = (json_int_t)strtoul(colon + 1, NULL, 10);
	return *ret_port == 0 ? -1 : 0;
}

/* A text is tried as an address or block first, since "10.0.0.0/8" also looks like a host with a
 * path. */
json_t *policy_rule_expand(const char *text)
{
	size_t n = strcspn(text, "/");
	OWN_POLICY_JSON *rule = json_object();
	char host[HOST_MAX + 16];
	struct ip_net net;
	json_int_t port = 0;
	int bad;

	if (ip_net_read(text, strlen(text), &net) == 0)
		return json_pack("{s:s}", "cidr", text);
	if (rule == NULL || n == 0 || n >= sizeof(host))
		return NULL;
	memcpy(host, text, n);
	host[n] = '\0';
	if (policy_rule_cut_port(host, &port) < 0)
		return NULL;
	bad = json_object_set_new(rule,
				  ip_net_read(host, strlen(host), &net) == 0 ? "cidr" : "host",
				  json_string(host));
	if (port != 0)
		bad |= json_object_set_new(rule, "ports", json_pack("[I]", port));
	if (text[n] != '\0')
		bad |= json_object_set_new(rule, "paths", policy_rule_expand_path(text + n));
	return bad != 0 ? NULL : json_incref(rule);
}

/* The members with a fixed set of words, and texts for display. */
static int policy_rule_read_words(const json_t *v, const char *at, struct policy_rule *r,
				  struct err *e)
{
	static const char *const tls[] = { "auto", "pass", "terminate" };
	static const char *const protocols[] = { "http", "tcp" };
	static const char *const actions[] = { "allow", "deny" };
	size_t class = POLICY_OTHER, mode = POLICY_TLS_AUTO, protocol = 0, action = 0;
	bool websocket = false;

	if (policy_value_text(json_object_get(v, "name"), POLICY_NAME_MAX - 1, at, "name", &r->name,
			      e) < 0 ||
	    policy_value_text(json_object_get(v, "reason"), 160, at, "reason", &r->reason, e) < 0 ||
	    policy_value_word(json_object_get(v, "class"), class_names, COUNT(class_names), at,
			      "class", &class, e) < 0 ||
	    policy_value_word(json_object_get(v, "tls"), tls, COUNT(tls), at, "tls", &mode, e) <
		    0 ||
	    policy_value_word(json_object_get(v, "protocol"), protocols, COUNT(protocols), at,
			      "protocol", &protocol, e) < 0 ||
	    policy_value_word(json_object_get(v, "action"), actions, COUNT(actions), at, "action",
			      &action, e) < 0 ||
	    policy_value_bool(json_object_get(v, "websocket"), at, "websocket", &websocket, e) < 0)
		return -1;
	if (json_object_get(v, "websocket") != NULL)
		r->websocket = websocket ? POLICY_YES : POLICY_NO;
	r->class = (enum policy_class) class;
	r->tls = (enum policy_tls)mode;
	r->raw = protocol == 1;
	r->allow = action == 0;
	return 0;
}

/* The first of these members in the object. NULL: none. */
static const char *policy_rule_first_of(const json_t *v, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (json_object_get(v, names[i]) != NULL)
			return names[i];
	return NULL;
}

/* A member without effect would make its author believe in a protection that does not exist. */
static int policy_rule_check_contradictions(const json_t *v, const char *at, bool ceiling,
					    const struct policy_rule *r, struct err *e)
{
	static const char *const http[] = { "methods", "paths",	      "query",	 "headers",
					    "secret",  "set_headers", "prompts", "websocket" };
	static const char *const gifts[] = { "secret", "set_headers", "prompts", "limits" };
	const char *name = policy_rule_first_of(v, http, COUNT(http));

	if (r->raw && name != NULL)
		return policy_value_fail(e, at, name, "has no effect with protocol tcp");
	if (r->raw && r->tls != POLICY_TLS_AUTO)
		return policy_value_fail(e, at, "tls", "has no effect with protocol tcp");
	if (r->tls == POLICY_TLS_PASS && name != NULL)
		return policy_value_fail(
			e, at, name, "cannot be used with tls pass, which inspects no requests");
	if (r->tls == POLICY_TLS_PASS && r->class == POLICY_MODEL)
		return policy_value_fail(
			e, at, "class",
			"model cannot be used with tls pass, which inspects no requests");
	if (r->raw && r->class == POLICY_MODEL)
		return policy_value_fail(e, at, "class", "model cannot be used with protocol tcp");
	name = policy_rule_first_of(v, gifts, COUNT(gifts));
	if (!r->allow && name != NULL)
		return policy_value_fail(e, at, name, "has no effect in a rule that denies");
	if (!r->allow && r->websocket != POLICY_UNSET)
		return policy_value_fail(e, at, "websocket", "has no effect in a rule that denies");
	if (ceiling && (name != NULL || r->tls != POLICY_TLS_AUTO))
		return policy_value_fail(e, at, name != NULL ? name : "tls",
					 "has no effect in a ceiling");
	if (ceiling && json_object_get(v, "protocol") != NULL)
		return policy_value_fail(e, at, "protocol", "has no effect in a ceiling");
	return 0;
}

static int policy_rule_read_object(struct policy *p, const json_t *v, const char *at, bool ceiling,
				   struct policy_rule *r, struct err *e)
{
	static const char *const members[] = {
		"name",	   "class",   "host",	"cidr",	    "ports",	 "methods", "paths",
		"query",   "headers", "tls",	"protocol", "limits",	 "secret",  "set_headers",
		"prompts", "action",  "reason", "layer",    "websocket",
	};
	struct policy_match *m = policy_alloc(p, 1, sizeof(*m));

	if (m == NULL)
		return policy_no_memory(e);
	r->match = m;
	r->reason = "";
	if (policy_value_known(v, members, COUNT(members), at, e) < 0 ||
	    policy_rule_read_words(v, at, r, e) < 0 ||
	    policy_rule_check_contradictions(v, at, ceiling, r, e) < 0 ||
	    policy_rule_match(p, v, at, r->allow, m, e) < 0 ||
	    policy_rule_effects(p, v, at, r, e) < 0)
		return -1;
	if (r->allow && *r->reason != '\0')
		return policy_value_fail(e, at, "reason", "is allowed in rules that deny only");
	return 0;
}

int policy_rule_read(struct policy *p, json_t *v, const char *at, bool ceiling,
		     struct policy_rule *ret, struct err *e)
{
	const char *text = json_string_value(v);
	json_t *object;

	if (text == NULL)
		return policy_rule_read_object(p, v, at, ceiling, ret, e);
	object = policy_rule_expand(text);
	if (object == NULL)
		return policy_value_fail(e, at, "",
					 strstr(text, "://") != NULL
						 ? "'%.80s' is a URL: leave out https://"
						 : "'%.80s' is not HOST, HOST:PORT or HOST/PATH",
					 text);
	/* The document keeps the object, since texts are borrowed from it. */
	if (json_array_append_new(p->expanded, object) < 0)
		return policy_no_memory(e);
	return policy_rule_read_object(p, object, at, ceiling, ret, e);
}
