/* Goal: on random values and texts, cut anywhere, the mask covers what a slow and obvious search
 * finds, and nothing else. The seed is printed; TEST_SEED sets it. */
#include <time.h>

#include "lib/base/base64.h"
#include "lib/mask/mask.h"
#include "support.h"

#define TEXT_MAX 2000
#define VALUES 4
#define VALUE_LEN 20 /* so short that every form of it fits into what is held back */
#define ROUNDS 1000

static uint64_t seed;

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

/* ---- the obvious search */

struct unit {
	uint8_t c;
	size_t from, to;
};

static uint8_t fold(uint8_t c)
{
	return c == '-' || c == ' ' ? '+' : c == '_' ? '/' : c;
}

static size_t add_unit(struct unit *units, size_t n, uint8_t c, size_t from, size_t to)
{
	if (c == '\n' || c == '\r')
		return n;
	units[n] = (struct unit){ fold(c), from, to };
	return n + 1;
}

/* Digits of that base at text[from]; *ret_to is behind them. */
static bool number(const char *text, size_t from, size_t most, int base, long *ret, size_t *ret_to)
{
	char digits[16] = { 0 };
	size_t n = 0;
	char *end;

	while (n < most && text[from + n] != '\0' &&
	       strchr(base == 16 ? "0123456789abcdefABCDEF" : "0123456789", text[from + n]) !=
		       NULL) {
		digits[n] = text[from + n];
		n++;
	}
	*ret = strtol(digits, &end, base);
	*ret_to = from + n;
	return n > 0;
}

/* The escape at text[i]: where it ends and what it is; 0: there is none. */
static size_t escape(const char *text, size_t i, long *ret)
{
	static const char *const names[] = { "&lt;", "&gt;", "&amp;", "&quot;", "&apos;" };
	static const char simple[] = "\"\\/'bfnrt", means[] = "\"\\/'\b\f\n\r\t";
	const char *at;
	size_t to;

	if (text[i] == '%')
		return number(text, i + 1, 2, 16, ret, &to) && to == i + 3 ? to : 0;
	if (text[i] == '\\' && text[i + 1] == 'u')
		return number(text, i + 2, 4, 16, ret, &to) && to == i + 6 ? to : 0;
	if (text[i] == '\\' && text[i + 1] == 'U')
		return number(text, i + 2, 8, 16, ret, &to) && to == i + 10 ? to : 0;
	if (text[i] == '\\' && text[i + 1] == 'x')
		return number(text, i + 2, 2, 16, ret, &to) && to == i + 4 ? to : 0;
	if (text[i] == '\\') {
		at = text[i + 1] == '\0' ? NULL : strchr(simple, text[i + 1]);
		if (at != NULL)
			*ret = means[at - simple];
		return at == NULL ? 0 : i + 2;
	}
	if (text[i] != '&')
		return 0;
	for (size_t k = 0; k < COUNT(names); k++)
		if (strncmp(text + i, names[k], strlen(names[k])) == 0) {
			*ret = "<>&\"'"[k];
			return i + strlen(names[k]);
		}
	if (text[i + 1] != '#')
		return 0;
	if ((text[i + 2] | 0x20) == 'x')
		return number(text, i + 3, 6, 16, ret, &to) && text[to] == ';' && *ret <= 0x10ffff
			       ? to + 1
			       : 0;
	return number(text, i + 2, 7, 10, ret, &to) && text[to] == ';' && *ret <= 0x10ffff ? to + 1
											   : 0;
}

/* What the units are with their escapes undone. Characters that are several bytes are in no value
 * here. */
static size_t decode(const struct unit *from, size_t n, struct unit *ret)
{
	static char text[TEXT_MAX + 1];
	size_t count = 0, to;

	for (size_t i = 0; i < n; i++)
		text[i] = (char)from[i].c;
	text[n] = '\0';
	for (size_t i = 0; i < n; i = to) {
		long c = from[i].c;

		to = escape(text, i, &c);
		if (to == 0) {
			c = from[i].c;
			to = i + 1;
		}
		ret[count++] = (struct unit){ c > 0x7f || c == 0 ? 0x80 : (uint8_t)c, from[i].from,
					      from[to - 1].to };
	}
	return count;
}

/* Decoded so many times. */
static size_t view(const char *text, unsigned times, struct unit *units)
{
	static struct unit all[TEXT_MAX + 1], next[TEXT_MAX + 1];
	size_t n = strlen(text), k = 0;

	for (size_t i = 0; i < n; i++)
		all[i] = (struct unit){ (uint8_t)text[i], i, i + 1 };
	for (unsigned i = 0; i < times; i++) {
		n = decode(all, n, next);
		memcpy(all, next, n * sizeof(all[0]));
	}
	for (size_t i = 0; i < n; i++)
		k = add_unit(units, k, all[i].c, all[i].from, all[i].to);
	return k;
}

static void search(const struct unit *units, size_t n, const char *needle, size_t len, char *out)
{
	char folded[64];
	size_t k = 0;

	for (size_t i = 0; i < len; i++)
		if (needle[i] != '\n' && needle[i] != '\r')
			folded[k++] = (char)fold((uint8_t)needle[i]);
	for (size_t i = 0; k >= MASK_VALUE_MIN && i + k <= n; i++) {
		size_t same = 0;

		while (same < k && units[i + same].c == (uint8_t)folded[same])
			same++;
		if (same == k)
			memset(out + units[i].from, '*', units[i + k - 1].to - units[i].from);
	}
}

static void reference(char (*values)[VALUE_LEN + 1], size_t nvalues, const char *text, char *out)
{
	static struct unit units[TEXT_MAX + 1];

	(void)snprintf(out, TEXT_MAX + 1, "%s", text);
	for (unsigned times = 0; times < 3; times++) {
		size_t n = view(text, times, units);

		for (size_t v = 0; v < nvalues; v++) {
			size_t len = strlen(values[v]);
			char plain[VALUE_LEN + 3] = { 0 }, coded[64];

			if (len < MASK_VALUE_MIN)
				continue;
			search(units, n, values[v], len, out);
			for (size_t j = 0; j < 3; j++) {
				size_t first = (8 * j + 5) / 6, end = 8 * (j + len) / 6;

				memcpy(plain + j, values[v], len);
				base64_encode(plain, j + len, coded);
				search(units, n, coded + first, end - first, out);
			}
		}
	}
}

/* ---- random ones */

static void make_value(char ret[VALUE_LEN + 1])
{
	static const char *const alphabets[] = { "a", "ab", "abc-_ /+", "ab%41\\u0061&lt;#x\n",
						 "azAZ09<>&\"'\\/%" };
	const char *alphabet = alphabets[below(COUNT(alphabets))];
	size_t n = 4 + below(VALUE_LEN - 3);

	for (size_t i = 0; i < n; i++)
		ret[i] = alphabet[below((unsigned)strlen(alphabet))];
	ret[n] = '\0';
}

enum {
	PLAIN,
	PERCENT,
	JSON_NUMBER,
	PYTHON_NUMBER,
	JSON_BYTE,
	JSON_SIMPLE,
	HTML_NUMBER,
	HTML_HEX,
	HTML_NAME,
	KINDS
};

/* One character as servers write it. Returns its length. */
static size_t encode(unsigned kind, char c, char *ret)
{
	static const char simple[] = "\"\\/'\n\r", written[] = "\"\\/'nr", named[] = "<>&\"'";
	static const char *const names[] = { "&lt;", "&gt;", "&amp;", "&quot;", "&apos;" };
	const char *at;

	switch (kind) {
	case PERCENT:
		return (size_t)snprintf(ret, 16, "%%%02X", c);
	case JSON_NUMBER:
		return (size_t)snprintf(ret, 16, "\\u%04x", c);
	case PYTHON_NUMBER:
		return (size_t)snprintf(ret, 16, "\\U%08x", c);
	case JSON_BYTE:
		return (size_t)snprintf(ret, 16, "\\x%02x", c);
	case HTML_NUMBER:
		return (size_t)snprintf(ret, 16, "&#%d;", c);
	case HTML_HEX:
		return (size_t)snprintf(ret, 16, "&#x%x;", c);
	case JSON_SIMPLE:
		at = strchr(simple, c);
		return (size_t)(at == NULL ? snprintf(ret, 16, "%c", c)
					   : snprintf(ret, 16, "\\%c", written[at - simple]));
	case HTML_NAME:
		at = strchr(named, c);
		return (size_t)(at == NULL ? snprintf(ret, 16, "%c", c)
					   : snprintf(ret, 16, "%s", names[at - named]));
	default:
		return (size_t)snprintf(ret, 16, "%c", c);
	}
}

/* A value, or a part of it, in base64 or in some encoding of each of its characters. */
static void add_encoded(char *text, const char *value)
{
	unsigned kind = below(KINDS + 1), from = below(3) == 0 ? below(3) : 0;
	unsigned cut = below(4) == 0 ? 1 + below(3) : 0;
	unsigned again = below(3) == 0 ? JSON_SIMPLE : below(6) == 0 ? HTML_NAME : PLAIN;
	size_t len = strlen(value), at = strlen(text);
	char coded[64], plain[VALUE_LEN + 3] = "xy";

	if (kind == KINDS) {
		unsigned j = below(3);

		memcpy(plain + j, value, len);
		base64_encode(plain, j + len, coded);
		(void)snprintf(text + at, TEXT_MAX - at, "%s", coded);
		return;
	}
	for (size_t i = from; i + cut < len && at + 60 < TEXT_MAX; i++) {
		bool always = kind == JSON_SIMPLE || kind == HTML_NAME;
		char once[16];
		size_t n = encode(always || below(3) == 0 ? kind : PLAIN, value[i], once);

		for (size_t k = 0; k < n; k++)
			at += encode(again, once[k], text + at);
		if (below(12) == 0)
			at += (size_t)snprintf(text + at, 16, "%s", below(2) == 0 ? "\n" : "\r\n");
	}
}

static void make_text(char (*values)[VALUE_LEN + 1], char *text)
{
	static const char noise[] = "ab%\\&;#xuUd0146ltgt \n-_/+\"'<>=";
	size_t want = below(TEXT_MAX - 200);

	text[0] = '\0';
	while (strlen(text) < want) {
		size_t at = strlen(text), n = below(12);

		if (below(2) == 0)
			add_encoded(text, values[below(VALUES)]);
		at = strlen(text);
		for (size_t i = 0; i < n && at < TEXT_MAX - 1; i++)
			text[at++] = noise[below(sizeof(noise) - 1)];
		text[at] = '\0';
	}
}

/* In pieces of random sizes. The two masks have the same values and take turns. */
static size_t run_stream(const struct mask *a, const struct mask *b, const char *text, bool ticks,
			 uint8_t *out)
{
	struct mask_stream s = { 0 };
	size_t len = strlen(text), n = 0;

	for (size_t i = 0, step; i < len; i += step) {
		const struct mask *m = i / 9 % 2 == 0 ? a : b;
		uint8_t *piece;

		step = 1 + below(below(2) == 0 ? 4 : 400);
		step = step < len - i ? step : len - i;
		piece = exact_copy(text + i, step);
		n += mask_feed(m, &s, piece, step, out + n);
		free(piece);
		if (ticks && below(3) == 0)
			n += mask_tick(m, &s, below(2) == 0, out + n);
	}
	return n + mask_end(b, &s, out + n);
}

/* With ticks a part of what is found may be shown before. A change of the mask changes nothing. */
static void check_stream(const struct mask *m, const struct mask *other, const char *text,
			 const char *want, bool ticks)
{
	static uint8_t out[4 * TEXT_MAX], changed[4 * TEXT_MAX];
	uint64_t schedule = seed;
	size_t len = strlen(text), n = run_stream(m, m, text, ticks, out);

	CHECK_CASE(text, n == len);
	seed = schedule;
	CHECK_CASE(text, run_stream(m, other, text, ticks, changed) == n);
	CHECK_CASE(text, memcmp(out, changed, n) == 0);
	for (size_t i = 0; i < len; i++)
		CHECK_CASE(text, ticks ? out[i] == (uint8_t)text[i] || want[i] == '*'
				       : out[i] == (uint8_t)want[i]);
}

static void finds_the_same(void)
{
	const char *given = secure_getenv("TEST_SEED");
	static char values[VALUES][VALUE_LEN + 1], text[TEXT_MAX + 1], want[TEXT_MAX + 1],
		got[TEXT_MAX + 1];

	seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	printf("# TEST_SEED=%llu\n", (unsigned long long)seed);
	for (int round = 0; round < ROUNDS; round++) {
		const char *at[VALUES];
		size_t lens[VALUES];
		struct mask *m, *other;
		struct err e;

		for (int v = 0; v < VALUES; v++) {
			make_value(values[v]);
			at[v] = values[v];
			lens[v] = strlen(values[v]);
		}
		make_text(values, text);
		m = mask_new(at, lens, VALUES, NULL, 0, &e);
		other = mask_new(at, lens, VALUES, NULL, 0, &e);
		CHECK(m != NULL && other != NULL);
		reference(values, VALUES, text, want);
		memcpy(got, text, sizeof(got));
		(void)mask_text(m, NULL, (uint8_t *)got, strlen(text));
		CHECK_STR(got, want);
		check_stream(m, other, text, want, false);
		check_stream(m, other, text, want, true);
		mask_free(m);
		mask_free(other);
	}
}

TEST_MAIN({ "finds what a slow search finds", finds_the_same })
