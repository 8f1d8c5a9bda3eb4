/* policy_rule_match.c - the members of a rule that say what it is for: hosts, blocks of addresses,
 * ports, methods, paths, query and headers. Called by policy_rule.c. Texts are checked to be in the
 * normal form they are compared in; what is compared for every request is prepared here (first
 * bytes of paths, blocks in words). */
#include "policy_private.h"

#include <string.h>

#include "fold.h"
#include "glob.h"
#include "path.h"

static int read_hosts(struct policy *p, const json_t *v, const char *at, struct policy_match *m,
		      struct err *e)
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

static bool is_port(const json_t *v)
{
	return json_is_integer(v) && json_integer_value(v) >= 1 && json_integer_value(v) <= 65535;
}

static bool read_range(const json_t *v, struct policy_ports *ret)
{
	const json_t *first = v, *last = v;

	if (json_is_array(v) && json_array_size(v) == 2) {
		first = json_array_get(v, 0);
		last = json_array_get(v, 1);
	}
	if (!is_port(first) || !is_port(last))
		return false;
	ret->first = (uint16_t)json_integer_value(first);
	ret->last = (uint16_t)json_integer_value(last);
	return ret->first <= ret->last;
}

static int read_ports(struct policy *p, const json_t *v, const char *at, bool allow,
		      struct policy_match *m, struct err *e)
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
		if (!read_range(json_array_get(v, i), &ports[i]))
			return policy_value_fail(e, at, "ports",
						 "item %zu is neither a port nor "
						 "[first, last]",
						 i);
	m->ports = ports;
	m->nports = n;
	return 0;
}

static int count_slow(struct policy *p, const char *glob, const char *at, const char *name,
		      struct err *e)
{
	if (glob_is_slow(glob) && ++p->slow > POLICY_SLOW_MAX)
		return policy_value_fail(e, at, name,
					 "more than %d patterns with several stars in one document",
					 POLICY_SLOW_MAX);
	return 0;
}

/* Adds the folded forms, which a rule that denies compares, too. */
static int fold_paths(struct policy *p, struct policy_match *m, struct err *e)
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

static int read_paths(struct policy *p, const json_t *v, const char *at, struct policy_match *m,
		      struct err *e)
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
		if (count_slow(p, texts[i], at, "paths", e) < 0)
			return -1;
		policy_request_compile(texts[i], &paths[i]);
	}
	m->paths = paths;
	m->npaths = n;
	return m->allow || n == 0 ? 0 : fold_paths(p, m, e);
}

/* Loads 8 bytes; their order does not matter, as all are masked alike. */
static uint64_t word_of(const uint8_t *b)
{
	uint64_t word;

	memcpy(&word, b, sizeof(word));
	return word;
}

static int read_nets(struct policy *p, const json_t *v, const char *at, struct policy_match *m,
		     struct err *e)
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
			fast[i].mask[k] = word_of(mask + 8 * k);
			fast[i].want[k] = word_of(m->nets[i].ip.b + 8 * k) & fast[i].mask[k];
		}
	}
	m->fast_nets = fast;
	return 0;
}

static int read_methods(struct policy *p, const json_t *v, const char *at, struct policy_match *m,
			struct err *e)
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

static int read_pair(struct policy *p, const char *key, const json_t *v, const char *at,
		     const char *name, struct policy_pair *ret, struct err *e)
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
	return count_slow(p, ret->glob, at, name, e);
}

static int read_pairs(struct policy *p, json_t *v, const char *at, const char *name,
		      const struct policy_pair **ret, size_t *ret_n, struct err *e)
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
		if (read_pair(p, key, value, at, name, &pairs[i++], e) < 0)
			return -1;
	}
	*ret = pairs;
	*ret_n = n;
	return 0;
}

static int check_header_names(const struct policy_match *m, const char *at, struct err *e)
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
	if (read_hosts(p, json_object_get(v, "host"), at, ret, e) < 0 ||
	    read_nets(p, json_object_get(v, "cidr"), at, ret, e) < 0 ||
	    read_ports(p, json_object_get(v, "ports"), at, allow, ret, e) < 0 ||
	    read_methods(p, json_object_get(v, "methods"), at, ret, e) < 0 ||
	    read_paths(p, json_object_get(v, "paths"), at, ret, e) < 0 ||
	    read_pairs(p, json_object_get(v, "query"), at, "query", &ret->query, &ret->nquery, e) <
		    0 ||
	    read_pairs(p, json_object_get(v, "headers"), at, "headers", &ret->headers,
		       &ret->nheaders, e) < 0 ||
	    check_header_names(ret, at, e) < 0)
		return -1;
	if (ret->nhosts > 0 && ret->nnets > 0)
		return policy_value_fail(e, at, "cidr", "cannot be used with host: make two rules");
	ret->anywhere = ret->nhosts == 0 && ret->nnets == 0;
	ret->inspects = ret->nmethods + ret->npaths + ret->nquery + ret->nheaders > 0;
	return 0;
}
