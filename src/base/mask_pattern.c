/* mask_pattern.c - patterns of the operator (redact_patterns). A pattern is compiled to a row of at
 * most MASK_PATTERN_MAX sets, "a{2,4}" to a a a? a?. All positions in the row that the input may be
 * at are advanced together, so there is no backtracking and time is linear. */
#include <string.h>

#include "mask_private.h"

static void set_add(struct mask_set *s, unsigned from, unsigned to)
{
	for (unsigned c = from; c <= to; c++)
		s->bits[c >> 6] |= 1ULL << (c & 63);
}

static int bad(struct err *e, const char *text, const char *why)
{
	return err_set(e, ERR_INVALID, "pattern '%.80s': %s", text, why);
}

/* One byte of a set or of the text, which a backslash may precede. NULL: it is not there. */
static const char *take_byte(const char *at, uint8_t *ret)
{
	if (*at == '\\')
		at++;
	if (*at == '\0')
		return NULL;
	*ret = (uint8_t)*at;
	return at + 1;
}

/* Behind "[". */
static const char *take_set(const char *at, struct mask_set *ret)
{
	bool not = *at == '^';

	if (not )
		at++;
	if (*at == ']')
		return NULL;
	while (at != NULL && *at != ']') {
		uint8_t from, to;

		at = take_byte(at, &from);
		if (at == NULL)
			return NULL;
		to = from;
		if (at[0] == '-' && at[1] != ']')
			at = take_byte(at + 1, &to);
		if (to < from)
			return NULL;
		set_add(ret, from, to);
	}
	for (size_t i = 0; not &&i < COUNT(ret->bits); i++)
		ret->bits[i] = ~ret->bits[i];
	return at == NULL ? NULL : at + 1;
}

static const char *take_item(const char *at, struct mask_set *ret)
{
	uint8_t c;

	*ret = (struct mask_set){ 0 };
	if (*at == '[')
		return take_set(at + 1, ret);
	if (*at == '.') {
		set_add(ret, 0, 255);
		ret->bits[0] &= ~(1ULL << '\n' | 1ULL << '\r');
		return at + 1;
	}
	if (strchr("*+?|(){}]^$", *at) != NULL)
		return NULL;
	at = take_byte(at, &c);
	if (at != NULL)
		set_add(ret, c, c);
	return at;
}

static const char *take_number(const char *at, unsigned *ret)
{
	*ret = 0;
	if (*at < '0' || *at > '9')
		return NULL;
	for (; *at >= '0' && *at <= '9'; at++) {
		*ret = *ret * 10 + (unsigned)(*at - '0');
		if (*ret > MASK_PATTERN_MAX)
			return NULL;
	}
	return at;
}

/* "{n}" or "{n,m}", or nothing: once. */
static const char *take_times(const char *at, unsigned *ret_least, unsigned *ret_most)
{
	*ret_least = *ret_most = 1;
	if (*at != '{')
		return at;
	at = take_number(at + 1, ret_least);
	*ret_most = *ret_least;
	if (at != NULL && *at == ',')
		at = take_number(at + 1, ret_most);
	if (at == NULL || *at != '}' || *ret_most < *ret_least || *ret_most == 0)
		return NULL;
	return at + 1;
}

int mask_pattern_read(const char *text, struct mask_pattern *ret, struct err *e)
{
	unsigned least, most, shortest = 0;
	struct mask_set set;

	*ret = (struct mask_pattern){ 0 };
	for (const char *at = text; *at != '\0';) {
		at = take_item(at, &set);
		if (at == NULL)
			return bad(e, text, "is not of bytes, [sets] and {n,m}");
		at = take_times(at, &least, &most);
		if (at == NULL)
			return bad(e, text, "{n,m} is wrong, or above 256");
		if (ret->n == 0 && least == 0)
			return bad(e, text, "begins with something that may be missing");
		if (ret->n + most > MASK_PATTERN_MAX)
			return bad(e, text, "could match more than 256 bytes");
		for (unsigned i = 0; i < most; i++) {
			ret->set[ret->n] = set;
			ret->optional[ret->n++] = i >= least;
		}
		shortest += least;
	}
	if (shortest < MASK_PATTERN_MIN)
		return bad(e, text, "could match less than 4 bytes");
	return 0;
}

int mask_pattern_check(const char *pattern, struct err *e)
{
	struct mask_pattern p;

	return mask_pattern_read(pattern, &p, e);
}

size_t mask_pattern_step(const struct mask_pattern *p, struct mask_pattern_state *s, uint8_t c,
			 size_t at)
{
	size_t top = 0, last = s->top < p->n - 1 ? s->top : p->n - 1;

	s->began[0] = at;
	for (size_t i = last + 1; i-- > 0;) {
		bool fits = s->began[i] != MASK_NONE && mask_set_has(&p->set[i], c);

		s->began[i + 1] = fits ? s->began[i] : MASK_NONE;
		if (fits && top == 0)
			top = i + 1;
	}
	for (size_t i = 1; i <= top && i < p->n; i++) {
		if (!p->optional[i] || s->began[i] == MASK_NONE)
			continue;
		if (i == top)
			s->began[++top] = MASK_NONE;
		if (s->began[i] < s->began[i + 1])
			s->began[i + 1] = s->began[i];
	}
	/* All positions are past the end. */
	s->top = top;
	return top == p->n ? s->began[p->n] : MASK_NONE;
}
