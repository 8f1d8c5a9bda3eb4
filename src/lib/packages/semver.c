#include "lib/packages/semver.h"

#include <string.h>

#include "lib/packages/package_chars.h"

/* Read digits at *p, and move behind them. False: none, or the number is too large. */
static bool read_number(const char **p, uint64_t *ret)
{
	*ret = 0;
	if (!package_is_digit(**p))
		return false;
	for (; package_is_digit(**p); (*p)++) {
		unsigned digit = (unsigned)(**p - '0');

		if (*ret > (UINT64_MAX - digit) / 10)
			return false;
		*ret = *ret * 10 + digit;
	}
	return true;
}

/* Are these identifiers with dots between them, none empty? */
static bool are_identifiers(const char *p, size_t n)
{
	char before = '.';

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '.' ? before == '.' : !package_is_alnum(p[i]) && p[i] != '-')
			return false;
		before = p[i];
	}
	return before != '.';
}

/* A leading zero is accepted. */
bool semver_read(const char *text, struct semver *ret)
{
	const char *p = text + (*text == 'v');

	*ret = (struct semver){ .pre = "" };
	for (size_t i = 0; i < 3; i++) {
		if (i > 0 && *p++ != '.')
			return false;
		if (!read_number(&p, &ret->number[i]))
			return false;
	}
	if (*p == '-') {
		ret->pre = ++p;
		ret->npre = strcspn(p, "+");
		p += ret->npre;
		if (!are_identifiers(ret->pre, ret->npre))
			return false;
	}
	return *p == '\0' || (*p == '+' && are_identifiers(p + 1, strlen(p + 1)));
}

/* The length of the first identifier. */
static size_t semver_identifier(const char *p, size_t n)
{
	const char *dot = memchr(p, '.', n);

	return dot == NULL ? n : (size_t)(dot - p);
}

static bool is_number(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!package_is_digit(p[i]))
			return false;
	return true;
}

static int compare_bytes(const char *a, size_t na, const char *b, size_t nb)
{
	int order = memcmp(a, b, na < nb ? na : nb);

	return order != 0 ? order : (na > nb) - (na < nb);
}

/* Numbers sort before names. They are compared by value, whatever their length. */
static int compare_identifiers(const char *a, size_t na, const char *b, size_t nb)
{
	if (!is_number(a, na) || !is_number(b, nb)) {
		int order = is_number(b, nb) - is_number(a, na);

		return order != 0 ? order : compare_bytes(a, na, b, nb);
	}
	for (; na > 1 && *a == '0'; na--)
		a++;
	for (; nb > 1 && *b == '0'; nb--)
		b++;
	return na != nb ? (na > nb) - (na < nb) : compare_bytes(a, na, b, nb);
}

/* If one list begins with the other, the longer one is higher. */
static int compare_pre(const char *a, size_t na, const char *b, size_t nb)
{
	while (na > 0 && nb > 0) {
		size_t ia = semver_identifier(a, na), ib = semver_identifier(b, nb);
		int order = compare_identifiers(a, ia, b, ib);

		if (order != 0)
			return order;
		ia += ia < na; /* the dot */
		ib += ib < nb;
		a += ia;
		na -= ia;
		b += ib;
		nb -= ib;
	}
	return (na > 0) - (nb > 0);
}

/* A release is above its prereleases. */
int semver_compare(const struct semver *a, const struct semver *b)
{
	for (size_t i = 0; i < 3; i++)
		if (a->number[i] != b->number[i])
			return a->number[i] < b->number[i] ? -1 : 1;
	if (a->npre == 0 || b->npre == 0)
		return (a->npre == 0) - (b->npre == 0);
	return compare_pre(a->pre, a->npre, b->pre, b->npre);
}
