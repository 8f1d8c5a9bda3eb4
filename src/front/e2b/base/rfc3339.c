#include "front/e2b/base/rfc3339.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Bounds of a time: its last value, and digits behind the second. */
#define LAST_MS 253402300799999ULL /* the end of the year 9999 */
#define FRACTION_MAX 9
#define NS 1000000000LL

/* Without a zone and a fraction, which the caller adds. */
static void write_seconds(time_t t, char ret[24])
{
	struct tm tm = { 0 };

	(void)gmtime_r(&t, &tm);
	(void)strftime(ret, 24, "%Y-%m-%dT%H:%M:%S", &tm);
}

void rfc3339_write(uint64_t ms, char ret[RFC3339_MAX])
{
	char text[24];

	if (ms > LAST_MS)
		ms = LAST_MS;
	write_seconds((time_t)(ms / 1000), text);
	(void)snprintf(ret, RFC3339_MAX, "%s.%03uZ", text, (unsigned)(ms % 1000));
}

/* Division rounds towards zero, so the rest of a time before 1970 is brought to 0 or more first. */
void rfc3339_write_ns(int64_t ns, char ret[RFC3339_MAX])
{
	int64_t rest = (ns % NS + NS) % NS; /* before 1970, too, it counts forward */
	char text[24];

	write_seconds((time_t)((ns - rest) / NS), text);
	(void)snprintf(ret, RFC3339_MAX, "%.19s.%09uZ", text, (unsigned)rest);
}

/* n digits. Move on behind them. */
static bool rfc3339_digits(const char **at, unsigned n, unsigned min, unsigned max, unsigned *ret)
{
	unsigned value = 0;

	for (; n > 0; n--, (*at)++) {
		if (**at < '0' || **at > '9')
			return false;
		value = value * 10 + (unsigned)(**at - '0');
	}
	*ret = value;
	return value >= min && value <= max;
}

/* Take the character if it is next. */
static bool rfc3339_sign(const char **at, char c)
{
	if (**at != c)
		return false;
	(*at)++;
	return true;
}

/* The days from 1970 to a date. */
static uint64_t rfc3339_days(unsigned year, unsigned month, unsigned day)
{
	static const unsigned before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
	unsigned past = month > 2 ? year : year - 1; /* years whose leap day has passed */

	return (year - 1970) * 365ULL + (past / 4 - past / 100 + past / 400) -
	       (1969 / 4 - 1969 / 100 + 1969 / 400) + before[month - 1] + day - 1;
}

/* A day beyond it is no time: 30 February is refused. */
static unsigned month_length(unsigned year, unsigned month)
{
	if (month == 2)
		return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28;
	return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* No fraction is 0. Digits behind microseconds are dropped. */
static bool rfc3339_fraction(const char **at, uint64_t *ret_us)
{
	unsigned n = 0, scale = 100000;

	*ret_us = 0;
	if (!rfc3339_sign(at, '.'))
		return true;
	for (; **at >= '0' && **at <= '9'; (*at)++, n++) {
		*ret_us += (uint64_t)(**at - '0') * scale;
		scale /= 10;
	}
	return n > 0 && n <= FRACTION_MAX;
}

/* Minutes to take away from the local time. */
static bool rfc3339_zone(const char **at, int *ret)
{
	unsigned hours, minutes;
	bool east = **at == '+';

	*ret = 0;
	if (rfc3339_sign(at, 'Z') || rfc3339_sign(at, 'z'))
		return true;
	if ((!rfc3339_sign(at, '+') && !rfc3339_sign(at, '-')) ||
	    !rfc3339_digits(at, 2, 0, 23, &hours) || !rfc3339_sign(at, ':') ||
	    !rfc3339_digits(at, 2, 0, 59, &minutes))
		return false;
	*ret = (int)(hours * 60 + minutes) * (east ? 1 : -1);
	return true;
}

/* The whole text must be a time. A leap second counts as the next one. */
int rfc3339_read(const char *text, uint64_t *ret_us)
{
	unsigned year, month, day, hour, minute, second;
	const char *at = text;
	int64_t seconds;
	uint64_t us;
	int shift;

	if (!rfc3339_digits(&at, 4, 1970, 9999, &year) || !rfc3339_sign(&at, '-') ||
	    !rfc3339_digits(&at, 2, 1, 12, &month) || !rfc3339_sign(&at, '-') ||
	    !rfc3339_digits(&at, 2, 1, month_length(year, month), &day) ||
	    (!rfc3339_sign(&at, 'T') && !rfc3339_sign(&at, 't') && !rfc3339_sign(&at, ' ')) ||
	    !rfc3339_digits(&at, 2, 0, 23, &hour) || !rfc3339_sign(&at, ':') ||
	    !rfc3339_digits(&at, 2, 0, 59, &minute) || !rfc3339_sign(&at, ':') ||
	    !rfc3339_digits(&at, 2, 0, 60, &second) || !rfc3339_fraction(&at, &us) ||
	    !rfc3339_zone(&at, &shift) || *at != '\0')
		return -1;
	seconds = (int64_t)(rfc3339_days(year, month, day) * 86400 + hour * 3600ULL +
			    minute * 60ULL + second) -
		  (int64_t)shift * 60;
	if (seconds < 0)
		return -1;
	*ret_us = (uint64_t)seconds * 1000000 + us;
	return 0;
}
