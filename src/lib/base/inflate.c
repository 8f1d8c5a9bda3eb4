/* inflate.c - theory of operation
 *
 * All input, headers and trailers included, is read through one bit buffer (bits, nbits). Codes are
 * decoded from the next INFLATE_CODE_BITS bits even if the code is
 * shorter. These bits always exist, also at the end of a block: a member ends with a trailer of 64
 * bits.
 *
 * Content is written to a ring of 64 KiB, checksummed and passed on whenever it is full. Matches
 * reach back at most 32 KiB, so their source is still in the ring. A match that reaches before the
 * member's beginning is malformed. */
#include "lib/base/inflate.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/crc32.h"

#define INFLATE_CODE_BITS 15U	  /* of the longest code */
#define INFLATE_CODE_SYMBOLS 288U /* of the largest set */
#define INFLATE_CODE_LOOKUP 10U

struct inflate_code {
	uint16_t count[INFLATE_CODE_BITS + 1];	    /* codes of each length */
	uint16_t symbol[INFLATE_CODE_SYMBOLS];	    /* in the order of their codes */
	uint16_t lookup[1U << INFLATE_CODE_LOOKUP]; /* symbol << 4 | length. 0: longer, or none */
};

/* ---- codes of variable length
 *
 * Codes are canonical: those of one length are numbers in a row, in the order of their symbols, and
 * shorter ones come first, so the lengths define the codes. Most are found by one look into a table
 * with the next bits. Those longer than its index are found bit by bit. */

static unsigned inflate_reverse(unsigned code, unsigned len)
{
	unsigned r = 0;

	for (; len > 0; len--, code >>= 1)
		r = r << 1 | (code & 1);
	return r;
}

static void inflate_fill_lookup(struct inflate_code *c, const uint8_t *lengths, unsigned n)
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
		for (unsigned at = inflate_reverse(code, len); at < 1U << INFLATE_CODE_LOOKUP;
		     at += 1U << len)
			c->lookup[at] = (uint16_t)(i << 4 | len);
	}
}

/* Make the set from the length of each symbol's code, 0 (it has none) to 15. Return false if the
 * set is under- or over-subscribed. A set must be complete, or empty (no symbol is ever found), or,
 * if `single` is true, have one code of one bit. */
static bool inflate_code_make(struct inflate_code *c, const uint8_t *lengths, unsigned n,
			      bool single)
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
	inflate_fill_lookup(c, lengths, n);
	return true;
}

/* Bit by bit: are the bits read so far one of the codes of this length? */
static unsigned inflate_find_slowly(const struct inflate_code *c, uint64_t bits,
				    uint32_t *ret_symbol)
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

/* Find the symbol that INFLATE_CODE_BITS bits, first bit lowest, begin with. Return how many of
 * them are its code. 0 if there is none. */
static unsigned inflate_code_find(const struct inflate_code *c, uint64_t bits, uint32_t *ret_symbol)
{
	unsigned hit = c->lookup[bits & ((1U << INFLATE_CODE_LOOKUP) - 1)];

	if (hit == 0)
		return inflate_find_slowly(c, bits, ret_symbol);
	*ret_symbol = hit >> 4;
	return hit & 15;
}

#define RING 65536U
#define LITERALS INFLATE_CODE_SYMBOLS
#define DISTANCES 32U
#define END_OF_BLOCK 256U

struct inflate {
	const struct inflate_io *io;
	struct err *e;
	const uint8_t *in, *in_end;
	uint64_t bits;
	unsigned nbits;
	uint32_t head_crc, crc, size; /* size: modulo 2^32 */
	size_t at, given;	      /* in the ring */
	size_t reach;		      /* greatest valid distance of a match */
	struct inflate_code literals, distances;
	uint8_t ring[RING];
};

static int inflate_malformed(struct inflate *z, const char *what)
{
	return err_set(z->e, ERR_INVALID, "gzip: %s", what);
}

/* ---- input */

/* 1: there is at least one more byte. 0: the end. */
static int inflate_fetch(struct inflate *z)
{
	ssize_t n;

	if (z->in < z->in_end)
		return 1;
	n = z->io->read(z->io->arg, &z->in, z->e);
	if (n < 0)
		return -1;
	z->in_end = z->in + n;
	return n > 0;
}

static int inflate_need(struct inflate *z, unsigned n)
{
	while (z->nbits < n) {
		int rc = z->in < z->in_end ? 1 : inflate_fetch(z);

		if (rc <= 0)
			return rc < 0 ? -1 : inflate_malformed(z, "ends too early");
		z->bits |= (uint64_t)*z->in++ << z->nbits;
		z->nbits += 8;
	}
	return 0;
}

static uint32_t inflate_drop(struct inflate *z, unsigned n)
{
	uint32_t v = (uint32_t)(z->bits & ((1ULL << n) - 1));

	z->bits >>= n;
	z->nbits -= n;
	return v;
}

/* A number of up to 32 bits. */
static int inflate_take(struct inflate *z, unsigned n, uint32_t *ret)
{
	if (inflate_need(z, n) < 0)
		return -1;
	*ret = inflate_drop(z, n);
	return 0;
}

/* ---- output */

/* Pass on the new bytes of the ring. */
static int inflate_flush(struct inflate *z)
{
	const uint8_t *p = z->ring + z->given;
	size_t n = z->at - z->given;

	z->given = z->at;
	if (z->at == RING)
		z->at = z->given = 0;
	if (n == 0)
		return 0;
	z->crc = crc32_add(z->crc, p, n);
	z->size += (uint32_t)n;
	z->reach = z->reach + n < RING ? z->reach + n : RING;
	return z->io->write(z->io->arg, p, n, z->e);
}

static int inflate_put(struct inflate *z, uint8_t byte)
{
	z->ring[z->at++] = byte;
	return z->at == RING ? inflate_flush(z) : 0;
}

static int inflate_copy_match(struct inflate *z, size_t distance, size_t len)
{
	size_t from = (z->at - distance) & (RING - 1);

	if (distance > z->reach + (z->at - z->given))
		return inflate_malformed(z, "a match before the start of the content");
	if (distance >= len && z->at + len < RING && from + len <= RING) {
		memcpy(z->ring + z->at, z->ring + from, len);
		z->at += len;
		return 0;
	}
	for (; len > 0; len--) {
		if (inflate_put(z, z->ring[from]) < 0)
			return -1;
		from = (from + 1) & (RING - 1);
	}
	return 0;
}

static int inflate_decode(struct inflate *z, const struct inflate_code *c, uint32_t *ret)
{
	unsigned n;

	if (inflate_need(z, INFLATE_CODE_BITS) < 0)
		return -1;
	n = inflate_code_find(c, z->bits, ret);
	if (n == 0)
		return inflate_malformed(z, "invalid code");
	(void)inflate_drop(z, n);
	return 0;
}

/* ---- blocks */

static int inflate_stored_block(struct inflate *z)
{
	uint32_t len, check, byte;

	(void)inflate_drop(z, z->nbits % 8);
	if (inflate_take(z, 16, &len) < 0 || inflate_take(z, 16, &check) < 0)
		return -1;
	if (len != (~check & 0xffff))
		return inflate_malformed(z, "wrong length of a stored block");
	for (; len > 0; len--)
		if (inflate_take(z, 8, &byte) < 0 || inflate_put(z, (uint8_t)byte) < 0)
			return -1;
	return 0;
}

static int inflate_one_match(struct inflate *z, uint32_t symbol)
{
	static const uint16_t base[] = { 3,  4,	 5,  6,	  7,   8,   9,	 10,  11, 13,
					 15, 17, 19, 23,  27,  31,  35,	 43,  51, 59,
					 67, 83, 99, 115, 131, 163, 195, 227, 258 };
	static const uint8_t more[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
					2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
	uint32_t len, distance, extra;

	symbol -= END_OF_BLOCK + 1;
	if (symbol >= sizeof(more))
		return inflate_malformed(z, "invalid length of a match");
	if (inflate_take(z, more[symbol], &extra) < 0)
		return -1;
	len = base[symbol] + extra;
	if (inflate_decode(z, &z->distances, &symbol) < 0)
		return -1;
	if (symbol >= 30)
		return inflate_malformed(z, "invalid distance of a match");
	if (symbol < 4)
		return inflate_copy_match(z, symbol + 1, len);
	if (inflate_take(z, symbol / 2 - 1, &extra) < 0)
		return -1;
	distance = ((2 + symbol % 2) << (symbol / 2 - 1)) + 1 + extra;
	return inflate_copy_match(z, distance, len);
}

static int inflate_coded_block(struct inflate *z)
{
	for (;;) {
		uint32_t symbol;

		if (inflate_decode(z, &z->literals, &symbol) < 0)
			return -1;
		if (symbol == END_OF_BLOCK)
			return 0;
		if ((symbol < END_OF_BLOCK ? inflate_put(z, (uint8_t)symbol)
					   : inflate_one_match(z, symbol)) < 0)
			return -1;
	}
}

static int inflate_fixed_block(struct inflate *z)
{
	uint8_t lengths[LITERALS];

	memset(lengths, 8, 144);
	memset(lengths + 144, 9, 112);
	memset(lengths + 256, 7, 24);
	memset(lengths + 280, 8, 8);
	if (!inflate_code_make(&z->literals, lengths, LITERALS, true))
		return inflate_malformed(z, "invalid code lengths");
	memset(lengths, 5, DISTANCES);
	if (!inflate_code_make(&z->distances, lengths, DISTANCES, true))
		return inflate_malformed(z, "invalid code lengths");
	return inflate_coded_block(z);
}

/* Lengths of codes, themselves coded: literals and distances in one row, repetitions in between. */
static int inflate_read_lengths(struct inflate *z, uint8_t *lengths, unsigned n)
{
	for (unsigned at = 0; at < n;) {
		uint32_t symbol, times;
		uint8_t value = 0;

		if (inflate_decode(z, &z->literals, &symbol) < 0)
			return -1;
		if (symbol < 16) {
			lengths[at++] = (uint8_t)symbol;
			continue;
		}
		if (symbol == 16 && at == 0)
			return inflate_malformed(z, "repeats a code length before the first one");
		if (symbol == 16)
			value = lengths[at - 1];
		if (inflate_take(z, symbol == 16 ? 2 : symbol == 17 ? 3 : 7, &times) < 0)
			return -1;
		times += symbol == 18 ? 11 : 3;
		if (times > n - at)
			return inflate_malformed(z, "too many code lengths");
		memset(lengths + at, value, times);
		at += times;
	}
	return 0;
}

static int inflate_dynamic_block(struct inflate *z)
{
	static const uint8_t order[19] = { 16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
					   11, 4,  12, 3, 13, 2, 14, 1, 15 };
	uint8_t lengths[LITERALS + DISTANCES] = { 0 };
	uint32_t literals, distances, n, v;

	if (inflate_take(z, 5, &literals) < 0 || inflate_take(z, 5, &distances) < 0 ||
	    inflate_take(z, 4, &n) < 0)
		return -1;
	literals += 257;
	distances += 1;
	if (literals > 286 || distances > 30)
		return inflate_malformed(z, "too many codes");
	for (unsigned i = 0; i < n + 4; i++) {
		if (inflate_take(z, 3, &v) < 0)
			return -1;
		lengths[order[i]] = (uint8_t)v;
	}
	if (!inflate_code_make(&z->literals, lengths, sizeof(order), false))
		return inflate_malformed(z, "invalid code lengths");
	memset(lengths, 0, sizeof(lengths));
	if (inflate_read_lengths(z, lengths, literals + distances) < 0)
		return -1;
	if (lengths[END_OF_BLOCK] == 0 ||
	    !inflate_code_make(&z->literals, lengths, literals, true) ||
	    !inflate_code_make(&z->distances, lengths + literals, distances, true))
		return inflate_malformed(z, "invalid code lengths");
	return inflate_coded_block(z);
}

static int inflate_all_blocks(struct inflate *z)
{
	uint32_t last = 0, type = 0;

	while (last == 0) {
		int rc;

		if (inflate_take(z, 1, &last) < 0 || inflate_take(z, 2, &type) < 0)
			return -1;
		rc = type == 0	 ? inflate_stored_block(z)
		     : type == 1 ? inflate_fixed_block(z)
		     : type == 2 ? inflate_dynamic_block(z)
				 : inflate_malformed(z, "invalid block type");
		if (rc < 0)
			return -1;
	}
	return inflate_flush(z);
}

/* ---- members */

static int inflate_head_byte(struct inflate *z, uint8_t *ret)
{
	uint32_t v;

	if (inflate_take(z, 8, &v) < 0)
		return -1;
	*ret = (uint8_t)v;
	z->head_crc = crc32_add(z->head_crc, ret, 1);
	return 0;
}

static int inflate_skip_bytes(struct inflate *z, unsigned n)
{
	uint8_t byte;

	for (; n > 0; n--)
		if (inflate_head_byte(z, &byte) < 0)
			return -1;
	return 0;
}

static int inflate_skip_string(struct inflate *z)
{
	uint8_t byte;

	do {
		if (inflate_head_byte(z, &byte) < 0)
			return -1;
	} while (byte != 0);
	return 0;
}

static int inflate_read_head(struct inflate *z)
{
	enum { HEAD_CRC = 2, EXTRA = 4, NAME = 8, COMMENT = 16, RESERVED = 0xe0 };
	uint8_t b[4], n[2];
	uint32_t check;

	z->head_crc = 0;
	for (size_t i = 0; i < sizeof(b); i++)
		if (inflate_head_byte(z, &b[i]) < 0)
			return -1;
	if (b[0] != 0x1f || b[1] != 0x8b || b[2] != 8 || (b[3] & RESERVED) != 0)
		return inflate_malformed(z, "invalid header");
	if (inflate_skip_bytes(z, 6) < 0)
		return -1;
	if ((b[3] & EXTRA) != 0 &&
	    (inflate_head_byte(z, &n[0]) < 0 || inflate_head_byte(z, &n[1]) < 0 ||
	     inflate_skip_bytes(z, (unsigned)n[0] | (unsigned)n[1] << 8) < 0))
		return -1;
	if (((b[3] & NAME) != 0 && inflate_skip_string(z) < 0) ||
	    ((b[3] & COMMENT) != 0 && inflate_skip_string(z) < 0))
		return -1;
	if ((b[3] & HEAD_CRC) == 0)
		return 0;
	if (inflate_take(z, 16, &check) < 0)
		return -1;
	return check == (z->head_crc & 0xffff)
		       ? 0
		       : inflate_malformed(z, "wrong checksum of the header");
}

static int inflate_one_member(struct inflate *z)
{
	uint32_t crc, size;

	if (inflate_read_head(z) < 0)
		return -1;
	z->crc = z->size = 0;
	z->reach = 0;
	if (inflate_all_blocks(z) < 0)
		return -1;
	(void)inflate_drop(z, z->nbits % 8);
	if (inflate_take(z, 32, &crc) < 0 || inflate_take(z, 32, &size) < 0)
		return -1;
	if (crc != z->crc)
		return inflate_malformed(z, "wrong checksum");
	return size == z->size ? 0 : inflate_malformed(z, "wrong length");
}

int inflate_gzip(const struct inflate_io *io, struct err *e)
{
	OWN_MEM struct inflate *z = calloc(1, sizeof(*z));
	int more;

	if (z == NULL)
		return err_sys(e, "inflate");
	z->io = io;
	z->e = e;
	do {
		if (inflate_one_member(z) < 0)
			return -1;
		more = z->nbits > 0 ? 1 : inflate_fetch(z);
	} while (more > 0);
	return more;
}
