/* Goal: numbers as people write them are read exactly, or refused with a message that helps. */
#include "lib/base/units.h"

#include "support.h"

typedef int reader(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *e);

#define BAD UINT64_MAX /* no function here can yield it */
#define UNTOUCHED 0x5a5a5a5aULL
#define TIB (1ULL << 40)

struct reading {
	const char *text;
	uint64_t want;
};

static void check_readings(reader *read, const struct reading *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t got = UNTOUCHED;
		struct err e = { 0 };
		char *exact = exact_copy(cases[i].text, strlen(cases[i].text) + 1);
		int result = read(exact, 0, UINT64_MAX - 1, &got, &e);

		free(exact);
		CHECK_CASE(cases[i].text, result == (cases[i].want == BAD ? -1 : 0));
		CHECK_CASE(cases[i].text, got == (result < 0 ? UNTOUCHED : cases[i].want));
		CHECK_CASE(cases[i].text, result == 0 || e.code == ERR_INVALID);
	}
}

/* clang-format off */
static const struct reading counts[] = {
	{ "0", 0 }, { "1", 1 }, { "9", 9 }, { "007", 7 }, { "65536", 65536 },
	{ "4294967296", 4294967296 }, { "4503599627370495", 4503599627370495 },
	{ "99999999999999999999", BAD },
	{ "18446744073709551615", BAD }, { "18446744073709551616", BAD },
	{ "18446744073709551617", BAD }, /* would wrap to 1 */
	{ "340282366920938463463374607431768211457", BAD }, /* and so would this, twice over */
	{ "", BAD }, { " ", BAD }, { " 1", BAD }, { "1 ", BAD }, { "1\n", BAD }, { "\t1", BAD },
	{ "+1", BAD }, { "-1", BAD }, { "-0", BAD }, { "1.0", BAD }, { "1.", BAD }, { ".5", BAD },
	{ "0x10", BAD }, { "1e3", BAD }, { "1,000", BAD }, { "1_000", BAD }, { "1K", BAD },
	{ "\xef\xbc\x91", BAD } /* a full-width 1 */, { "\xd9\xa1", BAD } /* an Arabic one */,
	{ "/", BAD }, { ":", BAD } /* the neighbours of 0 and 9 */, { "1:", BAD }, { "1/", BAD },
};

static const struct reading bytes[] = {
	{ "0", 0 }, { "1", 1 }, { "65536", 65536 }, { "1B", 1 }, { "1b", 1 }, { "1.0", 1 },
	{ "1.000B", 1 },
	{ "1K", 1024 }, { "1k", 1024 }, { "1KB", 1024 }, { "1kb", 1024 }, { "1Kb", 1024 },
	{ "1KiB", 1024 }, { "1kib", 1024 }, { "1KIB", 1024 }, { "0K", 0 },
	{ "2M", 2097152 }, { "2MiB", 2097152 }, { "512M", 536870912 }, { "1.5G", 1610612736 },
	{ "1.5g", 1610612736 }, { "1T", TIB }, { "64t", 64 * TIB }, { "64TiB", 64 * TIB },
	{ "0.5K", 512 }, { "0.001K", 1 }, { "1.999K", 2046 }, { "0.001M", 1048 }, { "1.25K", 1280 },
	{ "16777215T", 16777215 * TIB }, { "16777215.999T", 16777215 * TIB + 999 * TIB / 1000 },
	{ "16777216T", BAD } /* 2^64 */, { "16777217T", BAD }, { "4503599627370495T", BAD },
	{ "99999999999999999999", BAD }, { "18446744073709551616", BAD },
	{ "", BAD }, { "K", BAD }, { "B", BAD }, { "iB", BAD }, { " 1K", BAD }, { "1 K", BAD },
	{ "1K ", BAD },
	{ "-1K", BAD }, { "+1K", BAD }, { "1.5", BAD }, { "1.5B", BAD }, { "0.001", BAD },
	{ "1.0001K", BAD }, { "1.K", BAD }, { ".5K", BAD }, { "1..5K", BAD }, { "1.5.5K", BAD },
	{ "1K.5", BAD },
	{ "1KK", BAD }, { "1KM", BAD }, { "1KiBB", BAD }, { "1iB", BAD }, { "1Ki", BAD },
	{ "1BK", BAD },
	{ "1BB", BAD }, { "1KB1", BAD }, { "1P", BAD }, { "1E", BAD }, { "1,5K", BAD },
	{ "1e3", BAD },
	{ "1\xcb", BAD } /* 'K' + 128 */, { "1+", BAD }, { "1-", BAD }, { "1\x0b", BAD },
};

static const struct reading times[] = {
	{ "0", 0 }, { "30", 30000 }, { "1.5", 1500 }, { "0.001", 1 }, { "500ms", 500 },
	{ "0ms", 0 }, { "1.0ms", 1 },
	{ "30s", 30000 }, { "0.5s", 500 }, { "0.001s", 1 }, { "5m", 300000 }, { "0.5m", 30000 },
	{ "0.001m", 60 }, { "2h", 7200000 }, { "1.5h", 5400000 }, { "1d", 86400000 },
	{ "366d", 31622400000 },
	{ "213503982334d", 18446744073657600000ULL }, { "213503982335d", BAD } /* over 2^64 */,
	{ "4503599627370495h", BAD }, { "99999999999999999999", BAD }, { "18446744073709552", BAD },
	{ "", BAD }, { "s", BAD }, { "ms", BAD }, { " 1s", BAD }, { "1 s", BAD },
	{ "1s ", BAD }, { "-1s", BAD },
	{ "0.5ms", BAD }, { "1.0001s", BAD }, { "1.s", BAD }, { ".5s", BAD }, { "1.5.0", BAD },
	{ "1S", BAD }, { "1M", BAD }, { "1MS", BAD }, { "1min", BAD }, { "1sec", BAD },
	{ "1w", BAD }, { "1y", BAD },
	{ "1sm", BAD }, { "1h30m", BAD }, { "1e3", BAD }, { "1us", BAD }, { "inf", BAD },
	{ "1m\n", BAD },
};

static const struct reading millis[] = {
	{ "0", 0 }, { "1", 1000 }, { "0.5", 500 }, { "1.5", 1500 }, { "0.001", 1 },
	{ "2.125", 2125 }, { "1.05", 1050 },
	{ "1000", 1000000 }, { "0.999", 999 }, { "4503599627370495", 4503599627370495000ULL },
	{ "1.0001", BAD }, { "0.0009", BAD }, { "1,5", BAD }, { ".5", BAD }, { "1.", BAD },
	{ "1.x", BAD },
	{ "", BAD }, { "2x", BAD }, { "-1", BAD }, { "+1", BAD }, { " 1", BAD }, { "1 ", BAD },
	{ "1e3", BAD },
	{ "nan", BAD }, { "99999999999999999999", BAD }, { "1.5.1", BAD },
};
/* clang-format on */

static void reads_counts(void)
{
	check_readings(units_count, counts, COUNT(counts));
}

static void reads_bytes(void)
{
	check_readings(units_bytes, bytes, COUNT(bytes));
}

static void reads_times(void)
{
	check_readings(units_time_ms, times, COUNT(times));
}

static void reads_millis(void)
{
	check_readings(units_millis, millis, COUNT(millis));
}

/* The bounds themselves are allowed, one beyond is not. */
static void keeps_to_the_bounds(void)
{
	static const struct {
		reader *read;
		const char *below, *low, *high, *above;
		uint64_t min, max;
	} cases[] = {
		{ units_count, "1", "2", "10", "11", 2, 10 },
		{ units_bytes, "1023", "1K", "2K", "2049", 1024, 2048 },
		{ units_time_ms, "9ms", "10ms", "2s", "2001ms", 10, 2000 },
		{ units_millis, "0.009", "0.010", "2", "2.001", 10, 2000 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t got = UNTOUCHED;
		struct err e = { 0 };

		CHECK(cases[i].read(cases[i].below, cases[i].min, cases[i].max, &got, &e) == -1);
		CHECK_HAS(cases[i].below, e.msg, cases[i].below);
		CHECK_HAS(cases[i].below, e.msg, "out of range");
		CHECK(cases[i].read(cases[i].above, cases[i].min, cases[i].max, &got, &e) == -1);
		CHECK_HAS(cases[i].above, e.msg, cases[i].above);
		CHECK(got == UNTOUCHED);
		CHECK(cases[i].read(cases[i].low, cases[i].min, cases[i].max, &got, &e) == 0);
		CHECK(got == cases[i].min);
		CHECK(cases[i].read(cases[i].high, cases[i].min, cases[i].max, &got, &e) == 0);
		CHECK(got == cases[i].max);
	}
}

static void says_what_is_allowed(void)
{
	static const struct {
		reader *read;
		const char *text;
		uint64_t min, max;
		const char *want;
	} cases[] = {
		{ units_count, "1", 2, 10, "'1' is out of range (2 to 10)" },
		{ units_bytes, "1", 65536, 64 * TIB, "'1' is out of range (64K to 64T)" },
		{ units_bytes, "2K", 0, 1536, "'2K' is out of range (0 to 1.5K)" },
		{ units_time_ms, "0", 1, 60000, "'0' is out of range (1ms to 60s)" },
		{ units_millis, "0", 10, 1000000, "'0' is out of range (0.01 to 1000)" },
		{ units_count, "many", 0, 1, "'many' is not a whole number" },
		{ units_bytes, "big", 0, 1, "'big' is not a size like 65536, 512M or 1.5G" },
		{ units_time_ms, "soon", 0, 1, "'soon' is not a time like 500ms, 30s, 5m or 2h" },
		{ units_millis, "all", 0, 1, "'all' is not a number like 2 or 0.5" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t got;
		struct err e = { 0 };

		CHECK(cases[i].read(cases[i].text, cases[i].min, cases[i].max, &got, &e) == -1);
		CHECK_STR(e.msg, cases[i].want);
	}
}

/* A number that no machine has is a number all the same: what is wrong with it is its size. */
static void too_large_is_out_of_range(void)
{
	static const struct {
		reader *read;
		const char *text;
	} cases[] = {
		{ units_count, "5000000000000000" },
		{ units_count, "99999999999999999999" },
		{ units_bytes, "99999999T" },
		{ units_time_ms, "99999999999999d" },
		{ units_millis, "99999999999999999999" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t got;
		struct err e = { 0 };

		CHECK(cases[i].read(cases[i].text, 1, 1000, &got, &e) == -1);
		CHECK_HAS(cases[i].text, e.msg, "out of range");
	}
}

/* What was pasted by mistake must not fill the message. */
static void quotes_only_the_beginning(void)
{
	char text[1000];
	uint64_t got;
	struct err e = { 0 };

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	CHECK(units_bytes(text, 0, 1, &got, &e) == -1);
	CHECK(strlen(e.msg) < 120);
	memset(text, '0', sizeof(text) - 1);
	text[sizeof(text) - 2] = '7';
	CHECK(units_count(text, 0, 9, &got, &e) == 0 && got == 7); /* zeros in front cost nothing */
}

static void formats_for_people(void)
{
	static const struct {
		uint64_t bytes;
		const char *want;
	} cases[] = {
		{ 0, "0" },
		{ 1, "1" },
		{ 1023, "1023" },
		{ 1024, "1K" },
		{ 1025, "1K" },
		{ 1536, "1.5K" },
		{ (1ULL << 20) - 1, "1023.9K" },
		{ 1ULL << 20, "1M" },
		{ 3ULL << 29, "1.5G" },
		{ 64 * TIB, "64T" },
		{ 1ULL << 50, "1P" },
		{ UINT64_MAX, "16383.9P" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[24];

		units_format_bytes(cases[i].bytes, text, sizeof(text));
		CHECK_STR(text, cases[i].want);
	}
}

static void formats_into_any_space(void)
{
	for (size_t cap = 1; cap < 10; cap++) {
		char *text = malloc(cap);

		CHECK(text != NULL);
		units_format_bytes(UINT64_MAX, text, cap);
		CHECK(strlen(text) == (cap - 1 < 8 ? cap - 1 : 8));
		CHECK(strncmp(text, "16383.9P", cap - 1) == 0);
		free(text);
	}
}

TEST_MAIN({ "reads counts", reads_counts }, { "reads bytes", reads_bytes },
	  { "reads times", reads_times }, { "reads thousandths", reads_millis },
	  { "keeps to the bounds", keeps_to_the_bounds },
	  { "says what is allowed", says_what_is_allowed },
	  { "too large is out of range, not malformed", too_large_is_out_of_range },
	  { "quotes only the beginning", quotes_only_the_beginning },
	  { "formats for people", formats_for_people },
	  { "formats into any space", formats_into_any_space })
