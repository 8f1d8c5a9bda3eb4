#include "front/e2b/envd/signature_limit.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/own.h"
#include "support.h"

#define SECOND (1000 * CLOCK_MS)

/* Addresses next to each other, as attackers have them. */
static const uint8_t *address(unsigned n)
{
	static uint8_t bytes[SIGNATURE_LIMIT_ADDRESS];

	memcpy(bytes + 12, &n, sizeof(n));
	return bytes;
}

static void an_address_has_its_own(void)
{
	struct err e = { 0 };
	OWN_MEM struct signature_limit *t = signature_limit_new(&e);
	unsigned went = 0, others = 0;

	CHECK(t != NULL);
	while (went < 1000 && signature_limit_allows(t, address(1), 5 * SECOND)) {
		signature_limit_add(t, address(1), 100, false);
		went++;
	}
	CHECK(went > 10 && went < 100);
	for (unsigned i = 2; i < 102; i++)
		others += signature_limit_allows(t, address(i), 5 * SECOND);
	CHECK(others >= 95); /* two may share a slot */
	CHECK(signature_limit_allows(t, address(1), 6 * SECOND));
}

static void good_ones_count_little(void)
{
	struct err e = { 0 };
	OWN_MEM struct signature_limit *t = signature_limit_new(&e);
	unsigned good = 0;

	CHECK(t != NULL);
	while (good < 10000 && signature_limit_allows(t, address(1), 5 * SECOND)) {
		signature_limit_add(t, address(1), 100, true);
		good++;
	}
	CHECK(good > 300 && good < 1000);
}

static void all_together_have_a_bound(void)
{
	struct err e = { 0 };
	OWN_MEM struct signature_limit *t = signature_limit_new(&e);
	unsigned tried = 0;

	CHECK(t != NULL);
	for (unsigned i = 0; i < 1000; i++)
		for (unsigned k = 0; k < 10 && signature_limit_allows(t, address(i), 5 * SECOND);
		     k++) {
			signature_limit_add(t, address(i), 100, false);
			tried += 100;
		}
	CHECK(tried < 150000); /* not 1,000,000: one search for each address, and 30,000 */
}

TEST_MAIN({ "one address does not use up what others have", an_address_has_its_own },
	  { "good signatures count little", good_ones_count_little },
	  { "all addresses together have a bound", all_together_have_a_bound })
