#include "lib/base/sha256.h"

#include <string.h>

/* ---- by the instructions of the processor
 *
 * The state is kept in the order of the instructions, ABEF and CDGH. Each turn of the inner loop
 * does four rounds. m has the last 16 words of the message schedule, four in each. */

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

#include "lib/base/sha256.h"

bool sha256_ni_is_there(void)
{
	static int known; /* 0: not asked yet. 1: no. 2: yes */
	unsigned a, b, c, d;

	if (known == 0) {
		bool sse = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSSE3) != 0 &&
			   (c & bit_SSE4_1) != 0;

		known = sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0
				? 2
				: 1;
	}
	return known == 2;
}

__attribute__((target("sha,ssse3,sse4.1"))) static void block(__m128i *abef, __m128i *cdgh,
							      const uint8_t *data)
{
	const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i m[4], was_abef = *abef, was_cdgh = *cdgh, w;

	for (size_t i = 0; i < 4; i++)
		m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const void *)(data + 16 * i)), order);
	for (size_t i = 0; i < 16; i++) {
		__m128i *now = &m[i & 3], last = m[(i + 3) & 3];

		if (i >= 4) {
			w = _mm_add_epi32(_mm_sha256msg1_epu32(*now, m[(i + 1) & 3]),
					  _mm_alignr_epi8(last, m[(i + 2) & 3], 4));
			*now = _mm_sha256msg2_epu32(w, last);
		}
		w = _mm_add_epi32(*now, _mm_loadu_si128((const void *)&sha256_constants[4 * i]));
		*cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, w);
		*abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(w, 0x0e));
	}
	*abef = _mm_add_epi32(*abef, was_abef);
	*cdgh = _mm_add_epi32(*cdgh, was_cdgh);
}

__attribute__((target("sha,ssse3,sse4.1"))) void sha256_ni_blocks(uint32_t state[8],
								  const uint8_t *data, size_t n)
{
	__m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const void *)state), 0xb1);
	__m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const void *)(state + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);

	for (; n > 0; n--, data += 64)
		block(&abef, &cdgh, data);
	low = _mm_shuffle_epi32(abef, 0x1b);
	high = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((void *)state, _mm_blend_epi16(low, high, 0xf0));
	_mm_storeu_si128((void *)(state + 4), _mm_alignr_epi8(high, low, 8));
}
#else
bool sha256_ni_is_there(void)
{
	return false;
}

void sha256_ni_blocks(uint32_t state[8], const uint8_t *data, size_t n)
{
}
#endif

/* ---- by any processor */

const uint32_t sha256_constants[64] = {
	/* clang-format off */
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
	/* clang-format on */
};

static uint32_t sha256_rotate_right(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void sha256_expand(const uint8_t block[64], uint32_t w[64])
{
	for (size_t i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (unsigned i = 16; i < 64; i++) {
		uint32_t a = sha256_rotate_right(w[i - 15], 7) ^
			     sha256_rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
		uint32_t b = sha256_rotate_right(w[i - 2], 17) ^ sha256_rotate_right(w[i - 2], 19) ^
			     w[i - 2] >> 10;

		w[i] = w[i - 16] + a + w[i - 7] + b;
	}
}

static void sha256_compress(uint32_t state[8], const uint8_t block[64])
{
	uint32_t w[64], v[8];

	sha256_expand(block, w);
	memcpy(v, state, sizeof(v));
	for (unsigned i = 0; i < 64; i++) {
		uint32_t s1 = sha256_rotate_right(v[4], 6) ^ sha256_rotate_right(v[4], 11) ^
			      sha256_rotate_right(v[4], 25);
		uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
		uint32_t t1 = v[7] + s1 + choice + sha256_constants[i] + w[i];
		uint32_t s0 = sha256_rotate_right(v[0], 2) ^ sha256_rotate_right(v[0], 13) ^
			      sha256_rotate_right(v[0], 22);
		uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += t1;
		v[0] = t1 + s0 + majority;
	}
	for (unsigned i = 0; i < 8; i++)
		state[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
	static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	memcpy(s->state, start, sizeof(start));
	s->total = 0;
}

void sha256_portable_blocks(uint32_t state[8], const uint8_t *data, size_t n)
{
	for (; n > 0; n--, data += 64)
		sha256_compress(state, data);
}

static void sha256_add_blocks(struct sha256 *s, const uint8_t *data, size_t n)
{
	if (sha256_ni_is_there())
		sha256_ni_blocks(s->state, data, n);
	else
		sha256_portable_blocks(s->state, data, n);
}

void sha256_add(struct sha256 *s, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len > 0) {
		size_t at = s->total % 64, n = 64 - at < len ? 64 - at : len;

		if (at == 0 && len >= 64) {
			n = len - len % 64;
			sha256_add_blocks(s, p, n / 64);
		} else {
			memcpy(s->block + at, p, n);
			if (at + n == 64)
				sha256_add_blocks(s, s->block, 1);
		}
		s->total += n;
		p += n;
		len -= n;
	}
}

void sha256_end(struct sha256 *s, uint8_t ret[SHA256_SIZE])
{
	uint64_t bits = s->total * 8;
	uint8_t length[8];

	sha256_add(s, "\x80", 1);
	while (s->total % 64 != 56)
		sha256_add(s, "", 1);
	for (unsigned i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, length, 8);
	for (unsigned i = 0; i < SHA256_SIZE; i++)
		ret[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_of(const void *data, size_t len, uint8_t ret[SHA256_SIZE])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, data, len);
	sha256_end(&s, ret);
}
