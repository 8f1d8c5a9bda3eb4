/* mask.c - theory of operation
 *
 * Values are not looked for in the bytes themselves but in the folded stream: percent-escapes are
 * undone, the two alphabets of base64 and a form's space are one, and line breaks are not there (a
 * third one in a row is: it ends every match, so that a match has a longest extent). So the value,
 * its three forms in base64 and its JSON form find whatever mixture of encodings there is. An
 * escape has '%' at its start only: where one begins does not depend on what was before, and the
 * stream can be walked in both directions. What holds a '%', or could seem to be part of an escape,
 * is also looked for in the bytes as they are, and so are patterns.
 *
 * Almost all text is nothing. A bitmap of all pairs of bytes that something can begin with is asked
 * for each place; only where it says yes, and until nothing is under way any more, each byte is
 * given to the texts that are under way and to those that begin with it.
 *
 * A stream keeps what it held back as it was, from where the longest beginning starts, and looks at
 * it again with what comes next. At that place nothing else was under way, so a new look from there
 * sees what a look at the whole would see: where a stream is cut makes no difference. What was
 * found across that place is kept as a number of covered bytes. */
#include "mask.h"

#include <assert.h>
#include <string.h>

#include "mask_inside.h"

/* ---- making one */

static void pair_set(struct mask *m, uint8_t a, uint8_t b)
{
	size_t i = (size_t)a << 8 | b;

	m->pairs[i >> 6] |= 1ULL << (i & 63);
	m->single[a] = true;
}

static void pairs_of_needle(struct mask *m, const struct mask_needle *n)
{
	for (unsigned a = 0; a < 256; a++) {
		if ((n->raw ? a : mask_fold((uint8_t)a)) != n->text[0])
			continue;
		for (unsigned b = 0; b < 256; b++)
			if ((n->raw ? b : mask_fold((uint8_t)b)) == n->text[1] ||
			    (!n->raw && (b == '%' || mask_is_break((uint8_t)b))))
				pair_set(m, (uint8_t)a, (uint8_t)b);
	}
	/* All of them: who begins inside of one would read it differently. */
	for (unsigned b = 0; b < 256 && !n->raw; b++)
		if (mask_hex((uint8_t)b) >= 0)
			pair_set(m, '%', (uint8_t)b);
}

static void pairs_of_pattern(struct mask *m, const struct mask_pattern *p)
{
	struct mask_set second = mask_pattern_second(p);

	for (unsigned a = 0; a < 256; a++)
		for (unsigned b = 0; b < 256 && mask_set_has(&p->set[0], (uint8_t)a); b++)
			if (mask_set_has(&second, (uint8_t)b))
				pair_set(m, (uint8_t)a, (uint8_t)b);
}

static int add_one(struct mask *m, const uint8_t *text, size_t len, bool raw)
{
	struct mask_needle made, *all;
	int got = mask_needle_make(text, len, raw, &made);

	if (got != 0)
		return got < 0 ? -1 : 0;
	for (size_t i = 0; i < m->n; i++)
		if (m->needles[i].raw == raw && m->needles[i].len == made.len &&
		    memcmp(m->needles[i].text, made.text, made.len) == 0) {
			mask_needle_release(&made);
			return 0;
		}
	all = reallocarray(m->needles, m->n + 1, sizeof(*all));
	if (all == NULL) {
		mask_needle_release(&made);
		return -1;
	}
	m->needles = all;
	m->needles[m->n++] = made;
	return 0;
}

/* Behind a '%' a text that begins with a digit looks like an escape, and is found as it is. */
static int add_needle(void *arg, const uint8_t *text, size_t len, bool raw)
{
	if (add_one(arg, text, len, raw) < 0)
		return -1;
	return !raw && len > 0 && mask_hex(text[0]) >= 0 ? add_one(arg, text, len, true) : 0;
}

static int add_patterns(struct mask *m, const char *const *patterns, size_t n, struct err *e)
{
	if (n == 0)
		return 0;
	m->patterns = calloc(n, sizeof(m->patterns[0]));
	if (m->patterns == NULL)
		return err_sys(e, "allocate patterns");
	m->npatterns = n;
	for (size_t i = 0; i < n; i++) {
		if (mask_pattern_read(patterns[i], &m->patterns[i], e) < 0)
			return -1;
		pairs_of_pattern(m, &m->patterns[i]);
		if (m->patterns[i].n > m->reach)
			m->reach = m->patterns[i].n;
	}
	return 0;
}

/* When all are there: their places do not change any more. */
static int index_needles(struct mask *m)
{
	for (size_t i = 0; i < m->n; i++) {
		struct mask_needle *n = &m->needles[i];
		size_t extent = n->raw ? n->len : n->len * MASK_EXTENT;

		n->next_first = m->first[n->raw][n->text[0]];
		m->first[n->raw][n->text[0]] = n;
		pairs_of_needle(m, n);
		if (extent > m->reach)
			m->reach = extent;
	}
	for (int raw = 0; raw < 2; raw++) {
		m->active[raw] = calloc(m->n + 1, sizeof(void *));
		if (m->active[raw] == NULL)
			return -1;
	}
	return 0;
}

struct mask *mask_new(const char *const *values, const size_t *lens, size_t n,
		      const char *const *patterns, size_t npatterns, struct err *e)
{
	struct mask *m = calloc(1, sizeof(*m));

	if (m == NULL) {
		(void)err_sys(e, "allocate mask");
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		if (lens[i] < MASK_VALUE_MIN)
			continue;
		if (lens[i] > MASK_VALUE_MAX)
			(void)err_set(e, ERR_LIMIT, "a value to mask has more than %d bytes",
				      MASK_VALUE_MAX);
		else if (mask_needle_each((const uint8_t *)values[i], lens[i], add_needle, m) < 0)
			(void)err_sys(e, "allocate mask");
		else
			continue;
		mask_free(m);
		return NULL;
	}
	if (add_patterns(m, patterns, npatterns, e) < 0) {
		mask_free(m);
		return NULL;
	}
	if (index_needles(m) < 0) {
		(void)err_sys(e, "allocate mask");
		mask_free(m);
		return NULL;
	}
	return m;
}

void mask_free(struct mask *m)
{
	if (m == NULL)
		return;
	for (size_t i = 0; i < m->n; i++)
		mask_needle_release(&m->needles[i]);
	free(m->needles);
	free(m->patterns);
	free(m->active[0]);
	free(m->active[1]);
	explicit_bzero(m, sizeof(*m));
	free(m);
}

size_t mask_reach(const struct mask *m)
{
	return m->reach;
}

/* Whoever uses a mask does not change it; what it notes during a look is nobody else's. */
static struct mask *notes_of(const struct mask *m)
{
	union {
		const struct mask *in;
		struct mask *out;
	} u = { .in = m };

	return u.out;
}

size_t mask_text(const struct mask *m, uint8_t *text, size_t len)
{
	struct mask_look l = { .m = notes_of(m), .n = len, .out = text };
	uint8_t *copy = malloc(len + 1);

	assert(copy != NULL);
	memcpy(copy, text, len);
	l.src = copy;
	mask_look_at(&l, true);
	mask_look_cover_beginning(&l);
	mask_look_forget(l.m);
	explicit_bzero(copy, len);
	free(copy);
	return l.places;
}

/* ---- streams */

void mask_stream_release(struct mask_stream *s)
{
	if (s->held != NULL)
		explicit_bzero(s->held, s->n);
	free(s->held);
	*s = (struct mask_stream){ 0 };
}

/* Keeps src from h on. */
static void hold(struct mask_stream *s, const struct mask_look *l, size_t h)
{
	uint8_t *held = NULL;
	size_t n = l->n - h, covered = 0;

	if (n > 0) {
		held = malloc(n);
		assert(held != NULL);
		memcpy(held, l->src + h, n);
	}
	/* A '*' that was there counts as covered, and makes no difference. */
	while (covered < n && l->out[h + covered] == '*')
		covered++;
	if (s->held != NULL)
		explicit_bzero(s->held, s->n);
	free(s->held);
	s->held = held;
	s->n = n;
	s->covered = covered;
	s->shown = s->shown > h ? s->shown - h : 0;
}

size_t mask_feed(const struct mask *m, struct mask_stream *s, const uint8_t *data, size_t len,
		 uint8_t *out)
{
	struct mask_look l = { .m = notes_of(m), .src = data, .n = s->n + len, .out = out };
	size_t h, end, shown = s->shown;
	uint8_t *both = NULL;

	if (len == 0)
		return 0;
	if (s->n > 0) {
		both = malloc(l.n);
		assert(both != NULL);
		memcpy(both, s->held, s->n);
		memcpy(both + s->n, data, len);
		l.src = both;
	}
	memcpy(out, l.src, l.n);
	memset(out, '*', s->covered);
	mask_look_at(&l, false);
	h = mask_look_hold(&l);
	hold(s, &l, h);
	mask_look_forget(l.m);
	if (both != NULL)
		explicit_bzero(both, l.n);
	free(both);
	/* What is covered is known, even where something else may begin in it. */
	end = h + s->covered;
	if (end <= shown)
		return 0;
	if (s->shown < s->covered)
		s->shown = s->covered;
	memmove(out, out + shown, end - shown);
	return end - shown;
}

size_t mask_flush(const struct mask *m, struct mask_stream *s, uint8_t *out)
{
	struct mask_look l = { .m = notes_of(m), .src = s->held, .n = s->n, .out = out };
	size_t n = s->n - s->shown;

	if (n == 0)
		return 0;
	memcpy(out, s->held, s->n);
	memset(out, '*', s->covered);
	mask_look_at(&l, true);
	mask_look_cover_beginning(&l);
	mask_look_forget(l.m);
	memmove(out, out + s->shown, n);
	s->shown = s->n;
	return n;
}

size_t mask_end(const struct mask *m, struct mask_stream *s, uint8_t *out)
{
	size_t n = mask_flush(m, s, out);

	mask_stream_release(s);
	return n;
}
