#include "front/e2b/envd/signature_limit.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/hash16.h"
#include "lib/base/rand.h"

/* A try takes about 2 us: one address can have about a hundredth of a processor, or one search
 * through all sessions. */
#define ONE_PER_SECOND 5000
#define ALL_PER_SECOND 30000
#define GOOD_PART 8 /* a good signature counts so much less: clients use several at a time */
#define SLOTS 4096  /* two addresses may share one, depending on the seed */

/* The tries of one address in one second. */
struct signature_limit_slot {
	uint64_t second;
	unsigned tries;
};

/* all counts the tries of every address in that second. */
struct signature_limit {
	uint64_t seed, second, all;
	struct signature_limit_slot slots[SLOTS];
};

/* The seed keeps clients from choosing addresses that share a slot. */
struct signature_limit *signature_limit_new(struct err *e)
{
	struct signature_limit *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		IGNORED(err_sys(e, "allocate"), "reported by NULL");
		return NULL;
	}
	rand_bytes(&t->seed, sizeof(t->seed));
	return t;
}

static struct signature_limit_slot *slot_of(struct signature_limit *t,
					    const uint8_t address[SIGNATURE_LIMIT_ADDRESS])
{
	return &t->slots[hash16(address, t->seed) % SLOTS];
}

bool signature_limit_allows(struct signature_limit *t,
			    const uint8_t address[SIGNATURE_LIMIT_ADDRESS], uint64_t now_ns)
{
	struct signature_limit_slot *s = slot_of(t, address);
	uint64_t second = now_ns / (1000 * CLOCK_MS);

	if (t->second != second)
		t->all = 0;
	t->second = second;
	if (s->second != second)
		s->tries = 0;
	s->second = second;
	return s->tries == 0 || (s->tries < ONE_PER_SECOND && t->all < ALL_PER_SECOND);
}

/* A failed search counts one more, so that one without sessions counts, too. */
void signature_limit_add(struct signature_limit *t, const uint8_t address[SIGNATURE_LIMIT_ADDRESS],
			 unsigned n, bool good)
{
	n = good ? n / GOOD_PART : n + 1;
	slot_of(t, address)->tries += n;
	t->all += n;
}
