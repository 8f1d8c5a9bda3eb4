/* inflate_code.h - the codes of variable length that inflate.c reads: symbols by their bits. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define INFLATE_CODE_BITS 15U	  /* of the longest code */
#define INFLATE_CODE_SYMBOLS 288U /* of the largest set */
#define INFLATE_CODE_LOOKUP 10U

struct inflate_code {
	uint16_t count[INFLATE_CODE_BITS + 1];	    /* codes of each length */
	uint16_t symbol[INFLATE_CODE_SYMBOLS];	    /* in the order of their codes */
	uint16_t lookup[1U << INFLATE_CODE_LOOKUP]; /* symbol << 4 | length; 0: longer, or none */
};

/* Makes the set from the length of each symbol's code, 0 (it has none) to 15. Returns false if the
 * set is over- or under-subscribed. A set must be complete, or empty (no symbol is ever found), or,
 * if `single` is true, have one code of one bit. */
bool inflate_code_make(struct inflate_code *c, const uint8_t *lengths, unsigned n, bool single);

/* Finds the symbol that INFLATE_CODE_BITS bits, first bit lowest, begin with. Returns how many of
 * them are its code; 0 if there is none. */
unsigned inflate_code_find(const struct inflate_code *c, uint64_t bits, uint32_t *ret_symbol);
