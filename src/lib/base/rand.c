#include "lib/base/rand.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lib/base/hex.h"

void rand_bytes(void *ret, size_t n)
{
	uint8_t *p = ret;

	while (n > 0) {
		ssize_t got = getrandom(p, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			abort(); /* see the header */
		p += got;
		n -= (size_t)got;
	}
}

uint32_t rand_below(uint32_t n)
{
	uint32_t bits, reject;

	assert(n > 0);
	reject = -n % n; /* 2^32 mod n: the first values, which would make some results likelier */
	do
		rand_bytes(&bits, sizeof(bits));
	while (bits < reject);
	return bits % n;
}

void rand_id(const char *prefix, char *ret_id, size_t cap)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t n = strlen(prefix), end = n + RAND_ID_CHARS;
	uint8_t pool[32];
	size_t used = sizeof(pool);

	assert(end < cap);
	memcpy(ret_id, prefix, n);
	while (n < end) {
		if (used == sizeof(pool)) {
			rand_bytes(pool, sizeof(pool));
			used = 0;
		}
		if (pool[used] < 252) /* 7 * 36: larger values would make some letters likelier */
			ret_id[n++] = letters[pool[used] % 36];
		used++;
	}
	ret_id[end] = '\0';
}

void rand_machine_id(char ret_id[33])
{
	uint8_t bytes[16];

	rand_bytes(bytes, sizeof(bytes));
	hex_encode(bytes, sizeof(bytes), ret_id);
}
