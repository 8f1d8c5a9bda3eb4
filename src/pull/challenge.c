/* challenge.c - the grammar is that of RFC 9110, 11.6.1, read strictly: a scheme, then parameters
 * name=token or name="quoted", separated by commas. A value may hold several challenges. A name
 * without "=" behind it begins the next one. Malformed text ends the reading of that header, and
 * the complete challenges before it count. A parameter that occurs twice makes its challenge
 * invalid: readers could differ. */
#include "pull/challenge.h"

#include <string.h>
#include <strings.h>

/* The rest of a header's value. Each function below takes its part from the front. */
struct challenge_text {
	const char *p;
	size_t n;
};

static void challenge_skip(struct challenge_text *t, const char *any)
{
	while (t->n > 0 && strchr(any, *t->p) != NULL && *t->p != '\0') {
		t->p++;
		t->n--;
	}
}

static struct http1_span challenge_take_token(struct challenge_text *t)
{
	struct http1_span s = { t->p, 0 };

	while (s.n < t->n && http1_is_token(t->p + s.n, 1))
		s.n++;
	t->p += s.n;
	t->n -= s.n;
	return s;
}

/* A quoted string, without its quotes. -1: not closed, or does not fit. */
static int challenge_take_quoted(struct challenge_text *t, char *ret, size_t cap)
{
	size_t len = 0;

	for (t->p++, t->n--; t->n > 0 && *t->p != '"'; t->p++, t->n--) {
		if (*t->p == '\\' && t->n > 1) {
			t->p++;
			t->n--;
		}
		if (len + 1 >= cap || *t->p == '\0')
			return -1;
		ret[len++] = *t->p;
	}
	if (t->n == 0)
		return -1;
	t->p++;
	t->n--;
	ret[len] = '\0';
	return 0;
}

/* A token or a quoted string, with a NUL behind it. */
static int challenge_take_value(struct challenge_text *t, char *ret, size_t cap)
{
	struct http1_span s;

	if (t->n > 0 && *t->p == '"')
		return challenge_take_quoted(t, ret, cap);
	s = challenge_take_token(t);
	if (s.n == 0 || s.n >= cap)
		return -1;
	memcpy(ret, s.p, s.n);
	ret[s.n] = '\0';
	return 0;
}

/* One parameter of c. 1: taken. 0: there is none, the next challenge begins. -1: malformed. */
static int challenge_take_parameter(struct challenge_text *t, struct challenge *c)
{
	char value[CHALLENGE_REALM_MAX];
	struct challenge_text at = *t;
	struct http1_span name;
	char *to = NULL;
	size_t cap = 0;

	challenge_skip(&at, " \t,");
	name = challenge_take_token(&at);
	challenge_skip(&at, " \t");
	if (name.n == 0 || at.n == 0 || *at.p != '=')
		return 0;
	at.p++;
	at.n--;
	challenge_skip(&at, " \t");
	if (challenge_take_value(&at, value, sizeof(value)) < 0)
		return -1;
	*t = at;
	if (http1_span_is_nocase(name, "realm"))
		to = c->realm, cap = sizeof(c->realm);
	else if (http1_span_is_nocase(name, "service"))
		to = c->service, cap = sizeof(c->service);
	else if (http1_span_is_nocase(name, "scope"))
		to = c->scope, cap = sizeof(c->scope);
	if (to == NULL)
		return 1;
	/* A parameter that comes twice makes the challenge ambiguous. */
	if (to[0] != '\0' || strlen(value) >= cap)
		return -1;
	memcpy(to, value, strlen(value) + 1);
	return 1;
}

static enum challenge_kind challenge_kind_of(struct http1_span scheme)
{
	if (http1_span_is_nocase(scheme, "bearer"))
		return CHALLENGE_BEARER;
	return http1_span_is_nocase(scheme, "basic") ? CHALLENGE_BASIC : CHALLENGE_NONE;
}

/* Kinds are ordered by preference. Bearer without a realm names no token server. */
static bool challenge_is_better(const struct challenge *c, const struct challenge *than)
{
	if (c->kind == CHALLENGE_BEARER && c->realm[0] == '\0')
		return false;
	return c->kind > than->kind;
}

/* One header may have several challenges. A malformed parameter ends the reading, and the
 * challenges before it count. */
static void challenge_read_value(struct http1_span value, struct challenge *ret)
{
	struct challenge_text t = { value.p, value.n };

	for (;;) {
		struct challenge c = { 0 };
		struct http1_span scheme;
		int taken;

		challenge_skip(&t, " \t,");
		scheme = challenge_take_token(&t);
		if (scheme.n == 0)
			return;
		c.kind = challenge_kind_of(scheme);
		while ((taken = challenge_take_parameter(&t, &c)) > 0)
			;
		if (taken < 0)
			return;
		if (challenge_is_better(&c, ret))
			*ret = c;
	}
}

void challenge_read(const struct http1_header *headers, size_t n, struct challenge *ret)
{
	*ret = (struct challenge){ 0 };
	for (size_t i = 0; i < n; i++)
		if (http1_span_is_nocase(headers[i].name, "www-authenticate"))
			challenge_read_value(headers[i].value, ret);
}
