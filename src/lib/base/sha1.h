/* sha1.h - SHA-1, for formats that require it (the WebSocket handshake, Java's key stores). Broken
 * as a cryptographic hash: never for secrets or signatures. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA1_SIZE 20

void sha1_digest(const void *bytes, size_t n, uint8_t ret[SHA1_SIZE]);
