/* sha256_ni.h - SHA-256 by the instructions that most x86 processors have for it, some ten times as
 * fast as the portable code. Called by sha256.c. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does this processor have them? Asked once. False on other architectures. */
bool sha256_ni_is_there(void);
/* n blocks of 64 bytes. Only if sha256_ni_is_there(). */
void sha256_ni_blocks(uint32_t state[8], const uint8_t *data, size_t n);
