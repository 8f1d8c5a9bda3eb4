/* policy_rule_effects.c - the members of a rule that say what happens to requests it allows:
 * headers that are set, secrets that may be put in, limits, and what is recorded. Called by
 * policy_rule.c. */
#include "policy_private.h"

#include <string.h>
#include <strings.h>

#define SECRET_NAME_MAX 64
#define SETS_MAX 32

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";

static bool is_secret_name(const char *text, size_t n)
{
	return n > 0 && n <= SECRET_NAME_MAX && strspn(text, letters) >= n;
}

/* May a rule set this header? Framing and headers of one connection are written by the gateway, and
 * Host selected the rule. */
static bool may_be_set(const char *name)
{
	static const char *const ours[] = { "host",	  "content-length", "transfer-encoding",
					    "connection", "keep-alive",	    "upgrade",
					    "te",	  "trailer",	    "expect" };

	for (size_t i = 0; i < COUNT(ours); i++)
		if (strcasecmp(name, ours[i]) == 0)
			return false;
	return strncasecmp(name, "proxy-", 6) != 0 && http1_is_token(name, strlen(name));
}

/* Finds the names in "${secret.NAME}"; at most cap. -1: malformed. */
static int find_secrets(const char *value, struct http1_span *ret, size_t cap)
{
	static const char head[] = "${secret.";
	size_t n = 0;

	while ((value = strstr(value, "${")) != NULL) {
		const char *name = value + sizeof(head) - 1;
		size_t len;

		if (strncmp(value, head, sizeof(head) - 1) != 0)
			return -1;
		len = strcspn(name, "}");
		if (name[len] != '}' || !is_secret_name(name, len) || n == cap)
			return -1;
		ret[n++] = (struct http1_span){ name, len };
		value = name + len;
	}
	return (int)n;
}

static bool has_secret(const char *const *names, size_t n, struct http1_span name)
{
	for (size_t i = 0; i < n; i++)
		if (http1_span_is(name, names[i]))
			return true;
	return false;
}

/* A secret that is named in a header is allowed by the rule. */
static int add_secrets(struct policy *p, const char *value, const char *at, const char **names,
		       size_t *n, struct err *e)
{
	struct http1_span found[8];
	int count = find_secrets(value, found, COUNT(found));

	if (count < 0)
		return policy_value_fail(e, at, "set_headers",
					 "what begins with ${ must be "
					 "${secret.NAME}, at most 8 times");
	for (int i = 0; i < count; i++) {
		char *copy;

		if (has_secret(names, *n, found[i]))
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

static int read_secrets(struct policy *p, const json_t *v, const char *at, const char **names,
			size_t *n, struct err *e)
{
	const char *const *given = NULL;

	if (policy_value_texts(p, v, SECRET_NAME_MAX, at, "secret", &given, n, e) < 0)
		return -1;
	for (size_t i = 0; i < *n; i++) {
		if (!is_secret_name(given[i], strlen(given[i])))
			return policy_value_fail(e, at, "secret",
						 "'%s' is not the name of a secret", given[i]);
		names[i] = given[i];
	}
	return 0;
}

static int read_sets(struct policy *p, json_t *v, const char *at, struct policy_rule *r,
		     const char **names, size_t *n, struct err *e)
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

		if (!may_be_set(key))
			return policy_value_fail(e, at, "set_headers", "'%.60s' cannot be set",
						 key);
		if (text == NULL || strlen(text) > 4096 || !http1_is_value(text, strlen(text)))
			return policy_value_fail(
				e, at, "set_headers",
				"'%.60s' has a value that is not allowed in a header", key);
		if (add_secrets(p, text, at, names, n, e) < 0)
			return -1;
		set[r->nset++] = (struct policy_header){ .name = key, .value = text };
	}
	return 0;
}

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
	return read_secrets(p, secret, at, names, &r->nsecrets, e) < 0 ||
			       read_sets(p, set, at, r, names, &r->nsecrets, e) < 0
		       ? -1
		       : 0;
}
