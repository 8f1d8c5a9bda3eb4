/* Goal: a mistyped word leads to the name that was meant, and to none if it resembles none. */
#include "lib/base/similar.h"

#include "support.h"

static const char *nearest(const char *word)
{
	static const char *const names[] = { "create", "ls", "exec", "timeout", "template", "all" };
	struct similar s = { .word = word };

	for (size_t i = 0; i < COUNT(names); i++)
		similar_offer(&s, names[i]);
	return s.best == NULL ? "" : s.best;
}

static void distances(void)
{
	CHECK(similar_distance("", "") == 0);
	CHECK(similar_distance("", "abc") == 3);
	CHECK(similar_distance("lss", "ls") == 1);
	CHECK(similar_distance("craete", "create") == 1);
	CHECK(similar_distance("kitten", "sitting") == 3);
}

static void words_at_and_beyond_the_bound(void)
{
	char at[SIMILAR_WORD_MAX + 1], beyond[SIMILAR_WORD_MAX + 2];

	memset(at, 'a', sizeof(at) - 1);
	at[sizeof(at) - 1] = '\0';
	memset(beyond, 'a', sizeof(beyond) - 1);
	beyond[sizeof(beyond) - 1] = '\0';
	CHECK(similar_distance(at, at) == 0);
	CHECK(similar_distance(at, beyond) == SIMILAR_WORD_MAX);
	CHECK(similar_distance(beyond, "a") == SIMILAR_WORD_MAX);
}

static void names_that_are_meant(void)
{
	CHECK(strcmp(nearest("lss"), "ls") == 0);
	CHECK(strcmp(nearest("craete"), "create") == 0);
	CHECK(strcmp(nearest("timout"), "timeout") == 0);
	CHECK(strcmp(nearest("al"), "all") == 0);
	CHECK(strcmp(nearest("temp"), "template") == 0);
}

static void words_that_resemble_nothing(void)
{
	CHECK(strcmp(nearest("x"), "") == 0);
	CHECK(strcmp(nearest("frobnicate"), "") == 0);
	CHECK(strcmp(nearest(""), "") == 0);
}

TEST_MAIN({ "distances", distances },
	  { "words_at_and_beyond_the_bound", words_at_and_beyond_the_bound },
	  { "names_that_are_meant", names_that_are_meant },
	  { "words_that_resemble_nothing", words_that_resemble_nothing })
