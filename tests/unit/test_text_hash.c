/* Goal: the hash is SipHash-2-4, as its authors' examples show, and its seed is another one in each
 * process: texts that collide in one of them are of no use in another. */
#include "lib/base/text_hash.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* Of the reference implementation: key 00 01 .. 0f, input 00 01 .. (n - 1). */
static const struct {
	size_t n;
	uint64_t want;
} cases[] = {
	{ 0, 0x726fdb47dd0e0e31ULL },  { 1, 0x74f839c593dc67fdULL },  { 7, 0xab0200f58b01d137ULL },
	{ 8, 0x93f5f5799a932462ULL },  { 15, 0xa129ca6149be45e5ULL }, { 16, 0x3f2acc7f57c29bdbULL },
	{ 63, 0x958a324ceb064572ULL },
};

static void hashes_the_examples(void)
{
	const struct text_hash_seed seed = { { 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL } };
	uint8_t bytes[64];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	for (size_t i = 0; i < COUNT(cases); i++) {
		void *exact = exact_copy(bytes, cases[i].n);

		CHECK(text_hash_seeded(&seed, exact, cases[i].n) == cases[i].want);
		free(exact);
	}
}

static uint64_t hash_of_a_child(void)
{
	uint64_t got = 0;
	int ends[2], status = 0;
	pid_t pid;

	CHECK(pipe(ends) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		got = text_hash("1.0.0");
		_exit(write(ends[1], &got, sizeof(got)) == sizeof(got) ? 0 : 1);
	}
	CHECK(read(ends[0], &got, sizeof(got)) == sizeof(got));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
	return got;
}

static void has_a_seed_of_its_own(void)
{
	uint64_t one = hash_of_a_child(), other = hash_of_a_child();

	CHECK(one != other);
	CHECK(text_hash("1.0.0") == text_hash("1.0.0"));
	CHECK(text_hash("1.0.0") != text_hash("1.0.1"));
}

TEST_MAIN({ "hashes_the_examples", hashes_the_examples },
	  { "has_a_seed_of_its_own", has_a_seed_of_its_own })
