/* The entries of a directory: in order, whatever their number, and written in bounded pieces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/e2b/envd/dir_listing.h"
#include "front/e2b/envd/rpc.h"
#include "test.h"

bool rpc_count(size_t bytes)
{
	return true;
}

void rpc_uncount(size_t bytes)
{
}

/* n numbers, added in another order than they are sorted in. */
static void check_sorted(unsigned n, unsigned least_pieces)
{
	struct dir_listing l = { 0 };
	unsigned pieces = 1, at = 0;
	struct json j, want;
	char name[16], text[32];

	for (unsigned i = 0; i < n; i++) {
		struct json entry;

		(void)snprintf(name, sizeof(name), "%06u", (unsigned)(i * 7919ULL % n));
		json_init(&entry, text, sizeof(text));
		json_text(&entry, NULL, name);
		CHECK(dir_listing_add(&l, name, &entry));
	}
	json_init_heap(&j, 4U << 20);
	json_init_heap(&want, 4U << 20);
	while (dir_listing_piece(&l, &j)) {
		CHECK(j.len - at <= DIR_LISTING_WRITTEN + sizeof(text));
		at = (unsigned)j.len;
		pieces++;
	}
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "%06u", i);
		json_text(&want, NULL, name);
	}
	CHECK(json_ok(&j) && j.len == want.len && strcmp(j.text, want.text) == 0);
	CHECK(pieces >= least_pieces);
	json_release(&j);
	json_release(&want);
	dir_listing_release(&l);
}

static void any_number_is_sorted(void)
{
	static const unsigned numbers[] = { 0,	 1,   2,   255,	 256,  257, 511,
					    512, 513, 767, 1000, 1025, 4097 };

	for (size_t i = 0; i < COUNT(numbers); i++)
		check_sorted(numbers[i], 1);
}

static void many_are_sorted_in_pieces(void)
{
	check_sorted(30000, 30000 / (4 * DIR_LISTING_RUN) + 7 * (30000 / DIR_LISTING_MERGED) + 4);
}

TEST_MAIN({ "any number is sorted", any_number_is_sorted },
	  { "many are sorted in pieces", many_are_sorted_in_pieces })
