#include "lib/base/utf8.h"

static int utf8_is_tail(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

size_t utf8_length(const uint8_t *p, size_t n)
{
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		return n >= 2 && utf8_is_tail(p[1]) ? 2 : 0;
	if (p[0] >= 0xe0 && p[0] <= 0xef) {
		if (n < 3 || !utf8_is_tail(p[1]) || !utf8_is_tail(p[2]))
			return 0;
		if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f))
			return 0;
		return 3;
	}
	if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		if (n < 4 || !utf8_is_tail(p[1]) || !utf8_is_tail(p[2]) || !utf8_is_tail(p[3]))
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
		if (!utf8_is_tail(p[n - back]))
			break;
	}
	return n;
}

/* Ranges of characters, in order. */
static const struct {
	unsigned first, last;
} hidden[] = {
	{ 0x00, 0x1f },	      { 0x7f, 0x9f },	    { 0xad, 0xad },	  { 0x34f, 0x34f },
	{ 0x600, 0x605 },     { 0x61c, 0x61c },	    { 0x6dd, 0x6dd },	  { 0x70f, 0x70f },
	{ 0x890, 0x891 },     { 0x8e2, 0x8e2 },	    { 0x115f, 0x1160 },	  { 0x17b4, 0x17b5 },
	{ 0x180b, 0x180f },   { 0x200b, 0x200f },   { 0x2028, 0x202e },	  { 0x2060, 0x206f },
	{ 0x3164, 0x3164 },   { 0xfe00, 0xfe0e },   { 0xfeff, 0xfeff },	  { 0xffa0, 0xffa0 },
	{ 0xfff0, 0xfffb },   { 0x110bd, 0x110bd }, { 0x110cd, 0x110cd }, { 0x13430, 0x1343f },
	{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
};

bool utf8_is_control(const uint8_t *p, size_t n)
{
	unsigned code = utf8_code(p, n);
	size_t low = 0, high = sizeof(hidden) / sizeof(hidden[0]);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (code > hidden[middle].last)
			low = middle + 1;
		else if (code < hidden[middle].first)
			high = middle;
		else
			return true;
	}
	return false;
}
