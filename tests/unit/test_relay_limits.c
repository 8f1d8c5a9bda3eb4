/* Goal: output is cut exactly at its limit, and nothing before the cut is lost. */
#include "relay_bed.h"

static const struct {
	uint64_t limit;
	const char *out, *err, *want_out, *want_err;
	bool truncated;
} cuts[] = {
	{ 10, "123456789", "", "123456789", "", false },
	{ 10, "1234567890", "", "1234567890", "", false },
	{ 10, "1234567890x", "", "1234567890", "", true },
	{ 10, "1234567890xyz and more", "", "1234567890", "", true },
	{ 1, "ab", "", "a", "", true },
	{ 10, "", "1234567890x", "", "1234567890", true },
	{ 10, "12345", "67890", "12345", "67890", false },
	{ 10, "12345", "67890x", "12345", "67890", true },
	{ 10, "12345678", "9abc", "12345678", "9a", true },
	{ 10, "1234567890", "x", "1234567890", "", true },
	{ 0, "without any limit", "none", "without any limit", "none", false },
	{ UINT64_MAX, "a limit that is none", "", "a limit that is none", "", false },
};

static void cuts_exactly(void)
{
	for (size_t i = 0; i < COUNT(cuts); i++) {
		begin(cuts[i].limit);
		int in = r.in.from;

		give(program_out, cuts[i].out);
		settle();
		give(program_err, cuts[i].err);
		settle();
		expect(user_out, cuts[i].want_out, false);
		expect(user_err, cuts[i].want_err, false);
		CHECK_CASE(cuts[i].out, r.truncated == cuts[i].truncated);
		CHECK_CASE(cuts[i].out,
			   r.output_bytes == strlen(cuts[i].want_out) + strlen(cuts[i].want_err));
		if (r.truncated) {
			CHECK(write(program_out, "x", 1) == -1 && errno == EPIPE);
			CHECK(write(program_err, "x", 1) == -1 && errno == EPIPE);
			expect(program_in, "", true);
		}
		finish(in);
	}
}

/* One byte at a time, the limit is the same. */
static void cuts_a_slow_stream_exactly(void)
{
	begin(5);
	int in = r.in.from;

	for (int i = 0; i < 5; i++) {
		give(program_out, "x");
		settle();
	}
	CHECK(r.output_bytes == 5 && !r.truncated && r.out.from >= 0);
	give(program_out, "y");
	settle();
	CHECK(r.output_bytes == 5 && r.truncated && r.out.from == -1 && r.err.from == -1 &&
	      r.in.to == -1);
	expect(user_out, "xxxxx", false);
	finish(in);
}

static void the_end_at_the_limit_is_no_cut(void)
{
	begin(4);
	int in = r.in.from;

	give(program_out, "four");
	close_end(&program_out);
	close_end(&program_err);
	settle();
	expect(user_out, "four", false);
	CHECK(!r.truncated && r.output_bytes == 4 && r.out.from == -1);
	finish(in);
}

/* What was taken from the program before the cut is still passed on after it. */
static void a_cut_loses_nothing_before_it(void)
{
	begin(20);
	int in = r.in.from;
	size_t filler = fill_pipe(r.out.to); /* stdout is not read for now */

	give(program_out, "held back");
	settle();
	CHECK(r.out.have == 9);
	give(program_err, "elevenbytesandmore");
	settle();
	expect(user_err, "elevenbytes", false);
	CHECK(r.truncated && r.output_bytes == 20 && r.out.have == 9);
	CHECK(empty_pipe(user_out) == filler);
	settle();
	expect(user_out, "held back", false);
	finish(in);
}

static void drains_up_to_the_limit(void)
{
	begin(6);
	int in = r.in.from;

	give(program_out, "123456789");
	give(program_err, "x");
	relay_drain(&r);
	expect(user_out, "123456", false);
	expect(user_err, "", false);
	CHECK(r.truncated && r.output_bytes == 6);
	finish(in);
}

TEST_MAIN({ "cuts exactly", cuts_exactly },
	  { "cuts a slow stream exactly", cuts_a_slow_stream_exactly },
	  { "the end at the limit is no cut", the_end_at_the_limit_is_no_cut },
	  { "a cut loses nothing before it", a_cut_loses_nothing_before_it },
	  { "drains up to the limit", drains_up_to_the_limit })
