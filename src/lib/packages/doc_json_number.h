/* doc_json_number.h - is a word a number of JSON (RFC 8259, 6)? No leading zeros or '+', digits on
 * both sides of the point. */
#pragma once

#include <stdbool.h>

/* Skip digits. False: there are none. */
static inline bool doc_json_digits(const char **p)
{
	const char *begin = *p;

	while (**p >= '0' && **p <= '9')
		++*p;
	return *p > begin;
}

static inline bool doc_json_is_number(const char *p)
{
	if (*p == '-')
		p++;
	if (*p == '0')
		p++;
	else if (!doc_json_digits(&p))
		return false;
	if (*p == '.') {
		p++;
		if (!doc_json_digits(&p))
			return false;
	}
	if (*p == 'e' || *p == 'E') {
		p++;
		if (*p == '+' || *p == '-')
			p++;
		if (!doc_json_digits(&p))
			return false;
	}
	return *p == '\0';
}
