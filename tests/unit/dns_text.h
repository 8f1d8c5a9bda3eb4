/* dns_text.h - DNS messages for tests, put together piece by piece. */
#ifndef CORDON_TESTS_UNIT_DNS_TEXT_H
#define CORDON_TESTS_UNIT_DNS_TEXT_H

#include <stdint.h>
#include <string.h>

#include "test.h"

struct text {
	uint8_t b[4096];
	size_t n;
};

static inline void put_bytes(struct text *t, const void *bytes, size_t n)
{
	CHECK(n <= sizeof(t->b) - t->n);
	memcpy(t->b + t->n, bytes, n);
	t->n += n;
}

static inline void put_u16(struct text *t, unsigned value)
{
	put_bytes(t, (const uint8_t[]){ (uint8_t)(value >> 8), (uint8_t)value }, 2);
}

/* "a.example" as labels. */
static inline void put_labels(struct text *t, const char *name)
{
	while (*name != '\0') {
		size_t n = strcspn(name, ".");

		put_bytes(t, &(uint8_t){ (uint8_t)n }, 1);
		put_bytes(t, name, n);
		name += n + (name[n] == '.');
	}
	put_bytes(t, "", 1);
}

static inline void put_head(struct text *t, unsigned id, unsigned flags, unsigned qd, unsigned an,
			    unsigned ns, unsigned ar)
{
	unsigned all[] = { id, flags, qd, an, ns, ar };

	t->n = 0;
	for (size_t i = 0; i < 6; i++)
		put_u16(t, all[i]);
}

static inline void put_question(struct text *t, const char *name, unsigned type)
{
	put_labels(t, name);
	put_u16(t, type);
	put_u16(t, 1);
}

static inline void put_rr(struct text *t, const char *owner, unsigned type, unsigned ttl,
			  const void *data, size_t n)
{
	put_labels(t, owner);
	put_u16(t, type);
	put_u16(t, 1);
	put_u16(t, ttl >> 16);
	put_u16(t, ttl & 0xFFFF);
	put_u16(t, (unsigned)n);
	put_bytes(t, data, n);
}

static inline void put_cname(struct text *t, const char *owner, unsigned ttl, const char *target)
{
	struct text name = { .n = 0 };

	put_labels(&name, target);
	put_rr(t, owner, 5, ttl, name.b, name.n);
}

#endif
