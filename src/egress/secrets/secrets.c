/* secrets.c - theory of operation
 *
 * Whether a secret may be put into a request depends on nothing that the cell can choose freely:
 * the connection is verified TLS to the host that the policy was asked about. Host, method and path
 * (in their normal forms, as they are sent) match the secret's binding, and the rule that allowed
 * the request names the secret, or names none while the secret has hosts of its own. A secret
 * without hosts is put in where a rule names it. In all other cases the placeholder is left as it
 * is. */
#include "egress/secrets/secrets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/secrets/secrets_private.h"
#include "lib/base/base64.h"
#include "lib/policy/path.h"

/* ---- may it be put in? */

static bool in_list(char *const *list, const char *word)
{
	for (; list != NULL && *list != NULL; list++)
		if (strcmp(*list, word) == 0)
			return true;
	return false;
}

bool secrets_host_fits(const struct host_pattern *hosts, size_t n, const char *host)
{
	for (size_t i = 0; i < n; i++)
		if (host_pattern_fits(&hosts[i], host, strlen(host)))
			return true;
	return false;
}

static bool path_is_bound(const struct secret *s, const char *path)
{
	for (char *const *p = s->paths; p != NULL && *p != NULL; p++)
		if (path_fits(*p, path))
			return true;
	return s->paths == NULL;
}

static bool rule_fits(const struct secret *s, const struct policy_rule *rule)
{
	if (rule == NULL || rule->nsecrets == 0)
		return s->nhosts > 0;
	for (size_t i = 0; i < rule->nsecrets; i++)
		if (strcmp(rule->secrets[i], s->name) == 0)
			return true;
	return false;
}

bool secrets_allowed(const struct secret *s, const struct secrets_use *u)
{
	if (!u->verified_tls || (s->expires_ms != 0 && u->now_ms >= s->expires_ms))
		return false;
	if (s->nhosts > 0 && (u->host == NULL || !secrets_host_fits(s->hosts, s->nhosts, u->host)))
		return false;
	return (s->methods == NULL || in_list(s->methods, u->method)) &&
	       path_is_bound(s, u->path) && rule_fits(s, u->rule);
}

/* ---- names of those put in
 *
 * The list is one text with commas. Names before u->here went to earlier servers, names behind it
 * to this one, and each name is in it once. */

/* The item in a list of `end` bytes. NULL: it is not there. */
static char *find_name(char *from, const char *end, const char *name)
{
	size_t len = strlen(name), n;

	for (char *at = from; at < end; at += n + (at[n] == ',')) {
		n = strcspn(at, ",");
		if (n == len && memcmp(at, name, len) == 0)
			return at;
	}
	return NULL;
}

/* It went to an earlier server, and now to this one. */
static void forget_earlier(struct secrets_use *u, const char *name)
{
	char *at = find_name(u->names, u->names + u->here, name);
	size_t n = strlen(name);

	if (at == NULL)
		return;
	if (at[n] == ',')
		n++;
	else if (at > u->names) /* the last one goes with the comma before it */
		at--, n++;
	memmove(at, at + n, strlen(at + n) + 1);
	u->here -= n;
}

void secrets_add_name(const struct secret *s, struct secrets_use *u)
{
	size_t n = u->names == NULL ? 0 : strlen(u->names), len = strlen(s->name);
	char *longer;

	if (n > 0 && find_name(u->names + u->here, u->names + n, s->name) != NULL)
		return;
	longer = realloc(u->names, n + len + 2);
	if (longer == NULL) {
		u->more = true;
		return;
	}
	longer[n] = '\0';
	u->names = longer;
	forget_earlier(u, s->name);
	n = strlen(u->names);
	if (n > 0 && u->here == n)
		u->here++; /* behind the comma */
	(void)snprintf(u->names + n, len + 2, "%s%s", n > 0 ? "," : "", s->name);
}

void secrets_use_next(struct secrets_use *u, const struct secrets_use *server)
{
	struct secrets_use before = *u;

	*u = *server;
	u->names = before.names;
	u->here = before.names == NULL ? 0 : strlen(before.names);
	u->more = before.more;
}

const char *secrets_use_here(const struct secrets_use *u)
{
	return u->names == NULL ? "" : u->names + u->here;
}

void secrets_use_release(struct secrets_use *u)
{
	free(u->names);
	*u = (struct secrets_use){ .names = NULL };
}

/* ---- headers
 *
 * Two passes over a value: the first finds the secrets that may be put in, the second copies. So a
 * value without any is not copied. */

static bool is_for_header(const struct secret *s, struct http1_span name)
{
	for (char *const *h = s->headers; !s->in_header && *h != NULL; h++)
		if (http1_span_is_nocase(name, *h))
			return true;
	return s->in_header;
}

static bool may_be_in(const struct secret *x, const struct secrets_use *u, struct http1_span header,
		      bool basic)
{
	return secrets_allowed(x, u) && (basic ? x->in_basic : is_for_header(x, header)) &&
	       (basic || http1_is_value(x->value, x->len));
}

/* The set of secrets whose placeholder is in the text of a header and may be replaced there. Others
 * set u->misused. */
static uint64_t secrets_find(const struct secrets *s, struct secrets_use *u,
			     struct http1_span header, struct http1_span text, bool basic)
{
	uint64_t set = 0, seen = 0;
	const struct secret *x;

	for (size_t at = 0; (x = secrets_placeholder_find(s, text, &at)) != NULL; at++) {
		uint64_t bit = 1ULL << (x - s->all);

		if ((seen & bit) != 0)
			continue;
		seen |= bit;
		if (may_be_in(x, u, header, basic))
			set |= bit;
		else
			u->misused = true;
	}
	return set;
}

/* Copy the text with the secrets of the set put in. Values are not searched again. */
static int put_in(const struct secrets *s, struct secrets_use *u, uint64_t set,
		  struct http1_span text, char *ret, size_t cap)
{
	const struct secret *x;
	size_t n = 0, copied = 0, at = 0;

	while ((x = secrets_placeholder_find(s, text, &at)) != NULL) {
		if ((set >> (x - s->all) & 1) == 0) {
			at++;
			continue;
		}
		if (at - copied > cap - n || x->len > cap - n - (at - copied))
			return -1;
		memcpy(ret + n, text.p + copied, at - copied);
		n += at - copied;
		memcpy(ret + n, x->value, x->len);
		n += x->len;
		copied = at += x->placeholder_len;
		secrets_add_name(x, u);
	}
	if (text.n - copied > cap - n)
		return -1;
	memcpy(ret + n, text.p + copied, text.n - copied);
	return (int)(n + text.n - copied);
}

#define BASIC_MAX 4096

/* "Basic " and base64 of "user:password". 0: no placeholder is in it. */
static int put_basic(const struct secrets *s, struct secrets_use *u, struct http1_span name,
		     struct http1_span value, char *ret, size_t cap)
{
	size_t skip = 6;
	uint8_t plain[BASE64_BYTES(BASIC_MAX + 3)];
	char made[2 * BASIC_MAX];
	uint64_t set;
	ssize_t n;
	int got = -1;

	while (skip < value.n && value.p[skip] == ' ')
		skip++;
	if (skip == value.n || value.n - skip > BASIC_MAX)
		return 0;
	n = base64_decode_any(value.p + skip, value.n - skip, plain);
	if (n <= 0)
		return 0;
	set = secrets_find(s, u, name, (struct http1_span){ (char *)plain, (size_t)n }, true);
	if (set == 0)
		return 0;
	n = put_in(s, u, set, (struct http1_span){ (char *)plain, (size_t)n }, made, sizeof(made));
	if (n >= 0 && 6 + BASE64_LENGTH((size_t)n) < cap) {
		memcpy(ret, "Basic ", 7); /* its NUL is written over */
		base64_encode(made, (size_t)n, ret + 6);
		got = (int)(6 + BASE64_LENGTH((size_t)n));
	}
	explicit_bzero(made, sizeof(made));
	return got;
}

static bool is_basic(struct http1_span name, struct http1_span value)
{
	return value.n > 6 && value.p[5] == ' ' &&
	       http1_span_is_nocase((struct http1_span){ value.p, 5 }, "basic") &&
	       (http1_span_is_nocase(name, "authorization") ||
		http1_span_is_nocase(name, "proxy-authorization"));
}

int secrets_header(const struct secrets *s, struct secrets_use *u, struct http1_span name,
		   struct http1_span value, char *ret, size_t cap)
{
	uint64_t set;

	if (s == NULL || s->n == 0)
		return 0;
	if (is_basic(name, value))
		return put_basic(s, u, name, value, ret, cap);
	set = secrets_find(s, u, name, value, false);
	return set == 0 ? 0 : put_in(s, u, set, value, ret, cap);
}

/* ---- headers that a rule sets */

static const struct secret *by_name(const struct secrets *s, const char *name, size_t n)
{
	for (size_t i = 0; s != NULL && i < s->n; i++)
		if (strlen(s->all[i].name) == n && memcmp(s->all[i].name, name, n) == 0)
			return &s->all[i];
	return NULL;
}

int secrets_expand(const struct secrets *s, struct secrets_use *u, const char *template, char *ret,
		   size_t cap, struct err *e)
{
	static const char mark[] = "${secret.";
	size_t n = 0;

	while (*template != '\0') {
		bool is_mark = strncmp(template, mark, sizeof(mark) - 1) == 0;
		const char *name = template + sizeof(mark) - 1;
		size_t len = is_mark ? strcspn(name, "}") : 1;
		const char *from = template;

		if (is_mark) {
			const struct secret *x = by_name(s, name, len);

			if (name[len] != '}' || x == NULL)
				return err_set(e, ERR_NOT_FOUND, "secret %.*s does not exist",
					       (int)(len < 64 ? len : 64), name);
			if (!secrets_allowed(x, u) || !http1_is_value(x->value, x->len))
				return err_set(
					e, ERR_DENIED,
					"secret %s is not allowed in this request, or has expired",
					x->name);
			template = name + len + 1;
			from = x->value;
			len = x->len;
			secrets_add_name(x, u);
		} else {
			template ++;
		}
		if (len > cap - n)
			return err_set(e, ERR_LIMIT, "header with a secret is too long");
		memcpy(ret + n, from, len);
		n += len;
	}
	return (int)n;
}

const struct mask *secrets_mask(const struct secrets *s)
{
	return s == NULL ? NULL : s->mask;
}
