/* Goal: names that a registry chooses do not collide by choice in the tables of metadata: names
 * that collide in a hash without a seed have their places, and names that do collide are refused
 * after a bounded number of steps. */
#include "lib/packages/facts_table.h"

#include <stdlib.h>

#include "lib/base/fnv.h"
#include "lib/base/text_hash.h"
#include "lib/packages/file_digests.h"
#include "lib/packages/package_meta.h"
#include "support.h"

#define CHOSEN 2000U /* more than PROBES: with FNV-1a the 513th has no place */
#define SLOTS 4096U  /* of an index with as many */

/* The next name after number *at whose hash ends like the others'. */
static void next_name(uint64_t (*hash)(const char *text), unsigned *at, char name[32])
{
	do
		(void)snprintf(name, 32, "1.0.%u", (*at)++);
	while (hash(name) % SLOTS != 7);
}

static uint64_t unseeded(const char *text)
{
	return fnv_add(FNV_START, text, strlen(text));
}

/* Names that are taken, until one is refused. */
static unsigned versions_taken(uint64_t (*hash)(const char *text), unsigned n)
{
	struct facts_table t;
	struct err e = { 0 };
	unsigned at = 0, taken = 0;
	uint32_t fact;
	char name[32];

	CHECK(facts_init(&t, &e) == 0);
	for (; taken < n; taken++) {
		next_name(hash, &at, name);
		CHECK(facts_add(&t, &fact, &e) == 0);
		if (facts_set_version(&t, fact, name, &e) < 0)
			break;
		CHECK(facts_find_version(&t, name) == fact);
	}
	if (taken < n)
		CHECK_HAS("versions", e.msg, "names that collide");
	facts_release(&t);
	return taken;
}

static unsigned files_taken(uint64_t (*hash)(const char *text), unsigned n)
{
	struct facts_table t;
	struct err e = { 0 };
	unsigned at = 0, taken = 0;
	uint32_t fact;
	char name[32];

	CHECK(facts_init(&t, &e) == 0);
	for (; taken < n; taken++) {
		next_name(hash, &at, name);
		CHECK(facts_add(&t, &fact, &e) == 0);
		if (facts_set_file(&t, fact, name, &e) < 0)
			break;
		CHECK(facts_find_file(&t, name) == fact && !t.facts[fact].shared);
	}
	if (taken < n)
		CHECK_HAS("files", e.msg, "names that collide");
	facts_release(&t);
	return taken;
}

static unsigned digests_taken(uint64_t (*hash)(const char *text), unsigned n)
{
	struct file_digests t = { 0 };
	struct digest d = { .alg = DIGEST_SHA256 };
	struct err e = { 0 };
	unsigned at = 0, taken = 0;
	uint64_t size;
	char name[32];

	for (; taken < n; taken++) {
		next_name(hash, &at, name);
		if (file_digests_add(&t, name, &d, taken, &e) < 0)
			break;
		CHECK(file_digests_find(&t, name, &d, &size) && size == taken);
	}
	if (taken < n)
		CHECK_HAS("digests", e.msg, "names that are made to collide");
	file_digests_release(&t);
	return taken;
}

static void names_do_not_collide_by_choice(void)
{
	CHECK(versions_taken(unseeded, CHOSEN) == CHOSEN);
	CHECK(files_taken(unseeded, CHOSEN) == CHOSEN);
	CHECK(digests_taken(unseeded, CHOSEN) == CHOSEN);
}

/* As if the seed were known. */
static void names_that_collide_are_refused(void)
{
	CHECK(versions_taken(text_hash, FACTS_PROBES) == FACTS_PROBES);
	CHECK(versions_taken(text_hash, FACTS_PROBES + 1) == FACTS_PROBES);
	CHECK(files_taken(text_hash, FACTS_PROBES + 1) == FACTS_PROBES);
	CHECK(digests_taken(text_hash, FACTS_PROBES) == FACTS_PROBES);
	CHECK(digests_taken(text_hash, FACTS_PROBES + 1) == FACTS_PROBES);
}

/* A table takes as many facts as there may be, and no more. */
static void facts_are_bounded(void)
{
	struct facts_table t;
	struct err e = { 0 };
	uint32_t fact = 0;

	CHECK(facts_init(&t, &e) == 0);
	for (unsigned i = 0; i < PACKAGE_META_FACTS; i++)
		CHECK(facts_add(&t, &fact, &e) == 0 && fact == i);
	CHECK(facts_set_version(&t, fact, "1.0.0", &e) == 0);
	CHECK(facts_find_version(&t, "1.0.0") == PACKAGE_META_FACTS - 1);
	CHECK(facts_add(&t, &fact, &e) < 0 && e.code == ERR_LIMIT);
	CHECK_HAS("facts", e.msg, "more than 200000 versions or files");
	facts_release(&t);
}

static void tags_are_bounded(void)
{
	struct facts_table t;
	struct err e = { 0 };

	CHECK(facts_init(&t, &e) == 0);
	for (unsigned i = 0; i < PACKAGE_META_TAGS; i++)
		CHECK(facts_add_tag(&t, "t", "1.0.0", &e) == 0);
	CHECK(facts_add_tag(&t, "t", "1.0.0", &e) < 0 && e.code == ERR_LIMIT);
	CHECK_HAS("tags", e.msg, "more than 20000 tags");
	facts_release(&t);
}

TEST_MAIN({ "names_do_not_collide_by_choice", names_do_not_collide_by_choice },
	  { "names_that_collide_are_refused", names_that_collide_are_refused },
	  { "facts_are_bounded", facts_are_bounded }, { "tags_are_bounded", tags_are_bounded })
