/* policy_rule.c - theory of operation
 *
 * Reads one rule; called by policy_read.c. A rule is an object, or one text for the most common
 * kind, which is expanded to an object first. Its conditions are read by policy_rule_match.c, its
 * effects by policy_rule_effects.c; here are the members that both need, and the checks for
 * contradictions: a member that would have no effect is an error. */
#include "policy_private.h"

#include <stdio.h>
#include <string.h>

#include "path.h"

static const char *const class_names[POLICY_CLASSES] = { "other", "packages", "docs", "api",
							 "model" };

const char *policy_class_name(enum policy_class c)
{
	return c < POLICY_CLASSES ? class_names[c] : "other";
}

/* "/simple": it and all below; "/simple/": all below; with stars: as it is. */
static json_t *expand_path(const char *path)
{
	size_t n = strlen(path);

	if (strchr(path, '*') != NULL)
		return json_pack("[s]", path);
	if (path[n - 1] == '/')
		return json_pack("[s+]", path, "**");
	return json_pack("[s, s+]", path, path, "/**");
}

/* Cuts the port off the host or address, and returns it; -1: malformed. */
static int cut_port(char *host, json_int_t *ret_port)
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
	if (cut_port(host, &port) < 0)
		return NULL;
	bad = json_object_set_new(rule,
				  ip_net_read(host, strlen(host), &net) == 0 ? "cidr" : "host",
				  json_string(host));
	if (port != 0)
		bad |= json_object_set_new(rule, "ports", json_pack("[I]", port));
	if (text[n] != '\0')
		bad |= json_object_set_new(rule, "paths", expand_path(text + n));
	return bad != 0 ? NULL : json_incref(rule);
}

static int read_words(const json_t *v, const char *at, struct policy_rule *r, struct err *e)
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

/* The first of these members that is present; NULL: none. */
static const char *first_of(const json_t *v, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (json_object_get(v, names[i]) != NULL)
			return names[i];
	return NULL;
}

static int check_contradictions(const json_t *v, const char *at, bool ceiling,
				const struct policy_rule *r, struct err *e)
{
	static const char *const http[] = { "methods", "paths",	      "query",	 "headers",
					    "secret",  "set_headers", "prompts", "websocket" };
	static const char *const gifts[] = { "secret", "set_headers", "prompts", "limits" };
	const char *name = first_of(v, http, COUNT(http));

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
	name = first_of(v, gifts, COUNT(gifts));
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

static int read_object(struct policy *p, const json_t *v, const char *at, bool ceiling,
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
	    read_words(v, at, r, e) < 0 || check_contradictions(v, at, ceiling, r, e) < 0 ||
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
		return read_object(p, v, at, ceiling, ret, e);
	object = policy_rule_expand(text);
	if (object == NULL)
		return policy_value_fail(e, at, "",
					 strstr(text, "://") != NULL
						 ? "'%.80s' is a URL: leave out https://"
						 : "'%.80s' is not HOST, HOST:PORT or HOST/PATH",
					 text);
	/* Texts are borrowed from it, so the document keeps it. */
	if (json_array_append_new(p->expanded, object) < 0)
		return policy_no_memory(e);
	return read_object(p, object, at, ceiling, ret, e);
}
