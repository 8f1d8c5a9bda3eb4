#include "lib/base/text_hash.h"

#include <stdbool.h>
#include <string.h>

#include "lib/base/rand.h"

struct text_hash_state {
	uint64_t a, b, c, d;
};

static uint64_t hash_turn(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void hash_round_of(struct text_hash_state *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = hash_turn(s->b, 13) ^ s->a;
	s->d = hash_turn(s->d, 16) ^ s->c;
	s->a = hash_turn(s->a, 32) + s->d;
	s->c += s->b;
	s->d = hash_turn(s->d, 21) ^ s->a;
	s->b = hash_turn(s->b, 17) ^ s->c;
	s->c = hash_turn(s->c, 32);
}

static void hash_add(struct text_hash_state *s, uint64_t word)
{
	s->d ^= word;
	hash_round_of(s);
	hash_round_of(s);
	s->a ^= word;
}

static uint64_t hash_word_of(const uint8_t *p, size_t n)
{
	uint64_t word = 0;

	for (size_t i = 0; i < n; i++)
		word |= (uint64_t)p[i] << (8 * i);
	return word;
}

uint64_t text_hash_seeded(const struct text_hash_seed *seed, const void *bytes, size_t n)
{
	struct text_hash_state s = { seed->k[0] ^ 0x736f6d6570736575ULL,
				     seed->k[1] ^ 0x646f72616e646f6dULL,
				     seed->k[0] ^ 0x6c7967656e657261ULL,
				     seed->k[1] ^ 0x7465646279746573ULL };
	const uint8_t *p = bytes;
	size_t at = 0;

	for (; n - at >= 8; at += 8)
		hash_add(&s, hash_word_of(p + at, 8));
	hash_add(&s, hash_word_of(p + at, n - at) | (uint64_t)n << 56);
	s.c ^= 0xff;
	for (unsigned i = 0; i < 4; i++)
		hash_round_of(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}

uint64_t text_hash_part(const char *text, size_t n)
{
	static struct text_hash_seed seed;
	static bool is_made;

	if (!is_made) {
		rand_bytes(&seed, sizeof(seed));
		is_made = true;
	}
	return text_hash_seeded(&seed, text, n);
}

uint64_t text_hash(const char *text)
{
	return text_hash_part(text, strlen(text));
}
