#include "utf8.h"

static int is_tail(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

size_t utf8_length(const uint8_t *p, size_t n)
{
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		return n >= 2 && is_tail(p[1]) ? 2 : 0;
	if (p[0] >= 0xe0 && p[0] <= 0xef) {
		if (n < 3 || !is_tail(p[1]) || !is_tail(p[2]))
			return 0;
		if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f))
			return 0;
		return 3;
	}
	if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		if (n < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3]))
			return 0;
		if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
			return 0;
		return 4;
	}
	return 0;
}

unsigned utf8_code(const uint8_t *p, size_t n)
{
	unsigned code = n == 1 ? p[0] : p[0] & (0xffU >> (n + 1));

	for (size_t i = 1; i < n; i++)
		code = code << 6 | (p[i] & 0x3fU);
	return code;
}

/* A character goes over the cut only if it begins with one of the 3 bytes before it. */
size_t utf8_cut(const uint8_t *p, size_t n, size_t all)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		if (utf8_length(p + n - back, all - (n - back)) > back)
			return n - back;
		if (!is_tail(p[n - back]))
			break;
	}
	return n;
}

bool utf8_is_control(const uint8_t *p, size_t n)
{
	if (n == 1)
		return p[0] < 0x20 || p[0] == 0x7f;
	if (n == 2)
		return (p[0] == 0xc2 && p[1] <= 0x9f) || (p[0] == 0xd8 && p[1] == 0x9c);
	if (n != 3 || p[0] != 0xe2)
		return false;
	return (p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae))) ||
	       (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
}
