/* crc32.h - the checksum of gzip (ISO 3309, polynomial 0xedb88320). Against accidents, not
 * attackers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Continue a checksum, which begins as 0, with more bytes. */
uint32_t crc32_add(uint32_t crc, const uint8_t *bytes, size_t len);
