/* secrets_revoked.c - finds out whether an open request was sent with a secret that it could not
 * have now: removed, expired, replaced, or bound to something else. An exchange that the secret
 * authenticated (a WebSocket, a long answer) must not outlive it. */
#include <string.h>

#include "egress/secrets/secrets.h"
#include "egress/secrets/secrets_private.h"

static const struct secret *by_name(const struct secrets *s, const char *name, size_t n)
{
	for (size_t i = 0; s != NULL && i < s->n; i++)
		if (strlen(s->all[i].name) == n && memcmp(s->all[i].name, name, n) == 0)
			return &s->all[i];
	return NULL;
}

static bool is_same_value(const struct secret *a, const struct secret *b)
{
	return a != NULL && a->len == b->len && memcmp(a->value, b->value, a->len) == 0;
}

/* Names before u->here went to earlier servers. There the value must be the same, but need not be
 * allowed now. */
static bool is_there(const struct secrets *was, const struct secrets *now,
		     const struct secrets_use *u, const char *name, size_t n)
{
	const struct secret *s = by_name(now, name, n);

	return s != NULL && is_same_value(by_name(was, name, n), s) &&
	       (name < u->names + u->here || secrets_allowed(s, u));
}

/* If names had no room for all of them, any secret may be among them. */
static bool are_all_there(const struct secrets *was, const struct secrets *now)
{
	for (size_t i = 0; was != NULL && i < was->n; i++) {
		const char *name = was->all[i].name;
		const struct secret *s = by_name(now, name, strlen(name));

		if (s == NULL || !is_same_value(&was->all[i], s))
			return false;
	}
	return true;
}

bool secrets_revoked(const struct secrets *was, const struct secrets *now,
		     const struct secrets_use *u)
{
	for (const char *at = u->names; at != NULL && *at != '\0'; at += strspn(at, ",")) {
		size_t n = strcspn(at, ",");

		if (!is_there(was, now, u, at, n))
			return true;
		at += n;
	}
	return u->more && !are_all_there(was, now);
}
