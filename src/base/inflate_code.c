/* inflate_code.c - theory of operation
 *
 * Codes are canonical: those of one length are numbers in a row, in the order of their symbols, and
 * shorter ones come first, so the lengths define the codes. Most are found by one look into a table
 * with the next bits; those longer than its index are found bit by bit. */
#include "inflate_code.h"

#include <string.h>

static unsigned reverse(unsigned code, unsigned len)
{
	unsigned r = 0;

	for (; len > 0; len--, code >>= 1)
		r = r << 1 | (code & 1);
	return r;
}

static void fill_lookup(struct inflate_code *c, const uint8_t *lengths, unsigned n)
{
	unsigned next[INFLATE_CODE_BITS + 1] = { 0 };

	memset(c->lookup, 0, sizeof(c->lookup));
	for (unsigned len = 1; len < INFLATE_CODE_BITS; len++)
		next[len + 1] = (next[len] + c->count[len]) << 1;
	for (unsigned i = 0; i < n; i++) {
		unsigned len = lengths[i], code;

		if (len == 0)
			continue;
		code = next[len]++;
		if (len > INFLATE_CODE_LOOKUP)
			continue;
		for (unsigned at = reverse(code, len); at < 1U << INFLATE_CODE_LOOKUP;
		     at += 1U << len)
			c->lookup[at] = (uint16_t)(i << 4 | len);
	}
}

bool inflate_code_make(struct inflate_code *c, const uint8_t *lengths, unsigned n, bool single)
{
	uint16_t first[INFLATE_CODE_BITS + 2] = { 0 };
	unsigned used;
	int left = 1;

	memset(c->count, 0, sizeof(c->count));
	for (unsigned i = 0; i < n; i++)
		c->count[lengths[i]]++;
	used = n - c->count[0];
	c->count[0] = 0;
	for (unsigned len = 1; len <= INFLATE_CODE_BITS; len++) {
		left = 2 * left - (int)c->count[len];
		if (left < 0)
			return false;
		first[len + 1] = (uint16_t)(first[len] + c->count[len]);
	}
	if (left > 0 && used > 0 && !(single && used == 1 && c->count[1] == 1))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (lengths[i] != 0)
			c->symbol[first[lengths[i]]++] = (uint16_t)i;
	fill_lookup(c, lengths, n);
	return true;
}

/* Bit by bit: are the bits read so far one of the codes of this length? */
static unsigned find_slowly(const struct inflate_code *c, uint64_t bits, uint32_t *ret_symbol)
{
	unsigned code = 0, first = 0, index = 0;

	for (unsigned len = 1; len <= INFLATE_CODE_BITS; len++) {
		code |= (unsigned)(bits >> (len - 1)) & 1;
		if (code < first + c->count[len]) {
			*ret_symbol = c->symbol[index + (code - first)];
			return len;
		}
		index += c->count[len];
		first = (first + c->count[len]) << 1;
		code <<= 1;
	}
	return 0;
}

unsigned inflate_code_find(const struct inflate_code *c, uint64_t bits, uint32_t *ret_symbol)
{
	unsigned hit = c->lookup[bits & ((1U << INFLATE_CODE_LOOKUP) - 1)];

	if (hit == 0)
		return find_slowly(c, bits, ret_symbol);
	*ret_symbol = hit >> 4;
	return hit & 15;
}
