/* package_chars.h - the bytes of package names, versions and files. ASCII only, independent of the
 * locale. Private to src/lib/packages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool package_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool package_is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static inline bool package_is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || package_is_upper(c) || package_is_digit(c);
}

static inline char package_lower(char c)
{
	if (package_is_upper(c))
		c = (char)(c - 'A' + 'a');
	return c;
}

static inline bool package_is_one_of(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

/* Are all bytes letters, digits or signs of `more`, and is the first one no sign? */
static inline bool package_is_plain(const char *p, size_t n, const char *more)
{
	if (n == 0 || !package_is_alnum(p[0]))
		return false;
	for (size_t i = 1; i < n; i++)
		if (!package_is_alnum(p[i]) && !package_is_one_of(p[i], more))
			return false;
	return true;
}

/* Are these lower-case hexadecimal digits, exactly `digits` of them? */
static inline bool package_is_hex(const char *p, size_t n, size_t digits)
{
	for (size_t i = 0; i < n; i++)
		if (!package_is_digit(p[i]) && !(p[i] >= 'a' && p[i] <= 'f'))
			return false;
	return n == digits;
}

static inline bool package_ends_with(const char *p, size_t n, const char *end)
{
	size_t m = strlen(end);

	return n > m && memcmp(p + n - m, end, m) == 0;
}
