/* Any bytes as the beginning of a TLS connection: what was said about the first of them stays true
 * when more come, a name that is read is in its normal form, and what comes behind the message does
 * not matter. */
#include "fuzz.h"

#include "egress/flow/tls_hello.h"

unsigned long fuzz_accepted;

static void check_prefix(const uint8_t *bytes, size_t part, int verdict,
			 const struct tls_hello *whole)
{
	uint8_t *copy = fuzz_copy(bytes, part);
	struct tls_hello some;
	int got = tls_hello_read(copy, part, &some);

	if (got == 1)
		assert(verdict == 1 && memcmp(&some, whole, sizeof(some)) == 0);
	if (got == -1)
		assert(verdict == -1);
	if (got != 1)
		assert(some.sni[0] == '\0' && !some.alpn && !some.ech);
	if (part > 0 && got >= 0)
		assert(tls_hello_is_tls(copy, part));
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = fuzz_copy(data, size);
	char again[HOST_MAX];
	struct tls_hello h;
	int got = tls_hello_read(copy, size, &h);

	assert(got >= -1 && got <= 1 && (got != 0 || size < TLS_HELLO_MAX));
	if (got == 1) {
		fuzz_accepted++;
		assert(h.alpn || (!h.h2 && !h.http1));
		if (h.sni[0] != '\0') {
			assert(host_normal(h.sni, strlen(h.sni), again) == 0);
			assert(strcmp(h.sni, again) == 0);
		}
	}
	for (size_t part = 0; part < size && part < 64; part++)
		check_prefix(data, part, got, &h);
	for (size_t part = size / 2; part < size; part += size / 8 + 1)
		check_prefix(data, part, got, &h);
	free(copy);
	return 0;
}
