/* Goal: however many versions and tags a document of a registry has, each call works on a bounded
 * number of them, and the result is the same as of one call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/packages/package_meta.h"
#include "lib/packages/package_shape.h"
#include "support.h"

#define VERSIONS 20000U
#define TAGS 10000U
#define JUDGED 200U

static bool allow(const struct package_facts *f, char *reason, void *arg)
{
	reason[0] = '\0';
	return f->version[0] != '9';
}

/* Times of as many versions that are not listed, so that facts have to be put in order; tags in a
 * mixed order, each of which names a version that is hidden. */
static void write_document(struct buf *b)
{
	buf_put_text(b, "{\"name\":\"demo\",\"time\":{");
	for (unsigned i = 0; i < VERSIONS; i++)
		buf_printf(
			b,
			"\"8.0.%u\":\"2020-01-01T00:00:00Z\",\"1.0.%u\":\"2020-01-01T00:00:00Z\"%s",
			i, i, i + 1 < VERSIONS ? "," : "");
	buf_put_text(b, "},\"dist-tags\":{");
	for (unsigned i = 0; i < TAGS; i++)
		buf_printf(b, "\"tag%u\":\"9.0.%u\"%s", i, i * 7919 % TAGS,
			   i + 1 < TAGS ? "," : "");
	buf_put_text(b, "},\"versions\":{");
	for (unsigned i = 0; i < TAGS; i++)
		buf_printf(b, "\"9.0.%u\":{\"version\":\"9.0.%u\"},", i, i);
	for (unsigned i = 0; i < VERSIONS; i++)
		buf_printf(b, "\"1.0.%u\":{\"version\":\"1.0.%u\"}%s", i, i,
			   i + 1 < VERSIONS ? "," : "");
	buf_put_text(b, "}}");
}

static struct package_meta *read_document(unsigned *ret_calls)
{
	const struct package_meta_spec spec = { .doc = DOC_NPM, .name = "demo" };
	struct buf text = BUF_INIT((size_t)16 << 20);
	struct err e = { 0 };
	struct package_meta *m = package_meta_new(&spec, &e);
	int more = 1;

	write_document(&text);
	CHECK(m != NULL && buf_check(&text, &e) == 0);
	CHECK(package_meta_feed(m, text.data, text.len, &e) == 0);
	for (*ret_calls = 0; more > 0; (*ret_calls)++)
		more = package_meta_end(m, &e);
	CHECK(more == 0);
	buf_release(&text);
	return m;
}

static void puts_facts_in_order(void)
{
	unsigned calls;
	struct package_meta *m = read_document(&calls);
	struct package_facts f;
	char name[32];

	CHECK(calls > 2 * VERSIONS / 4096);
	CHECK(package_meta_count(m) == VERSIONS + TAGS);
	for (unsigned i = 0; i < VERSIONS; i++) {
		(void)snprintf(name, sizeof(name), "1.0.%u", i);
		CHECK(package_meta_find_version(m, name, &f) && f.has_time);
		(void)snprintf(name, sizeof(name), "8.0.%u", i);
		CHECK(!package_meta_find_version(m, name, &f));
	}
	package_meta_free(m);
}

/* Tags lead to the highest version that is shown; in steps of any size. */
static void sorts_tags(void)
{
	static const size_t steps[] = { 1, JUDGED, SIZE_MAX / 16 };
	unsigned calls;
	struct package_meta *m = read_document(&calls);

	for (size_t i = 0; i < COUNT(steps); i++) {
		const struct package_shape_spec spec = {
			.meta = m, .as = SHAPE_NPM_ONE, .which = "tag7", .allow = allow
		};
		struct package_shape_result r;
		struct err e;
		struct package_shape *s = package_shape_new(&spec, &e);

		CHECK(s != NULL);
		for (calls = 1; package_shape_judge(s, steps[i]) > 0; calls++) {
		}
		CHECK(steps[i] != JUDGED ||
		      calls > (VERSIONS + TAGS) / JUDGED + TAGS * 14 / (JUDGED * 8));
		package_shape_result(s, &r);
		CHECK(r.shown == VERSIONS && r.hidden == TAGS);
		CHECK(r.one != NULL);
		CHECK_STR(r.one, "1.0.19999");
		CHECK(package_shape_memory(s) > TAGS * 32);
		package_shape_free(s);
	}
	package_meta_free(m);
}

/* What takes longer than its bytes is told, so that a turn of a session does not do all of it. */
static void counts_searches(void)
{
	unsigned calls;
	struct package_meta *m = read_document(&calls);
	const struct package_shape_spec spec = { .meta = m, .which = "", .allow = allow };
	struct buf text = BUF_INIT((size_t)16 << 20), out = BUF_INIT((size_t)32 << 20);
	struct err e = { 0 };
	struct package_shape *s = package_shape_new(&spec, &e);
	size_t half, first;

	write_document(&text);
	CHECK(s != NULL && package_shape_judge(s, SIZE_MAX / 16) == 0);
	half = (size_t)((const char *)memmem(text.data, text.len, "\"tag5000\"", 9) -
			(const char *)text.data);
	CHECK(package_shape_searches(s) == 0);
	CHECK(package_shape_feed(s, text.data, half, &out, &e) == 0);
	first = package_shape_searches(s);
	CHECK(first == TAGS / 2 && package_shape_searches(s) == 0);
	CHECK(package_shape_feed(s, text.data + half, text.len - half, &out, &e) == 0);
	CHECK(package_shape_searches(s) == TAGS - first);
	package_shape_free(s);
	package_meta_free(m);
	buf_release(&text);
	buf_release(&out);
}

TEST_MAIN({ "puts_facts_in_order", puts_facts_in_order }, { "sorts_tags", sorts_tags },
	  { "counts_searches", counts_searches })
