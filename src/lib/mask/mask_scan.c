/* mask_scan.c - finds needles and patterns in a stream: a bounded number of steps for each byte,
 * for any needles and bytes. mask.c explains how. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/mask/mask_private.h"

/* ---- one escape of a URL, a JSON string or HTML, read byte by byte */

static int escape_hex(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hexadecimal digits from text[from] on. Whole at n == whole. */
static enum mask_escape escape_read_hex(const uint8_t *text, size_t from, size_t n, size_t whole,
					uint32_t *ret)
{
	*ret = 0;
	for (size_t i = from; i < n; i++) {
		int digit = escape_hex(text[i]);

		if (digit < 0)
			return MASK_ESCAPE_NONE;
		*ret = *ret * 16 + (uint32_t)digit;
	}
	return n < whole ? MASK_ESCAPE_MORE : MASK_ESCAPE_WHOLE;
}

/* "\u0041", or both halves of a character above U+FFFF, which JSON in ASCII has as "\ud83d\ude00".
 * A half without the other is NONE at the byte that shows it. */
static enum mask_escape escape_read_unicode(const uint8_t *text, size_t n, uint32_t *ret)
{
	enum mask_escape got = escape_read_hex(text, 2, n < 6 ? n : 6, 6, ret);
	uint32_t high = *ret;

	if (got != MASK_ESCAPE_WHOLE || high < 0xd800 || high > 0xdbff)
		return got;
	if ((n > 6 && text[6] != '\\') || (n > 7 && text[7] != 'u'))
		return MASK_ESCAPE_NONE;
	if (n <= 8)
		return MASK_ESCAPE_MORE;
	got = escape_read_hex(text, 8, n, 12, ret);
	if (got == MASK_ESCAPE_WHOLE && (*ret < 0xdc00 || *ret > 0xdfff))
		return MASK_ESCAPE_NONE;
	*ret = 0x10000 + ((high & 0x3ff) << 10 | (*ret & 0x3ff));
	return got;
}

/* Behind a backslash. */
static enum mask_escape escape_read_backslash(const uint8_t *text, size_t n, uint32_t *ret)
{
	static const char from[] = "\"\\/'bfnrt", to[] = "\"\\/'\b\f\n\r\t";
	const char *at;

	if (text[1] == 'u')
		return escape_read_unicode(text, n, ret);
	if (text[1] == 'U') /* as Python and C write it */
		return escape_read_hex(text, 2, n, 10, ret);
	if (text[1] == 'x')
		return escape_read_hex(text, 2, n, 4, ret);
	at = text[1] == '\0' ? NULL : strchr(from, text[1]);
	if (at == NULL)
		return MASK_ESCAPE_NONE;
	*ret = (uint8_t)to[at - from];
	return MASK_ESCAPE_WHOLE;
}

/* Behind "&#": digits and ';'. */
static enum mask_escape escape_read_number(const uint8_t *text, size_t n, uint32_t *ret)
{
	uint32_t base = n > 2 && (text[2] | 0x20) == 'x' ? 16 : 10;
	size_t i = base == 16 ? 3 : 2, first = i;

	*ret = 0;
	for (; i < n && text[i] != ';'; i++) {
		int digit = escape_hex(text[i]);

		if (digit < 0 || digit >= (int)base)
			return MASK_ESCAPE_NONE;
		*ret = *ret * base + (uint32_t)digit;
	}
	if (i < n) /* at the ';' */
		return i > first && *ret <= 0x10ffff ? MASK_ESCAPE_WHOLE : MASK_ESCAPE_NONE;
	return n < MASK_ESCAPE_MAX ? MASK_ESCAPE_MORE : MASK_ESCAPE_NONE;
}

/* Behind '&'. */
static enum mask_escape escape_read_entity(const uint8_t *text, size_t n, uint32_t *ret)
{
	static const struct {
		const char *name;
		char c;
	} names[] = {
		{ "&lt;", '<' },   { "&gt;", '>' },    { "&amp;", '&' },
		{ "&quot;", '"' }, { "&apos;", '\'' },
	};

	if (text[1] == '#')
		return escape_read_number(text, n, ret);
	for (size_t i = 0; i < COUNT(names); i++) {
		size_t len = strlen(names[i].name);

		if (n > len || memcmp(text, names[i].name, n) != 0)
			continue;
		*ret = (uint8_t)names[i].c;
		return n < len ? MASK_ESCAPE_MORE : MASK_ESCAPE_WHOLE;
	}
	return MASK_ESCAPE_NONE;
}

/* Is the text an escape, or the start of one? *ret: the character it stands for. The text is one
 * byte longer in each call, and begins with mask_escape_begins(). */
static enum mask_escape mask_escape_read(const uint8_t *text, size_t n, uint32_t *ret)
{
	if (n == 1)
		return MASK_ESCAPE_MORE;
	if (text[0] == '%')
		return escape_read_hex(text, 1, n, 3, ret);
	return text[0] == '\\' ? escape_read_backslash(text, n, ret)
			       : escape_read_entity(text, n, ret);
}

/* ---- places to be covered */

static void scan_runs_make_room(struct mask_scan *s)
{
	if (s->first + s->n < s->cap)
		return;
	if (s->first > s->cap / 2) {
		memmove(s->runs, s->runs + s->first, s->n * sizeof(s->runs[0]));
		s->first = 0;
		return;
	}
	s->cap = s->cap == 0 ? 16 : s->cap * 2;
	s->runs = reallocarray(s->runs, s->cap, sizeof(s->runs[0]));
	assert(s->runs != NULL);
}

/* Runs that the new one touches become part of it. Those of different views come nearly in order:
 * an escape is known to be none some bytes later. */
static void scan_cover(struct mask_scan *s, uint64_t from, uint64_t to)
{
	size_t i, k;

	scan_runs_make_room(s);
	for (k = s->first + s->n; k > s->first && s->runs[k - 1].from > to; k--)
		;
	for (i = k; i > s->first && s->runs[i - 1].to >= from; i--) {
		from = s->runs[i - 1].from < from ? s->runs[i - 1].from : from;
		to = s->runs[i - 1].to > to ? s->runs[i - 1].to : to;
	}
	memmove(s->runs + i + 1, s->runs + k, (s->first + s->n - k) * sizeof(s->runs[0]));
	s->runs[i] = (struct mask_run){ from, to };
	s->n = s->n + 1 - (k - i);
	s->places = s->places + 1 - (k - i);
}

void mask_scan_cover(const struct mask_scan *s, uint64_t from, uint8_t *out, size_t n)
{
	for (size_t i = s->first; i < s->first + s->n && s->runs[i].from < from + n; i++) {
		uint64_t begin = s->runs[i].from > from ? s->runs[i].from - from : 0;
		uint64_t end = s->runs[i].to > from ? s->runs[i].to - from : 0;

		end = end < n ? end : n;
		if (end > begin)
			memset(out + begin, '*', (size_t)(end - begin));
	}
}

uint64_t mask_scan_whole(const struct mask_scan *s, uint64_t at)
{
	size_t low = s->first, high = s->first + s->n;

	while (low < high) { /* the first run that ends behind it */
		size_t middle = low + (high - low) / 2;

		if (s->runs[middle].to > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low < s->first + s->n && s->runs[low].from < at ? s->runs[low].from : at;
}

void mask_scan_forget(struct mask_scan *s, uint64_t to)
{
	while (s->n > 0 && s->runs[s->first].to <= to) {
		s->first++;
		s->n--;
	}
	if (s->n == 0)
		s->first = 0;
}

void mask_scan_adopt(struct mask_scan *s, uint64_t base, const struct mask_scan *old,
		     uint64_t old_base)
{
	size_t cap = s->n + old->n + 1, n = 0, i = 0, k = 0;
	struct mask_run *all = reallocarray(NULL, cap, sizeof(all[0]));

	assert(all != NULL);
	while (i < s->n || k < old->n) {
		struct mask_run r = { 0 }, o = { 0 };

		if (i < s->n)
			r = s->runs[s->first + i];
		if (k < old->n) {
			o = old->runs[old->first + k];
			o.from = base + (o.from > old_base ? o.from - old_base : 0);
			o.to = base + (o.to > old_base ? o.to - old_base : 0);
		}
		if (i == s->n || (k < old->n && o.from < r.from)) {
			r = o;
			k++;
		} else {
			i++;
		}
		if (n > 0 && all[n - 1].to >= r.from)
			all[n - 1].to = all[n - 1].to > r.to ? all[n - 1].to : r.to;
		else
			all[n++] = r;
	}
	s->places = n > old->n ? n - old->n : 0; /* the others are counted */
	free(s->runs);
	s->runs = all;
	s->first = 0;
	s->n = n;
	s->cap = cap;
}

/* ---- views */

/* Where the unit so many units back began. The stream has `end` bytes by then. */
static uint64_t scan_view_began(const struct mask_scan *s, const struct mask_view *v,
				uint64_t units, uint64_t end)
{
	uint32_t at = v->at[(v->units - units) & (s->size - 1)];

	return end - (uint32_t)((uint32_t)end - at);
}

static uint64_t scan_view_hash(const struct mask_scan *s, const struct mask_view *v, uint64_t units,
			       uint64_t power)
{
	return v->hash - v->sum[(v->units - units) & (s->size - 1)] * power;
}

static void scan_cover_needle(struct mask_scan *s, const struct mask_view *v,
			      const struct mask_needle *n, uint64_t end)
{
	uint64_t from = scan_view_began(s, v, n->units, end);

	scan_cover(s, from > n->before ? from - n->before : 0, end);
}

/* The needles of a chain, longest first: the first found covers the others. */
static void scan_look_at_chain(struct mask_scan *s, const struct mask_view *v, uint32_t i,
			       uint64_t end)
{
	for (; i != 0; i = s->m->needles[i - 1].next) {
		const struct mask_needle *n = &s->m->needles[i - 1];

		s->steps++;
		if (v->units < n->units || scan_view_hash(s, v, n->units, n->power) != n->hash ||
		    !mask_pick_has(s->only, n->value))
			continue;
		scan_cover_needle(s, v, n, end);
		return;
	}
}

/* As above, for all values: see mask_lengths.c. */
static void scan_look_at_lengths(struct mask_scan *s, const struct mask_view *v,
				 const struct mask_slot *slot, uint64_t end)
{
	uint32_t low = slot->lengths, high = low + slot->nlengths, best = 0;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct mask_length *l = &s->m->lengths[middle];
		const struct mask_mark *mark =
			v->units < l->units
				? NULL
				: mask_lengths_mark(s->m, l->units,
						    scan_view_hash(s, v, l->units, l->power));

		s->steps++;
		if (mark == NULL) {
			high = middle;
			continue;
		}
		best = mark->best != 0 ? mark->best : best;
		low = middle + 1;
	}
	if (best != 0)
		scan_cover_needle(s, v, &s->m->needles[best - 1], end);
}

static void scan_look(struct mask_scan *s, const struct mask_view *v, uint64_t end)
{
	for (size_t k = 0; k < s->m->nwindows; k++) {
		const struct mask_window *w = &s->m->windows[k];
		uint64_t hash;

		if (v->units < w->width)
			continue;
		s->steps++;
		hash = scan_view_hash(s, v, w->width, w->power);
		for (size_t i = hash * MASK_BASE >> w->shift; w->slots[i].first != 0;
		     i = (i + 1) & (w->n - 1))
			if (w->slots[i].end == hash) {
				if (s->only == NULL)
					scan_look_at_lengths(s, v, &w->slots[i], end);
				else
					scan_look_at_chain(s, v, w->slots[i].first, end);
				break;
			}
	}
}

/* One byte of a view, which stands in the stream from `from` to `end`. */
static void scan_view_take(struct mask_scan *s, struct mask_view *v, uint8_t c, uint64_t from,
			   uint64_t end)
{
	uint64_t place = v->units & (s->size - 1);

	if (mask_is_break(c))
		return;
	v->sum[place] = v->hash;
	v->at[place] = (uint32_t)from;
	v->units++;
	v->hash = mask_hash_add(v->hash, mask_fold(c));
	scan_look(s, v, end);
}

/* ---- the decoded view */

static size_t scan_utf8(uint32_t c, uint8_t ret[4])
{
	if (c < 0x80) {
		ret[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		ret[0] = (uint8_t)(0xc0 | c >> 6);
		ret[1] = (uint8_t)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		ret[0] = (uint8_t)(0xe0 | c >> 12);
		ret[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		ret[2] = (uint8_t)(0x80 | (c & 0x3f));
		return 3;
	}
	ret[0] = (uint8_t)(0xf0 | c >> 18);
	ret[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
	ret[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	ret[3] = (uint8_t)(0x80 | (c & 0x3f));
	return 4;
}

/* From here on the view `twice` differs from `decoded`: it begins as `decoded` did before the
 * escape. Its rings have MASK_ESCAPE_ROOM units more than a needle, so those are still there. */
static void scan_fork_view(struct mask_scan *s, uint64_t units)
{
	memcpy(s->twice.sum, s->decoded.sum, s->size * sizeof(s->twice.sum[0]));
	memcpy(s->twice.at, s->decoded.at, s->size * sizeof(s->twice.at[0]));
	s->twice.units = units;
	s->twice.hash = s->twice.sum[units & (s->size - 1)];
	s->twice_differs = true;
}

static void scan_decode(struct mask_scan *s, unsigned level, uint8_t c, struct mask_run at);

/* A byte with the escapes of that level undone. */
static void scan_put(struct mask_scan *s, unsigned level, uint8_t c, struct mask_run at)
{
	if (level == 0) {
		scan_view_take(s, &s->decoded, c, at.from, at.to);
		if (s->twice_differs || s->decoders[1].n > 0 || mask_escape_begins(c))
			scan_decode(s, 1, c, at);
	} else if (s->twice_differs) {
		scan_view_take(s, &s->twice, c, at.from, at.to);
		s->twice_differs = s->twice.units < s->twice_until;
	}
}

/* The first n bytes read are an escape. Of URLs and "\x": a byte. Of others: a character. */
static void scan_take_escape(struct mask_scan *s, unsigned level, size_t n, uint32_t code)
{
	struct mask_decoder *d = &s->decoders[level];
	bool is_byte = d->text[0] == '%' || (d->text[0] == '\\' && d->text[1] == 'x');
	uint8_t bytes[4] = { (uint8_t)code };
	struct mask_run at = { d->at[0].from, d->at[n - 1].to };
	size_t len = is_byte ? 1 : scan_utf8(code, bytes);

	d->n = 0;
	if (level == 1) {
		if (!s->twice_differs)
			scan_fork_view(s, d->units);
		s->twice_until = s->twice.units + len + s->m->longest;
	}
	for (size_t i = 0; i < len; i++)
		scan_put(s, level, bytes[i], at);
}

/* The bytes read so far are no escape: they are literal. The last `keep` of them are not consumed
 * yet. */
static void scan_take_literally(struct mask_scan *s, unsigned level, size_t keep)
{
	struct mask_decoder *d = &s->decoders[level];
	size_t n = d->n;

	d->n = 0;
	for (size_t i = 0; i + keep < n; i++)
		scan_put(s, level, d->text[i], d->at[i]);
}

/* "\ud83d" without its other half: the bytes behind it are read again. */
static void scan_take_half(struct mask_scan *s, unsigned level)
{
	struct mask_decoder d = s->decoders[level];
	uint32_t code = 0;

	(void)mask_escape_read(d.text, 6, &code);
	scan_take_escape(s, level, 6, code);
	for (size_t i = 6; i < d.n; i++)
		scan_decode(s, level, d.text[i], d.at[i]);
}

/* The byte at `at` of that level's input: the stream, or the stream decoded once. */
static void scan_decode(struct mask_scan *s, unsigned level, uint8_t c, struct mask_run at)
{
	struct mask_decoder *d = &s->decoders[level];
	uint32_t code = 0;

	if (d->n == 0 && !mask_escape_begins(c)) {
		scan_put(s, level, c, at);
		return;
	}
	if (d->n == 0)
		d->units = s->decoded.units - 1;
	d->text[d->n] = c;
	d->at[d->n++] = at;
	switch (mask_escape_read(d->text, d->n, &code)) {
	case MASK_ESCAPE_MORE:
		break;
	case MASK_ESCAPE_WHOLE:
		scan_take_escape(s, level, d->n, code);
		break;
	case MASK_ESCAPE_NONE: /* but for half a character, only its last byte can begin another */
		if (d->n > 6 && d->text[1] == 'u') {
			scan_take_half(s, level);
			break;
		}
		scan_take_literally(s, level, 1);
		scan_decode(s, level, c, at);
		break;
	}
}

/* ---- all of it */

/* A longer cover of the same place counts once. */
static void scan_cover_counted(struct mask_scan *s, unsigned what, uint64_t from, uint64_t to)
{
	uint64_t before = s->places;

	scan_cover(s, from, to);
	if (s->places > before)
		s->counts[what] += s->places - before;
}

static void scan_step_patterns(struct mask_scan *s, uint8_t c, size_t at)
{
	for (size_t i = 0; i < s->m->npatterns; i++) {
		const struct mask_pattern *p = &s->m->patterns[i];
		size_t began;

		if (s->patterns[i].top == 0 && !mask_set_has(&p->set[0], c))
			continue;
		s->steps += s->patterns[i].top + 1;
		began = mask_pattern_step(p, &s->patterns[i], c, at);
		if (began != MASK_NONE)
			scan_cover_counted(s, MASK_OF_PATTERN, began, at + 1);
	}
}

static void on_named(void *arg, enum mask_name name, uint64_t from, uint64_t to)
{
	struct mask_scan *s = arg;
	uint64_t first = s->at - s->named.n; /* the scan may have begun in the middle */

	scan_cover_counted(s, name, first + from, first + to);
}

void mask_scan_settle(struct mask_scan *s)
{
	if (s->m->names != 0)
		mask_named_settle(&s->named, s->m->names, on_named, s);
}

static void scan_step_named(struct mask_scan *s, uint8_t c)
{
	s->at--; /* as the byte's number is in both */
	s->steps++;
	mask_named_step(&s->named, s->m->names, c, on_named, s);
	s->at++;
}

void mask_scan_feed(struct mask_scan *s, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t at = s->at++;

		if (s->m->npatterns > 0)
			scan_step_patterns(s, data[i], (size_t)at);
		if (s->m->names != 0)
			scan_step_named(s, data[i]);
		if (s->m->n == 0)
			continue;
		scan_view_take(s, &s->raw, data[i], at, at + 1);
		scan_decode(s, 0, data[i], (struct mask_run){ at, at + 1 });
	}
}

void mask_scan_end(struct mask_scan *s)
{
	scan_take_literally(s, 0, 0);
	scan_take_literally(s, 1, 0);
	mask_scan_settle(s);
}

void mask_scan_restart(struct mask_scan *s)
{
	s->decoded.units = s->decoded.hash = s->raw.units = s->raw.hash = 0;
	s->decoders[0].n = s->decoders[1].n = 0;
	s->twice_differs = false;
	s->at = 0;
	s->first = s->n = 0;
	s->places = 0;
	memset(s->counts, 0, sizeof(s->counts));
	s->named = (struct mask_named){ 0 };
	for (size_t i = 0; i < s->m->npatterns; i++)
		s->patterns[i].top = 0;
}

static int scan_view_init(struct mask_view *v, uint64_t size)
{
	v->sum = calloc(size, sizeof(v->sum[0]));
	v->at = calloc(size, sizeof(v->at[0]));
	return v->sum == NULL || v->at == NULL ? -1 : 0;
}

static void scan_view_release(struct mask_view *v, uint64_t size)
{
	if (v->sum != NULL)
		explicit_bzero(v->sum, size * sizeof(v->sum[0]));
	free(v->sum);
	free(v->at);
}

struct mask_scan *mask_scan_new(const struct mask *m)
{
	struct mask_scan *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->m = m;
	s->npatterns = m->npatterns;
	s->size = 1;
	while (s->size < m->longest + MASK_ESCAPE_ROOM)
		s->size *= 2;
	if (m->npatterns > 0)
		s->patterns = calloc(m->npatterns, sizeof(s->patterns[0]));
	if (scan_view_init(&s->decoded, s->size) < 0 || scan_view_init(&s->raw, s->size) < 0 ||
	    scan_view_init(&s->twice, s->size) < 0 || (m->npatterns > 0 && s->patterns == NULL)) {
		mask_scan_free(s);
		return NULL;
	}
	return s;
}

size_t mask_scan_memory(const struct mask_scan *s)
{
	size_t view = (size_t)s->size * (sizeof(s->raw.sum[0]) + sizeof(s->raw.at[0]));

	return sizeof(*s) + 3 * view + s->npatterns * sizeof(s->patterns[0]) +
	       s->cap * sizeof(s->runs[0]);
}

void mask_scan_free(struct mask_scan *s)
{
	if (s == NULL)
		return;
	scan_view_release(&s->decoded, s->size);
	scan_view_release(&s->raw, s->size);
	scan_view_release(&s->twice, s->size);
	free(s->patterns);
	free(s->runs);
	explicit_bzero(s, sizeof(*s));
	free(s);
}
