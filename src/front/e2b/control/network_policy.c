/* network_policy.c - theory of operation
 *
 * E2B: destinations in allowOut are allowed, then those in denyOut are denied, and the rest is
 * allowed unless everything is denied. So the rules of the document are: allowOut, denyOut, and its
 * default. A transform of headers allows nothing by itself: its rule stands before allowOut for
 * destinations in that list, and after denyOut for those left to the default. Addresses are reached
 * with any protocol, names with TLS or HTTP that carries the name. "0.0.0.0/0" is everything, since
 * E2B has no IPv6. With "::/0" beside it each stands for its own family. Under all of E2B's rules
 * private addresses stay closed unless the operator opened them. */
#include "front/e2b/control/network_policy.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "front/e2b/control/netname.h"
#include "lib/base/own.h"

/* Placeholders in headers: E2B's, which are translated, and Cordon's. */
#define SECRET_E2B "${e2b.secrets."
#define SECRET_CORDON "${secret."
#define IDENTITY "${e2b.identity."
#define SECRET_NAME_MAX 128
#define VALUE_MAX 4096

/* The row's lists, borrowed from the parsed text, and the default that follows from them. */
struct network_policy_asked {
	const json_t *allow, *deny, *rules, *proxy;
	bool everything; /* all but the denied is allowed */
	bool six;	 /* IPv6 has rules of its own */
	bool given;	 /* anything at all */
};

#define EVERYTHING "0.0.0.0/0"
#define EVERYTHING_SIX "::/0"

/* Entries are compared as texts. */
static bool policy_holds(const json_t *list, const char *entry)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), entry) == 0)
			return true;
	return false;
}

/* open: sandboxes without rules may reach everything. */
static void read_asked(const json_t *root, bool open, struct network_policy_asked *ret)
{
	const json_t *internet = json_object_get(root, "allowInternetAccess");

	ret->allow = json_object_get(root, "allowOut");
	ret->deny = json_object_get(root, "denyOut");
	ret->rules = json_object_get(root, "rules");
	ret->proxy = json_object_get(root, "egressProxy");
	ret->given = json_array_size(ret->allow) + json_array_size(ret->deny) +
				     json_object_size(ret->rules) + json_object_size(ret->proxy) >
			     0 ||
		     internet != NULL;
	ret->six =
		policy_holds(ret->allow, EVERYTHING_SIX) || policy_holds(ret->deny, EVERYTHING_SIX);
	if (policy_holds(ret->allow, EVERYTHING))
		ret->everything = true; /* takes precedence over denyOut */
	else if (json_is_false(internet) || policy_holds(ret->deny, EVERYTHING) ||
		 policy_holds(ret->deny, EVERYTHING_SIX))
		ret->everything = false;
	else
		ret->everything = json_is_true(internet) || open; /* denying opens nothing */
}

/* ---- headers
 *
 * E2B's placeholders for secrets become Cordon's. No value is seen here. */

/* The next placeholder of a kind in a text, and the name in it. */
static const char *policy_placeholder(const char *text, const char *kind, char ret[SECRET_NAME_MAX],
				      const char **ret_end)
{
	const char *at = strstr(text, kind), *end;
	size_t n;

	if (at == NULL)
		return NULL;
	end = strchr(at, '}');
	n = end == NULL ? 0 : (size_t)(end - at) - strlen(kind);
	if (end == NULL || n == 0 || n >= SECRET_NAME_MAX)
		return NULL; /* not a placeholder of E2B: it is sent unchanged */
	(void)snprintf(ret, SECRET_NAME_MAX, "%.*s", (int)n, at + strlen(kind));
	*ret_end = end + 1;
	return at;
}

/* The header with Cordon's placeholders. NULL: e says why not. */
static json_t *policy_translate(const char *value, struct err *e)
{
	char out[VALUE_MAX], name[SECRET_NAME_MAX];
	const char *at, *end;
	size_t n = 0;

	if (strstr(value, IDENTITY) != NULL) {
		(void)err_set(e, ERR_INVALID,
			      "network.rules: workload identity is not supported here");
		return NULL;
	}
	while ((at = policy_placeholder(value, SECRET_E2B, name, &end)) != NULL &&
	       n < sizeof(out)) {
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%.*s" SECRET_CORDON "%s}",
				      (int)(at - value), value, name);
		value = end;
	}
	if (n < sizeof(out))
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s", value);
	if (n >= sizeof(out)) {
		(void)err_set(e, ERR_INVALID, "network.rules: a header is too long");
		return NULL;
	}
	return json_string(out);
}

/* NULL if the list has no transform. json_object_foreach() takes that as empty. */
static json_t *headers_of(const json_t *list)
{
	const json_t *transform = json_object_get(json_array_get(list, 0), "transform");

	return json_object_get(transform, "headers");
}

/* The member set_headers of a rule. */
static int put_headers(json_t *rule, json_t *headers, struct err *e)
{
	json_t *set = json_object(), *value;
	const char *name;

	if (json_object_set_new(rule, "set_headers", set) < 0)
		return err_set(e, ERR_SYSTEM, "network: out of memory");
	json_object_foreach(headers, name, value)
	{
		json_t *ours = policy_translate(json_string_value(value), e);

		if (ours == NULL)
			return -1;
		if (json_object_set_new(set, name, ours) < 0)
			return err_set(e, ERR_SYSTEM, "network: out of memory");
	}
	return 0;
}

/* A name may come more than once. */
int network_policy_secrets(const char *text, int (*fn)(const char *name, void *arg), void *arg)
{
	json_t *root = json_loads(text, 0, NULL), *list, *value;
	const char *host, *header;
	int result = 0;

	json_object_foreach(json_object_get(root, "rules"), host, list)
	{
		json_object_foreach(headers_of(list), header, value)
		{
			const char *at = json_string_value(value), *end;
			char name[SECRET_NAME_MAX];

			while (result == 0 &&
			       policy_placeholder(at, SECRET_E2B, name, &end) != NULL) {
				result = fn(name, arg);
				at = end;
			}
		}
	}
	json_decref(root);
	return result;
}

/* ---- rules
 *
 * policy_compose() adds rules in the order of the comment on top. */

/* Of one entry, allowed or not. The caller gives it away. */
static json_t *rule_of(const char *entry, const char *action)
{
	bool address = netname_is_address(entry);
	json_t *rule = json_pack("{s:s, s:s, s:s}", address ? "cidr" : "host", entry, "ports",
				 "any", "action", action);

	if (address && strcmp(action, "allow") == 0)
		IGNORED(json_object_set_new(rule, "protocol", json_string("tcp")),
			"then it is narrower");
	return rule;
}

/* Take rule over, also on failure. */
static int policy_add(json_t *rules, json_t *rule, struct err *e)
{
	if (rule == NULL || json_array_append_new(rules, rule) < 0)
		return err_set(e, ERR_SYSTEM, "network: out of memory");
	return 0;
}

/* One rule for each entry of a list. */
static int add_entries(json_t *rules, const struct network_policy_asked *a, const json_t *list,
		       const char *action, struct err *e)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *entry = json_string_value(json_array_get(list, i));

		if (strcmp(entry, EVERYTHING) == 0 && !a->six)
			continue; /* covered by the default */
		if (policy_add(rules, rule_of(entry, action), e) < 0)
			return -1;
	}
	return 0;
}

/* Is a name in the list, by itself or by a "*." above it? */
static bool policy_fits(const char *entry, const char *host)
{
	size_t n = strlen(entry), h = strlen(host);

	if (strcasecmp(entry, host) == 0)
		return true;
	return strncmp(entry, "*.", 2) == 0 && h > n - 1 &&
	       strcasecmp(host + h - (n - 1), entry + 1) == 0;
}

/* Does an entry of allowOut cover the host? */
static bool is_named(const struct network_policy_asked *a, const char *host)
{
	for (size_t i = 0; i < json_array_size(a->allow); i++)
		if (policy_fits(json_string_value(json_array_get(a->allow, i)), host))
			return true;
	return false;
}

/* The destinations of a transform's rule on that side of denyOut. May be empty. The caller owns the
 * result. */
static json_t *hosts_of(const struct network_policy_asked *a, const char *host, bool rest)
{
	bool whole = is_named(a, host);
	json_t *hosts =
		whole != rest && (whole || a->everything) ? json_pack("[s]", host) : json_array();

	for (size_t i = 0; !whole && !rest && i < json_array_size(a->allow); i++) {
		json_t *entry = json_array_get(a->allow, i);

		if (policy_fits(host, json_string_value(entry)) &&
		    json_array_append(hosts, entry) < 0)
			break;
	}
	return hosts;
}

/* hosts has one entry at least. */
static int add_transform(json_t *rules, json_t *hosts, json_t *headers, struct err *e)
{
	json_t *first = json_array_get(hosts, 0);
	json_t *rule = json_pack("{s:O, s:s}",
				 netname_is_address(json_string_value(first)) ? "cidr" : "host",
				 json_array_size(hosts) == 1 ? first : hosts, "ports", "any");

	if (put_headers(rule, headers, e) < 0) {
		json_decref(rule);
		return -1;
	}
	return policy_add(rules, rule, e);
}

/* rest false: in front of allowOut. rest true: behind denyOut. */
static int add_transforms(json_t *rules, const struct network_policy_asked *a, bool rest,
			  struct err *e)
{
	const char *host;
	json_t *list, *all = json_deep_copy(a->rules);
	int result = 0;

	json_object_foreach(all, host, list)
	{
		json_t *hosts = hosts_of(a, host, rest), *headers = headers_of(list);

		if (result == 0 && json_array_size(hosts) > 0 && json_object_size(headers) > 0)
			result = add_transform(rules, hosts, headers, e);
		json_decref(hosts);
	}
	json_decref(all);
	return result;
}

/* Check all hosts, denied ones too, so that mistakes are reported. */
static int check_transforms(const struct network_policy_asked *a, struct err *e)
{
	const char *host;
	json_t *list, *all = json_deep_copy(a->rules);
	int result = 0;

	json_object_foreach(all, host, list)
	{
		json_t *ignored = json_object();

		if (result == 0)
			result = put_headers(ignored, headers_of(list), e);
		json_decref(ignored);
	}
	json_decref(all);
	return result;
}

/* The whole document. NULL: e says why not. */
static json_t *policy_compose(const struct network_policy_asked *a, struct err *e)
{
	json_t *rules = json_array();
	json_t *root = json_pack("{s:i, s:s, s:o}", "version", 1, "default",
				 a->everything ? "allow" : "deny", "rules", rules);
	json_t *proxy = json_deep_copy(a->proxy);

	if (check_transforms(a, e) < 0 || add_transforms(rules, a, false, e) < 0 ||
	    add_entries(rules, a, a->allow, "allow", e) < 0 ||
	    add_entries(rules, a, a->deny, "deny", e) < 0 ||
	    add_transforms(rules, a, true, e) < 0) {
		json_decref(root);
		json_decref(proxy);
		return NULL;
	}
	if (proxy != NULL && json_object_set_new(root, "proxy", proxy) < 0) {
		json_decref(root);
		(void)err_set(e, ERR_SYSTEM, "network: out of memory");
		return NULL;
	}
	return root;
}

/* The row was checked when it was written. */
int network_policy_write(const char *text, bool open, char **ret, struct err *e)
{
	json_t *row = json_loads(text, 0, NULL), *root = NULL;
	struct network_policy_asked a = { 0 };

	*ret = NULL;
	read_asked(row, open, &a);
	if (a.given)
		root = policy_compose(&a, e);
	json_decref(row);
	if (a.given && root == NULL)
		return -1;
	*ret = a.given ? json_dumps(root, JSON_COMPACT) : strdup("");
	json_decref(root);
	return *ret == NULL ? err_set(e, ERR_SYSTEM, "network: out of memory") : 0;
}
