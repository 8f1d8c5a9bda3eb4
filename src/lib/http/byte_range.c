#include "lib/http/byte_range.h"

#include <string.h>
#include <strings.h>

#define DIGITS_MAX 18

/* Digits at *at. How many there were. */
static size_t range_number(const char *p, size_t n, size_t *at, uint64_t *ret)
{
	size_t begin = *at;

	*ret = 0;
	while (*at < n && p[*at] >= '0' && p[*at] <= '9' && *at - begin < DIGITS_MAX)
		*ret = *ret * 10 + (uint64_t)(p[(*at)++] - '0');
	return *at - begin;
}

/* One range only. A list of ranges is ignored as a whole. */
bool byte_range_parse(struct http1_span value, struct byte_range *ret)
{
	static const char unit[] = "bytes=";
	struct byte_range g = { .last = UINT64_MAX };
	size_t at = sizeof(unit) - 1, first, last;
	uint64_t end;

	if (value.n < at || strncasecmp(value.p, unit, at) != 0)
		return false;
	first = range_number(value.p, value.n, &at, &g.first);
	if (at >= value.n || value.p[at++] != '-')
		return false;
	last = range_number(value.p, value.n, &at, &end);
	if (at != value.n || (first == 0 && last == 0))
		return false;
	if (first == 0) {
		g.from_end = true;
		g.first = end;
	} else if (last > 0) {
		g.last = end;
	}
	if (g.last < g.first && !g.from_end)
		return false;
	*ret = g;
	return true;
}
