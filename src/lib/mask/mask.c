/* mask.c - theory of operation
 *
 * A stream is searched in three views. The raw view has its bytes as they are. In the decoded view
 * an escape of a URL, of JSON or of HTML is replaced by the character that it stands for. The third
 * view is the decoded one with its escapes replaced once more: JSON has the repr() of a text so. It
 * is kept only while it differs: from an escape in the decoded view on, until as many units without
 * one have come as the longest needle has. The elements of a view are called units. All views leave
 * out line breaks, and treat as equal the two alphabets of base64, and '+' and the space (as in
 * forms). In each view a value is searched as it
 * is and in its three base64 forms, one for each offset modulo 3. These four are its needles.
 *
 * A needle is stored as a number of units and their hash, a polynomial modulo 2^64. For each of the
 * last units a scan keeps the hash of all units before it, so that the hash of any text that ends
 * at the current unit is the difference of two. Needles are found by the hash of their last units,
 * the window. It has the largest of four widths up to the needle's length. So for each byte and
 * view a scan does one table lookup for each width and, where a window matches, some lookups more:
 * a search over the lengths of the needles that end with it (mask_lengths.c), or, if only some
 * values count, one comparison for each of them. No byte is read twice and no text is kept. The
 * time that a scan takes depends on no part of a value but its last 48 characters (24, 12 or 6 of a
 * shorter one), all of them at once. A text with the hash of a value by chance is covered, too.
 *
 * If a needle has more than MASK_UNITS_MAX units, only the last ones are compared. Where they are
 * found, as many bytes as the whole needle has are covered.
 *
 * mask_scan.c has the scan, mask_lengths.c the search, mask_stream.c the bytes held back and given
 * out, mask_scan.c the escapes, mask.c the operator's patterns. This file makes masks. */
#include "lib/mask/mask.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/mask/mask_private.h"

/* ---- patterns of the operator (redact_patterns)
 *
 * A pattern is compiled to a row of at
 * most MASK_PATTERN_MAX sets, "a{2,4}" to a a a? a?. All positions in the row that the input may be
 * at are advanced together, so there is no backtracking and time is linear. */

static void pattern_set_add(struct mask_set *s, unsigned from, unsigned to)
{
	for (unsigned c = from; c <= to; c++)
		s->bits[c >> 6] |= 1ULL << (c & 63);
}

static int pattern_bad(struct err *e, const char *text, const char *why)
{
	return err_set(e, ERR_INVALID, "pattern '%.80s': %s", text, why);
}

/* One byte of a set or of the text, which a backslash may precede. NULL: it is not there. */
static const char *pattern_take_byte(const char *at, uint8_t *ret)
{
	if (*at == '\\')
		at++;
	if (*at == '\0')
		return NULL;
	*ret = (uint8_t)*at;
	return at + 1;
}

/* Behind "[". */
static const char *pattern_take_set(const char *at, struct mask_set *ret)
{
	bool not = *at == '^';

	if (not )
		at++;
	if (*at == ']')
		return NULL;
	while (at != NULL && *at != ']') {
		uint8_t from, to;

		at = pattern_take_byte(at, &from);
		if (at == NULL)
			return NULL;
		to = from;
		if (at[0] == '-' && at[1] != ']')
			at = pattern_take_byte(at + 1, &to);
		if (to < from)
			return NULL;
		pattern_set_add(ret, from, to);
	}
	for (size_t i = 0; not &&i < COUNT(ret->bits); i++)
		ret->bits[i] = ~ret->bits[i];
	return at == NULL ? NULL : at + 1;
}

static const char *pattern_take_item(const char *at, struct mask_set *ret)
{
	uint8_t c;

	*ret = (struct mask_set){ 0 };
	if (*at == '[')
		return pattern_take_set(at + 1, ret);
	if (*at == '.') {
		pattern_set_add(ret, 0, 255);
		ret->bits[0] &= ~(1ULL << '\n' | 1ULL << '\r');
		return at + 1;
	}
	if (strchr("*+?|(){}]^$", *at) != NULL)
		return NULL;
	at = pattern_take_byte(at, &c);
	if (at != NULL)
		pattern_set_add(ret, c, c);
	return at;
}

static const char *pattern_take_number(const char *at, unsigned *ret)
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
static const char *pattern_take_times(const char *at, unsigned *ret_least, unsigned *ret_most)
{
	*ret_least = *ret_most = 1;
	if (*at != '{')
		return at;
	at = pattern_take_number(at + 1, ret_least);
	*ret_most = *ret_least;
	if (at != NULL && *at == ',')
		at = pattern_take_number(at + 1, ret_most);
	if (at == NULL || *at != '}' || *ret_most < *ret_least || *ret_most == 0)
		return NULL;
	return at + 1;
}

static int mask_pattern_read(const char *text, struct mask_pattern *ret, struct err *e)
{
	unsigned least, most, shortest = 0;
	struct mask_set set;

	*ret = (struct mask_pattern){ 0 };
	for (const char *at = text; *at != '\0';) {
		at = pattern_take_item(at, &set);
		if (at == NULL)
			return pattern_bad(e, text, "is not of bytes, [sets] and {n,m}");
		at = pattern_take_times(at, &least, &most);
		if (at == NULL)
			return pattern_bad(e, text, "{n,m} is wrong, or above 256");
		if (ret->n == 0 && least == 0)
			return pattern_bad(e, text, "begins with something that may be missing");
		if (ret->n + most > MASK_PATTERN_MAX)
			return pattern_bad(e, text, "could match more than 256 bytes");
		for (unsigned i = 0; i < most; i++) {
			ret->set[ret->n] = set;
			ret->optional[ret->n++] = i >= least;
		}
		shortest += least;
	}
	if (shortest < MASK_PATTERN_MIN)
		return pattern_bad(e, text, "could match less than 4 bytes");
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

#define HOLD_MIN ((size_t)256)
#define PAST_MAX ((size_t)64 * 1024)
#define HOLD_MAX ((size_t)96 * 1024) /* the longest value, in base64 */
#define TURN_BYTES ((size_t)64 * 1024)
#define TURN_BYTES_MIN ((size_t)4096)
#define TURN_COST 10 /* steps for a byte that need no smaller turn */

static const uint32_t widths[MASK_WINDOWS] = { 48, 24, 12, 6 };

/* ---- needles */

static uint64_t mask_power_of(uint64_t n)
{
	uint64_t power = 1;

	for (uint64_t square = MASK_BASE; n > 0; n /= 2, square *= square)
		if (n % 2 == 1)
			power *= square;
	return power;
}

static uint64_t mask_hash_of(const uint8_t *units, size_t n)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < n; i++)
		hash = mask_hash_add(hash, units[i]);
	return hash;
}

/* The units of a text: without line breaks, folded. Return how many. */
static size_t mask_fold_units(const uint8_t *text, size_t len, uint8_t *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		if (!mask_is_break(text[i]))
			ret[n++] = mask_fold(text[i]);
	return n;
}

/* Those of one value follow each other. */
static bool mask_is_known(const struct mask *m, const struct mask_needle *n)
{
	for (size_t i = m->n; i > 0 && m->needles[i - 1].value == n->value; i--)
		if (m->needles[i - 1].units == n->units && m->needles[i - 1].before == n->before &&
		    m->needles[i - 1].hash == n->hash)
			return true;
	return false;
}

/* text: its units. */
static int mask_add_needle(struct mask *m, const struct mask_needle *n, const uint8_t *text)
{
	struct mask_needle *all;

	if (mask_is_known(m, n))
		return 0;
	all = reallocarray(m->needles, m->n + 1, sizeof(*all));
	if (all == NULL)
		return -1;
	m->needles = all;
	m->needles[m->n] = *n;
	m->needles[m->n].text = malloc(n->units);
	if (m->needles[m->n].text == NULL)
		return -1;
	memcpy(m->needles[m->n++].text, text, n->units);
	m->longest = n->units > m->longest ? n->units : m->longest;
	return 0;
}

/* before: uncompared bytes of the same form in front of the text. */
static int mask_add_text(struct mask *m, const uint8_t *text, size_t len, size_t before,
			 size_t value)
{
	uint8_t *units = malloc(len + 1);
	struct mask_needle n = { .value = (uint32_t)value };
	size_t all;
	int got;

	if (units == NULL)
		return -1;
	all = mask_fold_units(text, len, units);
	n.units = (uint32_t)(all < MASK_UNITS_MAX ? all : MASK_UNITS_MAX);
	n.before = (uint32_t)(before + all - n.units);
	n.power = mask_power_of(n.units);
	n.hash = mask_hash_of(units + all - n.units, n.units);
	while (n.window < MASK_WINDOWS && widths[n.window] > n.units)
		n.window++;
	if (n.window < MASK_WINDOWS)
		n.end = mask_hash_of(units + all - widths[n.window], widths[n.window]);
	/* Without its line breaks it may be too short. */
	got = n.window < MASK_WINDOWS ? mask_add_needle(m, &n, units + all - n.units) : 0;
	explicit_bzero(units, len);
	free(units);
	return got;
}

/* base64 of the value where j bytes stand before it: those characters that it alone decides. Only
 * the end of a long value is encoded, from a place where a group of four characters begins. */
static int mask_add_base64(struct mask *m, const uint8_t *bytes, size_t len, size_t j, size_t value)
{
	size_t first = (8 * j + 5) / 6, end = 8 * (j + len) / 6, groups = 0, skip;
	uint8_t *plain = calloc(1, len + 2);
	char *text = malloc(BASE64_LENGTH(len + 2) + 1);
	int got = -1;

	while (end - 4 * groups > (size_t)2 * MASK_UNITS_MAX)
		groups += MASK_UNITS_MAX / 4;
	skip = 3 * groups;
	if (plain != NULL && text != NULL) {
		if (groups == 0)
			memcpy(plain + j, bytes, len);
		else
			memcpy(plain, bytes + skip - j, len + j - skip);
		base64_encode(plain, j + len - skip, text);
		got = groups == 0 ? mask_add_text(m, (const uint8_t *)text + first, end - first, 0,
						  value)
				  : mask_add_text(m, (const uint8_t *)text, end - 4 * groups,
						  4 * groups - first, value);
		explicit_bzero(text, BASE64_LENGTH(len + 2) + 1);
		explicit_bzero(plain, len + 2);
	}
	free(plain);
	free(text);
	return got;
}

/* Space, tab and closing brackets: see mask_tick(). */
static bool mask_is_spaced(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (value[i] == '\0' || strchr(" \t}])>", value[i]) != NULL)
			return true;
	return false;
}

static int mask_add_value(struct mask *m, const char *value, size_t len, size_t i, struct err *e)
{
	if (len < MASK_VALUE_MIN)
		return 0;
	if (len > MASK_VALUE_MAX)
		return err_set(e, ERR_LIMIT, "a value to mask has more than %d bytes",
			       MASK_VALUE_MAX);
	if (mask_add_text(m, (const uint8_t *)value, len, 0, i) < 0)
		return err_sys(e, "allocate mask");
	for (size_t j = 0; j < 3; j++)
		if (mask_add_base64(m, (const uint8_t *)value, len, j, i) < 0)
			return err_sys(e, "allocate mask");
	while (m->hold < 4 * len && m->hold < HOLD_MAX)
		m->hold *= 2;
	m->spaced = m->spaced || mask_is_spaced(value, len);
	return 0;
}

/* ---- the tables */

/* Longest first, so that a chain is so, too. The covered length counts: all long needles have
 * equally many compared units. */
static int mask_by_length(const void *a, const void *b)
{
	const struct mask_needle *x = a, *y = b;
	uint64_t n = (uint64_t)x->units + x->before, k = (uint64_t)y->units + y->before;

	return (n < k) - (n > k);
}

static struct mask_slot *mask_find_slot(const struct mask_window *w, uint64_t end)
{
	size_t i = end * MASK_BASE >> w->shift;

	while (w->slots[i].first != 0 && w->slots[i].end != end)
		i = (i + 1) & (w->n - 1);
	return &w->slots[i];
}

/* Before shorter ones. Return how many are in the chain. */
static size_t mask_add_to_chain(struct mask *m, struct mask_slot *slot, uint32_t needle)
{
	slot->end = m->needles[needle].end;
	m->needles[needle].next = slot->first;
	slot->first = needle + 1;
	return ++slot->nlengths; /* until mask_lengths_make() */
}

static int mask_make_window(struct mask *m, unsigned k)
{
	struct mask_window *w = &m->windows[m->nwindows];
	size_t count = 0;

	for (size_t i = 0; i < m->n; i++)
		count += m->needles[i].window == k;
	if (count == 0)
		return 0;
	w->width = widths[k];
	w->power = mask_power_of(w->width);
	w->n = 4;
	w->shift = 62;
	while (w->n < 4 * count) {
		w->n *= 2;
		w->shift--;
	}
	w->slots = calloc(w->n, sizeof(w->slots[0]));
	if (w->slots == NULL)
		return -1;
	m->nwindows++;
	for (size_t i = m->n; i-- > 0;) {
		const struct mask_needle *n = &m->needles[i];
		size_t chain = n->window != k ? 0
					      : mask_add_to_chain(m, mask_find_slot(w, n->end),
								  (uint32_t)i);

		m->chain = chain > m->chain ? chain : m->chain;
	}
	return 0;
}

static void mask_forget_texts(struct mask *m)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->needles[i].text != NULL)
			explicit_bzero(m->needles[i].text, m->needles[i].units);
		free(m->needles[i].text);
		m->needles[i].text = NULL;
	}
}

static int mask_make_tables(struct mask *m, struct err *e)
{
	if (m->n > 0)
		qsort(m->needles, m->n, sizeof(m->needles[0]), mask_by_length);
	for (unsigned k = 0; k < MASK_WINDOWS; k++)
		if (mask_make_window(m, k) < 0)
			return err_sys(e, "allocate mask");
	if (mask_lengths_make(m) < 0)
		return err_sys(e, "allocate mask");
	mask_forget_texts(m);
	m->scratch = mask_scan_new(m);
	return m->scratch == NULL ? err_sys(e, "allocate mask") : 0;
}

/* ---- masks */

static int mask_add_patterns(struct mask *m, const char *const *patterns, size_t n, struct err *e)
{
	if (n == 0)
		return 0;
	m->patterns = calloc(n, sizeof(m->patterns[0]));
	if (m->patterns == NULL)
		return err_sys(e, "allocate patterns");
	m->npatterns = n;
	for (size_t i = 0; i < n; i++)
		if (mask_pattern_read(patterns[i], &m->patterns[i], e) < 0)
			return -1;
	return 0;
}

static int mask_fill(struct mask *m, const char *const *values, const size_t *lens, size_t n,
		     const char *const *patterns, size_t npatterns, struct err *e)
{
	if (n > MASK_VALUES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d values to mask", MASK_VALUES_MAX);
	for (size_t i = 0; i < n; i++)
		if (mask_add_value(m, values[i], lens[i], i, e) < 0)
			return -1;
	return mask_add_patterns(m, patterns, npatterns, e) < 0 ? -1 : mask_make_tables(m, e);
}

struct mask *mask_new(const char *const *values, const size_t *lens, size_t n,
		      const char *const *patterns, size_t npatterns, struct err *e)
{
	return mask_new_named(values, lens, n, patterns, npatterns, 0, e);
}

struct mask *mask_new_named(const char *const *values, const size_t *lens, size_t n,
			    const char *const *patterns, size_t npatterns, unsigned names,
			    struct err *e)
{
	static uint64_t ids;
	struct mask *m = calloc(1, sizeof(*m));

	if (m == NULL) {
		(void)err_sys(e, "allocate mask");
		return NULL;
	}
	m->id = ++ids;
	m->hold = HOLD_MIN;
	m->names = names;
	if (mask_fill(m, values, lens, n, patterns, npatterns, e) < 0) {
		mask_free(m);
		return NULL;
	}
	m->hold = m->hold < HOLD_MAX ? m->hold : HOLD_MAX;
	m->past = 2 * mask_reach(m);
	m->past = m->past < PAST_MAX ? m->past : PAST_MAX;
	return m;
}

void mask_free(struct mask *m)
{
	if (m == NULL)
		return;
	mask_scan_free(m->scratch);
	mask_forget_texts(m);
	free(m->lengths);
	if (m->marks != NULL)
		explicit_bzero(m->marks, m->nmarks * sizeof(m->marks[0]));
	free(m->marks);
	if (m->needles != NULL)
		explicit_bzero(m->needles, m->n * sizeof(m->needles[0]));
	free(m->needles);
	for (size_t k = 0; k < m->nwindows; k++)
		free(m->windows[k].slots);
	free(m->patterns);
	explicit_bzero(m, sizeof(*m));
	free(m);
}

size_t mask_hold(const struct mask *m)
{
	return m->hold;
}

size_t mask_reach(const struct mask *m)
{
	size_t reach = m->npatterns > 0 || m->names != 0 ? MASK_PATTERN_MAX : 0;

	static_assert(MASK_PATTERN_MAX >= MASK_NAMED_MAX, "names reach no further than patterns");

	for (size_t i = 0; i < m->n; i++) {
		size_t n = m->needles[i].units * (size_t)MASK_ESCAPE_MAX + m->needles[i].before;

		reach = n > reach ? n : reach;
	}
	return reach;
}

size_t mask_cost(const struct mask *m)
{
	size_t cost = 3 * (m->nwindows + m->chain);

	for (size_t i = 0; i < m->npatterns; i++)
		cost += m->patterns[i].n + 1;
	for (unsigned i = 0; i < MASK_NAMES; i++)
		cost += (m->names >> i & 1) * MASK_NAMED_COST;
	return cost;
}

size_t mask_turn(const struct mask *m)
{
	size_t cost = mask_cost(m), turn = TURN_BYTES;

	if (cost > TURN_COST)
		turn = turn * TURN_COST / cost;
	return turn > TURN_BYTES_MIN ? turn : TURN_BYTES_MIN;
}
