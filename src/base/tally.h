/* tally.h - bytes in memory that are held on behalf of one party: a tenant, an address, or all of
 * them together. src/net counts; the party's owner keeps the counter. */
#pragma once

#include <stddef.h>

struct tally {
	size_t bodies; /* of request bodies that are being collected */
	size_t unread; /* of answers that wait to be read */
};
