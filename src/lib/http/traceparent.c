#include "lib/http/traceparent.h"

#include <string.h>

#define LEN (TRACEPARENT_MAX - 1)

/* The places of version, trace id, parent id and flags. */
static const struct part {
	size_t at, len;
	bool not_zero;
} parts[] = { { 0, 2, false }, { 3, 32, true }, { 36, 16, true }, { 53, 2, false } };

/* Upper case is refused, as the standard says. */
static bool part_is_good(const char *text, const struct part *p)
{
	bool zero = true;

	for (size_t i = p->at; i < p->at + p->len; i++) {
		if (memchr("0123456789abcdef", text[i], 16) == NULL)
			return false;
		zero = zero && text[i] == '0';
	}
	return !zero || !p->not_zero;
}

bool traceparent_read(const char *text, size_t len, char ret[TRACEPARENT_MAX])
{
	ret[0] = '\0';
	if (len < LEN)
		return false;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const struct part *p = &parts[i];

		if (!part_is_good(text, p) || (i > 0 && text[p->at - 1] != '-'))
			return false;
	}
	/* Version 00 has nothing behind the flags, and ff is none. */
	if (memcmp(text, "ff", 2) == 0 ||
	    (len > LEN && (memcmp(text, "00", 2) == 0 || text[LEN] != '-')))
		return false;
	memcpy(ret, text, LEN);
	ret[LEN] = '\0';
	return true;
}
