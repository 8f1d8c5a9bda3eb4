#include "lib/base/sha1.h"

#include <string.h>

#define BLOCK 64

static uint32_t sha1_rotate(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static uint32_t sha1_load(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t sha1_choose(unsigned round, const uint32_t s[5])
{
	uint32_t b = s[1], c = s[2], d = s[3];

	if (round < 20)
		return ((b & c) | (~b & d)) + 0x5a827999;
	if (round < 40)
		return (b ^ c ^ d) + 0x6ed9eba1;
	if (round < 60)
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	return (b ^ c ^ d) + 0xca62c1d6;
}

static void sha1_mix(uint32_t h[5], const uint8_t block[BLOCK])
{
	uint32_t w[80], s[5];

	for (unsigned i = 0; i < 16; i++)
		w[i] = sha1_load(block + (size_t)i * 4);
	for (unsigned i = 16; i < 80; i++)
		w[i] = sha1_rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(s, h, sizeof(s));
	for (unsigned i = 0; i < 80; i++) {
		uint32_t next = sha1_rotate(s[0], 5) + sha1_choose(i, s) + s[4] + w[i];

		s[4] = s[3];
		s[3] = s[2];
		s[2] = sha1_rotate(s[1], 30);
		s[1] = s[0];
		s[0] = next;
	}
	for (unsigned i = 0; i < 5; i++)
		h[i] += s[i];
}

void sha1_digest(const void *bytes, size_t n, uint8_t ret[SHA1_SIZE])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	uint8_t last[2 * BLOCK] = { 0 };
	const uint8_t *p = bytes;
	size_t rest = n % BLOCK, end;

	for (size_t i = 0; i + BLOCK <= n; i += BLOCK)
		sha1_mix(h, p + i);
	if (rest > 0)
		memcpy(last, p + n - rest, rest);
	last[rest] = 0x80;
	end = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;
	for (unsigned i = 0; i < 8; i++)
		last[end - 1 - i] = (uint8_t)((uint64_t)n * 8 >> (8 * i));
	sha1_mix(h, last);
	if (end > BLOCK)
		sha1_mix(h, last + BLOCK);
	for (unsigned i = 0; i < SHA1_SIZE; i++)
		ret[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}
