/* package_time.c - see package_time.h. Days are counted by the proleptic Gregorian calendar,
 * without libc's time zone. */
#include "lib/packages/package_time.h"

#include <stdio.h>
#include <string.h>

#define DAY_S 86400

/* Exactly so many digits, at *p, which moves behind them. */
static bool package_time_number(const char **p, unsigned digits, int *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < digits; i++, ++*p) {
		if (**p < '0' || **p > '9')
			return false;
		*ret = *ret * 10 + (**p - '0');
	}
	return true;
}

static bool package_time_sign(const char **p, const char *any_of)
{
	if (**p == '\0' || strchr(any_of, **p) == NULL)
		return false;
	++*p;
	return true;
}

/* Days since 1970-01-01. Years begin in March here, so that a leap day is the last day of its year.
 */
static int64_t package_time_days(int year, int month, int day)
{
	int64_t y = month <= 2 ? year - 1 : year, era = y / 400, of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int month_days(int year, int month)
{
	static const int of[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return of[month - 1] + (month == 2 && leap);
}

static bool read_day(const char **p, int64_t *ret)
{
	int year, month, day;

	if (!package_time_number(p, 4, &year) || !package_time_sign(p, "-") ||
	    !package_time_number(p, 2, &month) || !package_time_sign(p, "-") ||
	    !package_time_number(p, 2, &day) || month < 1 || month > 12 || day < 1 ||
	    day > month_days(year, month) || year < 1970)
		return false;
	*ret = package_time_days(year, month, day);
	return true;
}

/* Read a fraction of a second in milliseconds. Further digits are dropped. */
static bool read_fraction(const char **p, int *ret)
{
	int digit, scale = 100;

	*ret = 0;
	if (!package_time_sign(p, ".,"))
		return true;
	if (**p < '0' || **p > '9')
		return false;
	for (; package_time_number(p, 1, &digit); scale /= 10)
		*ret += digit * scale;
	return true;
}

/* No zone means UTC. */
static bool read_zone(const char **p, int *ret_s)
{
	bool minus = **p == '-';
	int hours, minutes;

	*ret_s = 0;
	if (**p == '\0' || package_time_sign(p, "Zz"))
		return true;
	if (!package_time_sign(p, "+-") || !package_time_number(p, 2, &hours) ||
	    (package_time_sign(p, ":") && **p == '\0') || !package_time_number(p, 2, &minutes) ||
	    hours > 23 || minutes > 59)
		return false;
	*ret_s = (hours * 3600 + minutes * 60) * (minus ? -1 : 1);
	return true;
}

/* Second 60 is a leap second, and counts as the first second of the next minute. */
bool package_time_read(const char *text, uint64_t *ret_ms)
{
	const char *p = text;
	int hour, minute, second, ms, zone;
	int64_t day, s;

	if (!read_day(&p, &day) || !package_time_sign(&p, "Tt ") ||
	    !package_time_number(&p, 2, &hour) || !package_time_sign(&p, ":") ||
	    !package_time_number(&p, 2, &minute) || !package_time_sign(&p, ":") ||
	    !package_time_number(&p, 2, &second) || hour > 23 || minute > 59 || second > 60 ||
	    !read_fraction(&p, &ms) || !read_zone(&p, &zone) || *p != '\0')
		return false;
	s = day * DAY_S + (int64_t)hour * 3600 + (int64_t)minute * 60 + second - zone;
	if (s < 0)
		return false;
	*ret_ms = (uint64_t)s * 1000 + (uint64_t)ms;
	return true;
}

/* The year is estimated from below and corrected upwards. */
void package_time_write(uint64_t ms, char ret[PACKAGE_TIME_MAX])
{
	uint64_t s = ms / 1000 % DAY_S, day = ms / 1000 / DAY_S;
	int year = 1970, month = 1;

	/* 9999 is the last year of the format */
	if (day > 2932896)
		day = 2932896;
	year += (int)(day / 366);
	while (package_time_days(year + 1, 1, 1) <= (int64_t)day)
		year++;
	while (month < 12 && package_time_days(year, month + 1, 1) <= (int64_t)day)
		month++;
	(void)snprintf(ret, PACKAGE_TIME_MAX, "%04d-%02d-%02uT%02u:%02u:%02uZ", year, month,
		       (unsigned)((int64_t)day - package_time_days(year, month, 1) + 1) % 100,
		       (unsigned)(s / 3600) % 100, (unsigned)(s / 60 % 60), (unsigned)(s % 60));
}
