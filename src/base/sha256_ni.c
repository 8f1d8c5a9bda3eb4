/* sha256_ni.c - the state is kept as the instructions want it, ABEF and CDGH. Each turn of the
 * inner loop does four rounds; m has the last 16 words of the message schedule, four in each. */
#include "sha256_ni.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

#include "sha256.h"

bool sha256_ni_is_there(void)
{
	static int known; /* 0: not asked yet; 1: no; 2: yes */
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
	(void)state;
	(void)data;
	(void)n;
}
#endif
