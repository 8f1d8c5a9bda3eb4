/* Goal: versions have the order of semver.org, and what has another form has none. */
#include "lib/packages/semver.h"

#include "support.h"

static void order_of_rows(void)
{
	/* each is below the next */
	static const char *const rows[] = {
		"0.0.1",
		"0.0.2",
		"0.0.10",
		"1.0.0-0",
		"1.0.0-1.2",
		"1.0.0-9",
		"1.0.0-10",
		"1.0.0--",
		"1.0.0-alpha",
		"1.0.0-alpha.1",
		"1.0.0-alpha.9.1",
		"1.0.0-alpha.10",
		"1.0.0-alpha.beta",
		"1.0.0-beta",
		"1.0.0-rc.99999999999999999999998",
		"1.0.0-rc.99999999999999999999999",
		"1.0.0",
		"v1.9.0",
		"1.10.0",
		"2.0.0",
		"18446744073709551615.0.0",
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t k = 0; k < COUNT(rows); k++) {
			struct semver a, b;
			int order;

			CHECK(semver_read(rows[i], &a) && semver_read(rows[k], &b));
			order = semver_compare(&a, &b);
			CHECK((order > 0) - (order < 0) == (i > k) - (i < k));
		}
}

static void builds(void)
{
	static const char *const rows[][2] = {
		{ "1.2.3", "v1.2.3" },
		{ "1.2.3+a", "1.2.3+b.1" },
		{ "1.2.3-rc.1+x-y", "1.2.3-rc.01" },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct semver a, b;

		CHECK(semver_read(rows[i][0], &a) && semver_read(rows[i][1], &b));
		CHECK(semver_compare(&a, &b) == 0);
	}
}

static void other_forms(void)
{
	static const char *const rows[] = { "",		"v",	       "1",
					    "1.2",	"1.2.",	       "1.2.3.4",
					    "1.2.3-",	"1.2.3+",      "1.2.3-a..b",
					    "1.2.3-.a", "1.2.3-a.",    "1.2.3b1",
					    "1.2.x",	"-1.2.3",      "1.2.3-a_b",
					    "vv1.2.3",	"1.2.3-a+b+c", "18446744073709551616.0.0" };

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct semver v;

		CHECK(!semver_read(rows[i], &v));
	}
}

TEST_MAIN({ "the order", order_of_rows }, { "builds do not count", builds },
	  { "other forms have no order", other_forms })
