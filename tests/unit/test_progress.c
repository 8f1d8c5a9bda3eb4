/* Goal: what is said about a transfer is true, also at its edges. */
#include "cmd/client/progress.h"

#include "support.h"

static void formats(void)
{
	static const struct {
		uint64_t done, total, ms;
		const char *want;
	} cases[] = {
		{ 1 << 20, 4 << 20, 1000, "1M of 4M (25%), 1M/s, 3s left" },
		{ 4 << 20, 4 << 20, 2000, "4M of 4M (100%), 2M/s, 0s left" },
		{ 1 << 20, UINT64_MAX, 1000, "1M, 1M/s" },
		{ 0, 100, 1000, "0, 0/s" },
		{ 0, 0, 0, "0, 0/s" },
		{ 200, 100, 1000, "200, 200/s" }, /* it grew meanwhile */
		{ 1, 1ULL << 40, 1000, "1 of 1T (0%), 1/s, 12725829d left" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct progress p = { .name = "x", .done = cases[i].done, .total = cases[i].total };
		char text[160];

		progress_format(&p, cases[i].ms, text, sizeof(text));
		CHECK_STR(text, cases[i].want);
	}
}

TEST_MAIN({ "formats", formats })
