/* secrets_placeholder.c - finds placeholders in a text. The text is searched for the common
 * beginning of all placeholders of the session, then the placeholder is looked up in a sorted
 * table: so a byte costs the same with one secret and with many. */
#include <string.h>

#include "egress/secrets/secrets.h"
#include "egress/secrets/secrets_private.h"

/* By bytes, a shorter text before a longer one that begins with it. */
static int secrets_placeholder_compare(const struct secret *a, const struct secret *b)
{
	size_t n =
		a->placeholder_len < b->placeholder_len ? a->placeholder_len : b->placeholder_len;
	int c = memcmp(a->placeholder, b->placeholder, n);

	return c != 0 ? c
		      : (a->placeholder_len > b->placeholder_len) -
				(a->placeholder_len < b->placeholder_len);
}

static size_t secrets_placeholder_common(const struct secret *a, const struct secret *b)
{
	size_t n = 0;

	while (n < a->placeholder_len && n < b->placeholder_len &&
	       a->placeholder[n] == b->placeholder[n])
		n++;
	return n;
}

/* An insertion sort, because there are at most SECRETS_MAX. A text that begins
 * with another one stands behind it, with only such texts between, so neighbours are compared. */
int secrets_placeholder_index(struct secrets *s, struct err *e)
{
	s->nplaces = 0;
	for (size_t i = 0; i < s->n; i++) {
		size_t at = s->nplaces;

		if (s->all[i].placeholder == NULL)
			continue;
		for (; at > 0 &&
		       secrets_placeholder_compare(&s->all[s->places[at - 1]], &s->all[i]) > 0;
		     at--)
			s->places[at] = s->places[at - 1];
		s->places[at] = (uint8_t)i;
		s->nplaces++;
	}
	s->prefix = SIZE_MAX;
	for (size_t i = 1; i < s->nplaces; i++) {
		const struct secret *a = &s->all[s->places[i - 1]], *b = &s->all[s->places[i]];
		size_t same = secrets_placeholder_common(a, b);

		if (same == a->placeholder_len)
			return err_set(e, ERR_INVALID,
				       "secret '%s': its placeholder begins with that of another",
				       b->name);
		s->prefix = same < s->prefix ? same : s->prefix;
	}
	if (s->nplaces == 1)
		s->prefix = s->all[s->places[0]].placeholder_len;
	return 0;
}

/* No placeholder begins with another one, so at most one matches. */
static const struct secret *look_up(const struct secrets *s, const char *p, size_t n)
{
	size_t from = 0, to = s->nplaces;

	while (from < to) {
		size_t half = (from + to) / 2;
		const struct secret *x = &s->all[s->places[half]];
		size_t len = x->placeholder_len < n ? x->placeholder_len : n;
		int c = memcmp(p, x->placeholder, len);

		if (c == 0 && len == x->placeholder_len)
			return x;
		if (c <= 0)
			to = half;
		else
			from = half + 1;
	}
	return NULL;
}

const struct secret *secrets_placeholder_find(const struct secrets *s, struct http1_span text,
					      size_t *at)
{
	while (s->nplaces > 0 && *at < text.n) {
		const char *begin = s->all[s->places[0]].placeholder;
		const char *p = text.p + *at;
		const struct secret *x;

		if (s->prefix > 0)
			p = memmem(p, text.n - *at, begin, s->prefix);
		if (p == NULL)
			return NULL;
		*at = (size_t)(p - text.p);
		x = look_up(s, p, text.n - *at);
		if (x != NULL)
			return x;
		(*at)++;
	}
	return NULL;
}
