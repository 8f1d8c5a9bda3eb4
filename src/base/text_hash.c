#include "text_hash.h"

#include <stdbool.h>
#include <string.h>

#include "rand.h"

struct state {
	uint64_t a, b, c, d;
};

static uint64_t turn(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void round_of(struct state *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = turn(s->b, 13) ^ s->a;
	s->d = turn(s->d, 16) ^ s->c;
	s->a = turn(s->a, 32) + s->d;
	s->c += s->b;
	s->d = turn(s->d, 21) ^ s->a;
	s->b = turn(s->b, 17) ^ s->c;
	s->c = turn(s->c, 32);
}

static void add(struct state *s, uint64_t word)
{
	s->d ^= word;
	round_of(s);
	round_of(s);
	s->a ^= word;
}

static uint64_t word_of(const uint8_t *p, size_t n)
{
	uint64_t word = 0;

	for (size_t i = 0; i < n; i++)
		word |= (uint64_t)p[i] << (8 * i);
	return word;
}

uint64_t text_hash_seeded(const struct text_hash_seed *seed, const void *bytes, size_t n)
{
	struct state s = { seed->k[0] ^ 0x736f6d6570736575ULL, seed->k[1] ^ 0x646f72616e646f6dULL,
			   seed->k[0] ^ 0x6c7967656e657261ULL, seed->k[1] ^ 0x7465646279746573ULL };
	const uint8_t *p = bytes;
	size_t at = 0;

	for (; n - at >= 8; at += 8)
		add(&s, word_of(p + at, 8));
	add(&s, word_of(p + at, n - at) | (uint64_t)n << 56);
	s.c ^= 0xff;
	for (unsigned i = 0; i < 4; i++)
		round_of(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}

uint64_t text_hash(const char *text)
{
	static struct text_hash_seed seed;
	static bool is_made;

	if (!is_made) {
		rand_bytes(&seed, sizeof(seed));
		is_made = true;
	}
	return text_hash_seeded(&seed, text, strlen(text));
}
