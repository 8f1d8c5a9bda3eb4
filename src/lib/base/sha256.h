/* sha256.h - SHA-256 (FIPS 180-4), for hashes at rest. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32

struct sha256 {
	uint32_t state[8];
	uint64_t total;
	uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_end(struct sha256 *s, uint8_t ret[SHA256_SIZE]);

/* For sha256.c and tests: the rounds' constants. n blocks of 64 bytes without the processor's
 * help. */
extern const uint32_t sha256_constants[64];
void sha256_portable_blocks(uint32_t state[8], const uint8_t *data, size_t n);

/* All at once. */
void sha256_of(const void *data, size_t len, uint8_t ret[SHA256_SIZE]);

/* ---- by the instructions that most x86 processors have, some ten times as fast as the portable
 * code. For sha256.c and tests. */

/* Does this processor have them? Asked once. False on other architectures. */
bool sha256_ni_is_there(void);
/* n blocks of 64 bytes. Only if sha256_ni_is_there(). */
void sha256_ni_blocks(uint32_t state[8], const uint8_t *data, size_t n);
