#include "lib/base/units.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A decimal number in thousandths, so that "1.5" stays exact without floating point. */
struct number {
	bool huge; /* a number larger than any valid one */
	uint64_t whole;
	uint64_t thousandths;
	const char *rest;
};

#define WHOLE_MAX (UINT64_MAX / 4096)

/* Digits, optionally '.' and one to three digits. */
static int units_read_number(const char *text, struct number *ret)
{
	struct number n = { .rest = text };
	uint64_t place = 100;

	if (*n.rest < '0' || *n.rest > '9')
		return -1;
	for (; *n.rest >= '0' && *n.rest <= '9'; n.rest++) {
		if (n.whole > WHOLE_MAX / 10)
			n.huge = true;
		else
			n.whole = n.whole * 10 + (uint64_t)(*n.rest - '0');
	}
	if (*n.rest == '.') {
		n.rest++;
		if (*n.rest < '0' || *n.rest > '9')
			return -1;
		for (; *n.rest >= '0' && *n.rest <= '9'; n.rest++, place /= 10) {
			if (place == 0)
				return -1;
			n.thousandths += (uint64_t)(*n.rest - '0') * place;
		}
	}
	*ret = n;
	return 0;
}

/* n * unit. A product that does not fit is UINT64_MAX, out of every range. */
static uint64_t units_scale(const struct number *n, uint64_t unit)
{
	uint64_t whole, part, sum;

	if (n->huge || __builtin_mul_overflow(n->whole, unit, &whole) ||
	    __builtin_mul_overflow(n->thousandths, unit, &part) ||
	    __builtin_add_overflow(whole, part / 1000, &sum))
		return UINT64_MAX;
	return sum;
}

static int units_check_range(const char *text, uint64_t value, uint64_t min, uint64_t max,
			     uint64_t *ret, struct err *e)
{
	if (value < min || value > max)
		return err_set(e, ERR_INVALID, "'%.40s' is out of range (%llu to %llu)", text,
			       (unsigned long long)min, (unsigned long long)max);
	*ret = value;
	return 0;
}

int units_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *e)
{
	struct number n;

	if (units_read_number(text, &n) < 0 || *n.rest != '\0' || strchr(text, '.') != NULL)
		return err_set(e, ERR_INVALID, "'%.40s' is not a whole number", text);
	return units_check_range(text, units_scale(&n, 1), min, max, ret, e);
}

int units_millis(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *e)
{
	struct number n;
	uint64_t value;

	if (units_read_number(text, &n) < 0 || *n.rest != '\0')
		return err_set(e, ERR_INVALID, "'%.40s' is not a number like 2 or 0.5", text);
	value = units_scale(&n, 1000);
	if (value < min || value > max)
		return err_set(e, ERR_INVALID, "'%.40s' is out of range (%.3g to %.9g)", text,
			       (double)min / 1000, (double)max / 1000);
	*ret = value;
	return 0;
}

int units_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *e)
{
	static const char letters[] = "KMGT";
	char low[24], high[24];
	struct number n;
	uint64_t unit = 1, value;
	int ok = units_read_number(text, &n);

	if (ok == 0 && *n.rest != '\0') {
		char upper = (char)(*n.rest >= 'a' ? *n.rest - ('a' - 'A') : *n.rest);
		const char *l = upper == '\0' ? NULL : strchr(letters, upper);

		if (l != NULL) {
			unit <<= 10 * (unsigned)(l - letters + 1);
			n.rest++;
			if (strncasecmp(n.rest, "ib", 2) == 0)
				n.rest++;
		}
		if (*n.rest == 'B' || *n.rest == 'b')
			n.rest++;
	}
	if (ok < 0 || *n.rest != '\0' || (unit == 1 && n.thousandths != 0))
		return err_set(e, ERR_INVALID, "'%.40s' is not a size like 65536, 512M or 1.5G",
			       text);
	value = units_scale(&n, unit);
	if (value < min || value > max) {
		units_format_bytes(min, low, sizeof(low));
		units_format_bytes(max, high, sizeof(high));
		return err_set(e, ERR_INVALID, "'%.40s' is out of range (%s to %s)", text, low,
			       high);
	}
	*ret = value;
	return 0;
}

int units_time_ms(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *e)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} table[] = { { "", 1000 },   { "ms", 1 },	{ "s", 1000 },
		      { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
	struct number n;
	uint64_t unit = 0, value;

	if (units_read_number(text, &n) == 0)
		for (size_t i = 0; i < COUNT(table); i++)
			if (strcmp(n.rest, table[i].name) == 0)
				unit = table[i].ms;
	if (unit == 0 || (unit == 1 && n.thousandths != 0))
		return err_set(e, ERR_INVALID, "'%.40s' is not a time like 500ms, 30s, 5m or 2h",
			       text);
	value = units_scale(&n, unit);
	if (value < min || value > max)
		return err_set(e, ERR_INVALID, "'%.40s' is out of range (%llums to %llus)", text,
			       (unsigned long long)min, (unsigned long long)(max / 1000));
	*ret = value;
	return 0;
}

void units_format_bytes(uint64_t bytes, char *ret_text, size_t cap)
{
	static const char letters[] = " KMGTP";
	unsigned step = 0;
	uint64_t tenths = 0;

	while (bytes >= 1024 && step + 2 < sizeof(letters)) {
		tenths = (bytes % 1024) * 10 / 1024;
		bytes /= 1024;
		step++;
	}
	if (step == 0)
		(void)snprintf(ret_text, cap, "%llu", (unsigned long long)bytes);
	else if (tenths == 0)
		(void)snprintf(ret_text, cap, "%llu%c", (unsigned long long)bytes, letters[step]);
	else
		(void)snprintf(ret_text, cap, "%llu.%llu%c", (unsigned long long)bytes,
			       (unsigned long long)tenths, letters[step]);
}
