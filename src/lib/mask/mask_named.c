#include "lib/mask/mask_named.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "lib/base/own.h"

const char *const mask_name_words[MASK_NAMES] = { "email", "phone", "card", "iban", "ip", "token" };

bool mask_name_read(const char *word, enum mask_name *ret)
{
	for (unsigned i = 0; i < MASK_NAMES; i++)
		if (strcmp(word, mask_name_words[i]) == 0) {
			*ret = (enum mask_name)i;
			return true;
		}
	return false;
}

/* ---- bytes */

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool is_upper(uint8_t c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_letter(uint8_t c)
{
	return is_upper(c) || (c >= 'a' && c <= 'z');
}

/* Part of a word. UTF-8 beyond ASCII is, too. */
static bool is_word(uint8_t c)
{
	return is_digit(c) || is_letter(c) || c == '_' || c >= 0x80;
}

static bool is_mail(uint8_t c)
{
	return is_digit(c) || is_letter(c) || (c != '\0' && strchr("._%+-@", c) != NULL);
}

static bool is_address(uint8_t c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '.' ||
	       c == ':';
}

static bool is_key(uint8_t c)
{
	return is_digit(c) || is_letter(c) || c == '_' || c == '-' || c == '.';
}

/* The byte so many places before the end. 0 if there is none, or it is too long ago. */
static uint8_t mask_named_back(const struct mask_named *s, uint64_t places)
{
	if (places == 0 || places > s->n || places > MASK_NAMED_MAX)
		return 0;
	return s->ring[(s->n - places) % MASK_NAMED_MAX];
}

/* The last n bytes without the last `end` of them, as text. n at most MASK_NAMED_MAX. */
static void copy_back(const struct mask_named *s, uint64_t n, uint64_t end, char *ret)
{
	uint64_t len = 0;

	for (uint64_t i = n; i > end; i--)
		ret[len++] = (char)mask_named_back(s, i);
	ret[len] = '\0';
}

/* ---- the ends of things. Each returns how many bytes the thing has, and how many bytes behind it
 * are not part of it. 0: there is none. */

static uint64_t end_of_mail(const struct mask_named *s, uint64_t *ret_end)
{
	uint64_t end = 1, at, i, dots = 0, top = 0;

	while (mask_named_back(s, end) == '.' || mask_named_back(s, end) == '-' ||
	       mask_named_back(s, end) == '_')
		end++;
	for (i = end; (is_letter(mask_named_back(s, i)) || is_digit(mask_named_back(s, i)) ||
		       mask_named_back(s, i) == '-' || mask_named_back(s, i) == '.');
	     i++) {
		if (mask_named_back(s, i) == '.') {
			if (mask_named_back(s, i + 1) == '.' || mask_named_back(s, i + 1) == '@')
				return 0;
			dots++;
		} else if (dots == 0) {
			if (!is_letter(mask_named_back(s, i)))
				return 0;
			top++;
		}
	}
	if (mask_named_back(s, i) != '@' || dots == 0 || top < 2)
		return 0;
	at = i++;
	while (is_mail(mask_named_back(s, i)) && mask_named_back(s, i) != '@' && i - at <= 64)
		i++;
	while (i > at + 1 && (mask_named_back(s, i - 1) == '.' || mask_named_back(s, i - 1) == '-'))
		i--;
	*ret_end = end - 1;
	return i - 1 > at ? i - 1 - *ret_end : 0;
}

static bool mask_named_luhn(const uint8_t *digits, size_t n) /* the last one first */
{
	unsigned sum = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned d = digits[i];

		sum += i % 2 == 0 ? d : d < 5 ? 2 * d : 2 * d - 9;
	}
	return sum % 10 == 0;
}

/* 13 to 19 digits, in one group or in groups of 3 to 7 with a space or '-' between them. */
static uint64_t end_of_card(const struct mask_named *s)
{
	uint8_t digits[19];
	uint64_t n = 0, group = 0, groups = 1, best = 0, i;

	for (i = 1; n < sizeof(digits) && is_digit(mask_named_back(s, i)); i++) {
		uint8_t before = mask_named_back(s, i + 1);

		digits[n++] = (uint8_t)(mask_named_back(s, i) - '0');
		group++;
		if (is_digit(before))
			continue;
		if (groups > 1 && (group < 3 || group > 7))
			break;
		if (n >= 13 && !is_word(before) && before != '.' && digits[n - 1] >= 2 &&
		    digits[n - 1] <= 6 && mask_named_luhn(digits, n))
			best = i;
		if ((before != ' ' && before != '-') || group < 3 || group > 7)
			break;
		groups++;
		group = 0;
		i++;
	}
	return best;
}

/* "+" and 8 to 15 digits, with separators. */
static uint64_t end_of_phone(const struct mask_named *s)
{
	uint64_t n = 0, gap = 0;

	for (uint64_t i = 1; i < 48; i++) {
		uint8_t c = mask_named_back(s, i);

		if (is_digit(c)) {
			gap = 0;
			if (++n > 15)
				return 0;
		} else if (c == '+') {
			return n >= 8 && gap == 0 && mask_named_back(s, i - 1) != '0' &&
					       !is_word(mask_named_back(s, i + 1))
				       ? i
				       : 0;
		} else if (c == '\0' || strchr(" .-/()", c) == NULL || ++gap > 2) {
			return 0;
		}
	}
	return 0;
}

/* "(555) 123-4567", "555-123-4567", "555.123.4567". */
static uint64_t end_of_national(const struct mask_named *s)
{
	char text[20];
	const char *at;
	bool wrapped;

	for (uint64_t n = 14; n >= 12; n--) {
		static const char *const forms[] = { "ddd-ddd-dddd", "ddd.ddd.dddd",
						     "(ddd)ddd-dddd", "(ddd) ddd-dddd" };

		copy_back(s, n, 0, text);
		wrapped = text[0] == '(';
		for (size_t f = 0; f < COUNT(forms); f++) {
			const char *p = text;

			if (strlen(forms[f]) != n)
				continue;
			for (at = forms[f]; *at != '\0'; at++, p++)
				if (*at == 'd' ? !is_digit((uint8_t)*p) : *p != *at)
					break;
			if (*at == '\0' && !is_word(mask_named_back(s, n + 1)) &&
			    (wrapped || (mask_named_back(s, n + 1) != '-' &&
					 mask_named_back(s, n + 1) != '.')))
				return n;
		}
	}
	return 0;
}

/* Lengths by country, of the registry that SWIFT keeps. */
static const char iban_lengths[] =
	"AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29"
	"ES24FI18FK18FO18FR27GB22GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20"
	"LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20MR27MT31MU30NI28NL18NO15OM23PK24PL28PS29"
	"PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28TL23TN24TR26UA29VA22VG24XK20"
	"YE30";

static bool iban_is_good(const char *text, size_t n)
{
	unsigned rest = 0;

	if (!is_upper((uint8_t)text[0]) || !is_upper((uint8_t)text[1]) ||
	    !is_digit((uint8_t)text[2]) || !is_digit((uint8_t)text[3]))
		return false;
	for (const char *at = iban_lengths;; at += 4) {
		if (*at == '\0')
			return false;
		if (at[0] == text[0] && at[1] == text[1]) {
			if ((size_t)(at[2] - '0') * 10 + (size_t)(at[3] - '0') != n)
				return false;
			break;
		}
	}
	for (size_t i = 0; i < n; i++) {
		uint8_t c = (uint8_t)text[(i + 4) % n];

		rest = is_digit(c) ? (rest * 10 + c - '0') % 97 : (rest * 100 + c - 'A' + 10) % 97;
	}
	return rest == 1;
}

#define IBAN_MAX 34

/* In one piece, or in groups of four with spaces between them. */
static uint64_t end_of_iban(const struct mask_named *s)
{
	char text[IBAN_MAX + 1];
	size_t n = IBAN_MAX;
	uint64_t group = 0, groups = 1;

	for (uint64_t i = 1; n > 0; i++) {
		uint8_t c = mask_named_back(s, i), before = mask_named_back(s, i + 1);

		if (!is_digit(c) && !is_upper(c))
			return 0;
		text[--n] = (char)c;
		group++;
		if (is_digit(before) || is_upper(before))
			continue;
		if (groups > 1 && group != 4)
			return 0;
		if (!is_word(before) && iban_is_good(text + n, IBAN_MAX - n))
			return i;
		if (before != ' ' || group > 4)
			return 0;
		groups++;
		group = 0;
		i++;
	}
	return 0;
}

static uint64_t end_of_address(const struct mask_named *s, uint64_t *ret_end)
{
	uint64_t n = 0, dots = 0, colons = 0, end = 0, port = 0;
	char text[64];
	uint8_t ip[16];

	while (is_address(mask_named_back(s, n + 1))) {
		uint8_t c = mask_named_back(s, ++n);

		if (c == ':' && colons++ == 0)
			port = n;
		dots += c == '.';
		if (n > 50)
			return 0;
	}
	if (is_word(mask_named_back(s, n + 1)) || (dots < 3 && colons < 2))
		return 0;
	if (colons == 1) /* "192.0.2.1:80" */
		end = port;
	while (end < n &&
	       (mask_named_back(s, end + 1) == '.' ||
		(mask_named_back(s, end + 1) == ':' && mask_named_back(s, end + 2) != ':')))
		end++;
	copy_back(s, n, end, text);
	*ret_end = end;
	if (inet_pton(AF_INET, text, ip) == 1)
		return n - end;
	return n - end >= 4 && inet_pton(AF_INET6, text, ip) == 1 ? n - end : 0;
}

/* ---- keys */

/* least: characters with the beginning. */
static const struct key_form {
	const char *begin;
	size_t least;
} key_forms[] = {
	{ "AKIA", 20 },	    { "ASIA", 20 },	{ "AIza", 39 },	 { "SG.", 40 },
	{ "dop_v1_", 40 },  { "eyJ", 40 },	{ "ghp_", 40 },	 { "gho_", 40 },
	{ "ghu_", 40 },	    { "ghs_", 40 },	{ "ghr_", 40 },	 { "github_pat_", 40 },
	{ "glpat-", 26 },   { "hf_", 34 },	{ "npm_", 40 },	 { "pypi-", 40 },
	{ "rk_live_", 24 }, { "rk_test_", 24 }, { "sk-", 24 },	 { "sk_live_", 24 },
	{ "sk_test_", 24 }, { "xapp-", 24 },	{ "xoxb-", 24 }, { "xoxp-", 24 },
	{ "xoxa-", 24 },    { "xoxr-", 24 },	{ "xoxs-", 24 }, { "ya29.", 40 },
	{ "cordon_", 24 },
};
static_assert(MASK_NAMED_HEAD > 40, "the longest beginning of a key fits");

/* Words with '-' between them have none. */
static bool has_digit(const char *text, uint64_t n)
{
	while (n > 0)
		if (is_digit((uint8_t)text[--n]))
			return true;
	return false;
}

/* Could it become one? *ret: it is one. */
static bool key_may_be(const struct mask_named *s, bool *ret)
{
	for (size_t i = 0; i < COUNT(key_forms); i++) {
		const char *begin = key_forms[i].begin;
		size_t n = strlen(begin);

		if (memcmp(s->key, begin, s->key_n < n ? s->key_n : n) != 0)
			continue;
		*ret = s->key_n >= key_forms[i].least && has_digit(s->key + n, s->key_n - n);
		return *ret || s->key_n < MASK_NAMED_HEAD - 1;
	}
	return false;
}

static void key_step(struct mask_named *s, uint8_t c, mask_named_fn *found, void *arg)
{
	bool is_one = false;

	if (!is_key(c)) {
		s->key_n = 0;
		return;
	}
	if (s->key_n > 0 && s->key_found) {
		found(arg, MASK_TOKEN, s->key_from, s->n + 1);
		return;
	}
	if (s->key_n == 0 && (is_word(mask_named_back(s, 1)) || !is_letter(c)))
		return;
	if (s->key_n == 0) {
		s->key_from = s->n;
		s->key_found = false;
	}
	s->key[s->key_n++] = (char)c;
	if (!key_may_be(s, &is_one)) {
		s->key_n = 0;
	} else if (is_one) {
		s->key_found = true;
		found(arg, MASK_TOKEN, s->key_from, s->n + 1);
	}
}

/* ---- all of them */

static void named_found(struct mask_named *s, enum mask_name name, uint64_t n, uint64_t end,
			mask_named_fn *found, void *arg)
{
	uint64_t to = s->n - end;

	if (n == 0 || s->last[name] >= to)
		return;
	s->last[name] = to;
	found(arg, name, to - n, to);
}

/* next: the byte behind the end, 0 if it is not known. */
static void named_look(struct mask_named *s, unsigned names, uint8_t next, mask_named_fn *found,
		       void *arg)
{
	uint8_t prev = mask_named_back(s, 1);
	bool digit = is_digit(prev) && !is_word(next);
	uint64_t end = 0, n;

	if ((names & 1U << MASK_CARD) != 0 && digit)
		named_found(s, MASK_CARD, end_of_card(s), 0, found, arg);
	if ((names & 1U << MASK_PHONE) != 0 && digit) {
		n = end_of_phone(s);
		named_found(s, MASK_PHONE, n > 0 ? n : end_of_national(s), 0, found, arg);
	}
	if ((names & 1U << MASK_IBAN) != 0 && (is_digit(prev) || is_upper(prev)) && !is_word(next))
		named_found(s, MASK_IBAN, end_of_iban(s), 0, found, arg);
	if ((names & 1U << MASK_EMAIL) != 0 && is_mail(prev) && !is_mail(next)) {
		n = end_of_mail(s, &end);
		named_found(s, MASK_EMAIL, n, end, found, arg);
	}
	if ((names & 1U << MASK_IP) != 0 && is_address(prev) && !is_word(next) &&
	    !is_address(next)) {
		n = end_of_address(s, &end);
		named_found(s, MASK_IP, n, end, found, arg);
	}
}

#define SEQUENCE_MAX 32

/* A control sequence of terminals ("\\033[1m") is no part of a word, and stays as it is. */
static uint8_t without_sequence(struct mask_named *s, uint8_t c)
{
	bool inside = s->sequence > 0 && s->sequence < SEQUENCE_MAX;

	if (c == 0x1b) {
		s->sequence = 1;
		return '\0';
	}
	if (!inside)
		return c;
	if (s->sequence == 1 && c != '[')
		s->sequence = 0;
	else if (s->sequence > 1 && c >= 0x40 && c <= 0x7e)
		s->sequence = 0;
	else
		s->sequence++;
	return '\0';
}

void mask_named_step(struct mask_named *s, unsigned names, uint8_t c, mask_named_fn *found,
		     void *arg)
{
	c = without_sequence(s, c);
	/* Inside of a word nothing ends but an address, whose class is smaller. */
	if (s->n > 0 && !is_letter(c) && !is_digit(c))
		named_look(s, names, c == '\0' ? 1 : c, found, arg);
	if ((names & 1U << MASK_TOKEN) != 0)
		key_step(s, c, found, arg);
	s->ring[s->n++ % MASK_NAMED_MAX] = c;
}

void mask_named_settle(struct mask_named *s, unsigned names, mask_named_fn *found, void *arg)
{
	if (s->n == 0 || s->settled == s->n)
		return;
	s->settled = s->n;
	named_look(s, names, 0, found, arg);
}
