/* Goal: what cordon-egress sends is read as it is meant, or refused; nothing else gets into the
 * store.
 */
#include "lib/policy/access_record_text.h"

#include "lib/base/clock.h"
#include "support.h"

static struct err e;

#define GOOD                                                                                   \
	"{\"time_ms\":1700000000123,\"kind\":\"request\",\"name\":\"a.example\",\"port\":443," \
	"\"verdict\":\"deny\",\"bytes_out\":1}"

static int take(const char *text, struct access_record_text *ret)
{
	OWN_MEM char *clean = NULL;
	int read = access_record_text_read(text, strlen(text), ret, &clean, &e);

	CHECK((read == 0) == (clean != NULL));
	return read;
}

static void good(void)
{
	struct access_record_text r;
	OWN_MEM char *clean = NULL;

	CHECK(access_record_text_read(GOOD, strlen(GOOD), &r, &clean, &e) == 0);
	CHECK_STR(r.kind, "request");
	CHECK_STR(r.name, "a.example");
	CHECK(!r.allowed && r.time_ms == 1700000000123);
	CHECK_STR(clean, GOOD);
	CHECK(take("{ \"kind\" : \"dns\", \"time_ms\":0, \"verdict\":\"allow\"}", &r) == 0);
	CHECK(r.allowed && r.name[0] == '\0');
}

/* Rows are deleted by their time, and sums are made of the numbers. */
static void nonsense(void)
{
	struct access_record_text r;
	OWN_MEM char *clean = NULL;
	const char *future =
		"{\"kind\":\"dns\",\"time_ms\":9000000000000000,\"verdict\":\"allow\"}";

	CHECK(access_record_text_read(future, strlen(future), &r, &clean, &e) == 0);
	CHECK(r.time_ms <= clock_wall_ms() && r.time_ms > 1700000000000);
	CHECK(strstr(clean, "9000000000000000") == NULL);
	CHECK(take("{\"kind\":\"dns\",\"time_ms\":9100000000000000,\"verdict\":\"allow\"}", &r) <
	      0);
	CHECK(take("{\"kind\":\"package\",\"time_ms\":1,\"verdict\":\"allow\",\"bytes_in\":"
		   "9223372036854775807,\"package\":{\"ecosystem\":\"npm\",\"kind\":\"file\","
		   "\"result\":\"downloaded\"}}",
		   &r) < 0);
}

#define PACKAGE(inner) \
	"{\"time_ms\":1,\"kind\":\"package\",\"verdict\":\"allow\",\"package\":{" inner "}}"
#define LEAST "\"ecosystem\":\"npm\",\"kind\":\"file\",\"result\":\"downloaded\""

static void packages(void)
{
	static const char *const wrong[] = {
		PACKAGE(""),
		PACKAGE("\"ecosystem\":\"npm\",\"kind\":\"file\""),
		PACKAGE("\"ecosystem\":\"nuget\",\"kind\":\"file\",\"result\":\"downloaded\""),
		PACKAGE("\"ecosystem\":\"npm\",\"kind\":\"fil\",\"result\":\"downloaded\""),
		PACKAGE("\"ecosystem\":\"npm\",\"kind\":\"file meta\",\"result\":\"downloaded\""),
		PACKAGE("\"ecosystem\":\"npm\",\"kind\":\"file\",\"result\":\"down\""),
		PACKAGE(LEAST ",\"name\":\"a\\u0000b\""),
		PACKAGE(LEAST ",\"name\":\"\\u00e4\""),
		PACKAGE(LEAST ",\"version\":1"),
		PACKAGE(LEAST ",\"verified\":1"),
		PACKAGE(LEAST ",\"age_s\":1.5"),
		PACKAGE(LEAST ",\"shaped\":{\"hidden\":-1}"),
		"{\"time_ms\":1,\"kind\":\"package\",\"verdict\":\"allow\"}",
	};
	const char *text =
		"{\"time_ms\":1,\"kind\":\"package\",\"verdict\":\"deny\",\"rule\":\"r\","
		"\"bytes_in\":7,\"status\":403,\"package\":{" LEAST
		",\"name\":\"@a/b\",\"version\":\"1\",\"shaped\":{\"hidden\":2,"
		"\"newest_hidden\":\"3\"},\"direct\":true,\"unknown\":[1]}}";
	struct access_record_text r;
	OWN_MEM char *clean = NULL;

	CHECK(access_record_text_read(text, strlen(text), &r, &clean, &e) == 0 && r.is_package);
	CHECK_STR(r.package.name, "@a/b");
	CHECK_STR(r.package.newest_hidden, "3");
	CHECK_STR(r.rule, "r");
	CHECK(r.package.result == PACKAGE_RESULT_DOWNLOADED && r.package.direct &&
	      !r.package.verified && r.package.hidden == 2 && r.bytes == 7 && r.status == 403);
	CHECK(strstr(clean, "unknown") == NULL && strstr(clean, "\"hidden\":2") != NULL);
	for (size_t i = 0; i < COUNT(wrong); i++)
		CHECK_CASE(wrong[i], take(wrong[i], &r) < 0 && e.code == ERR_INVALID);
}

#define BEGIN "{\"time_ms\":1,\"kind\":\"connect\",\"verdict\":\"deny\""

/* Members that cordond writes are its own, whatever egress sends. */
static void owner(void)
{
	static const char *const wrong[] = {
		BEGIN ",\"mark\":\"5\"}",
		BEGIN ",\"mark\":-1}",
		BEGIN ",\"execution_unknown\":\"a word\"}",
		BEGIN ",\"execution_unknown\":\"gone\\\",\\\"x\"}",
		BEGIN ",\"execution_unknown\":\"sixteen_letters_\"}",
	};
	const char *text = BEGIN ",\"mark\":5,\"execution_id\":\"exe_of_another\",\"seq\":1,"
				 "\"time\":\"x\",\"execution_unknown\":\"gone\"}";
	struct access_record_text r;
	OWN_MEM char *clean = NULL;

	CHECK(access_record_text_read(text, strlen(text), &r, &clean, &e) == 0);
	CHECK(r.mark == 5);
	CHECK_STR(r.unknown, "gone");
	CHECK_STR(clean, BEGIN "}");
	CHECK(take(BEGIN ",\"mark\":9223372036854775807}", &r) == 0 && r.mark == INT64_MAX);
	CHECK(take(GOOD, &r) == 0 && r.mark == 0 && r.unknown[0] == '\0');
	for (size_t i = 0; i < COUNT(wrong); i++)
		CHECK_CASE(wrong[i], take(wrong[i], &r) < 0);
}

static void long_name(void)
{
	char text[1200], name[1001];
	struct access_record_text r;

	memset(name, 'a', 1000);
	name[1000] = '\0';
	(void)snprintf(text, sizeof(text),
		       "{\"kind\":\"dns\",\"time_ms\":1,\"verdict\":\"deny\",\"name\":\"%s\"}",
		       name);
	CHECK(take(text, &r) == 0 && strlen(r.name) == ACCESS_RECORD_TEXT_NAME_MAX - 1);
}

static void bad(void)
{
	static const char *const texts[] = {
		"",
		"[]",
		"5",
		"{",
		"{}",
		"{\"kind\":\"dns\"}",
		"{\"kind\":\"other\",\"time_ms\":1,\"verdict\":\"deny\"}",
		"{\"kind\":5,\"time_ms\":1,\"verdict\":\"deny\"}",
		"{\"kind\":\"dns\",\"time_ms\":-1,\"verdict\":\"deny\"}",
		"{\"kind\":\"dns\",\"time_ms\":1.5,\"verdict\":\"deny\"}",
		"{\"kind\":\"dns\",\"time_ms\":\"1\",\"verdict\":\"deny\"}",
		"{\"kind\":\"dns\",\"time_ms\":1,\"verdict\":\"maybe\"}",
		"{\"kind\":\"dns\",\"time_ms\":1,\"verdict\":\"deny\"} x",
		"{\"kind\":\"dns\",\"kind\":\"dns\",\"time_ms\":1,\"verdict\":\"deny\"}",
		"{\"kind\":\"dns\",\"time_ms\":1,\"verdict\":\"deny\",\"x\":\"\xff\"}",
	};
	struct access_record_text r;

	for (size_t i = 0; i < COUNT(texts); i++)
		CHECK_CASE(texts[i], take(texts[i], &r) < 0 && e.code == ERR_INVALID);
}

#define TOTALS "{\"bytes_in\":1,\"bytes_out\":2,\"requests\":3,\"connections\":4"

static void counts(void)
{
	static const char whole[] = TOTALS "}";
	static const char *const texts[] = {
		"",
		"{}",
		"[1]",
		"{\"bytes_in\":1,\"bytes_out\":2,\"requests\":3}",
		"{\"bytes_in\":1,\"bytes_out\":2,\"requests\":3,\"connections\":-4}",
		TOTALS ",\"claimed_in\":1}",
		TOTALS ",\"claimed_in\":1,\"claimed_out\":-1}",
		TOTALS ",\"claimed_in\":1,\"claimed_out\":1,\"rules\":[{\"rule\":\"\"}]}",
		TOTALS ",\"claimed_in\":1,\"claimed_out\":1,\"rules\":[{\"rule\":\"a\"}]}",
		TOTALS ",\"claimed_in\":1,\"claimed_out\":1,\"rules\":[5]}",
	};
	static const char claimed[] =
		TOTALS ",\"claimed_in\":5,\"claimed_out\":6,\"rules\":["
		       "{\"rule\":\"a\",\"claimed_in\":7,\"claimed_out\":8}]}";
	struct record_counts c;

	CHECK(access_record_text_counts(whole, strlen(whole), &c, &e) == 0);
	CHECK(c.bytes_in == 1 && c.bytes_out == 2 && c.requests == 3 && c.connections == 4);
	CHECK(c.nrules == 0 && c.own.in == 0);
	CHECK(access_record_text_counts(claimed, strlen(claimed), &c, &e) == 0);
	CHECK(c.own.in == 5 && c.own.out == 6 && c.nrules == 1);
	CHECK(strcmp(c.rules[0].rule, "a") == 0 && c.rules[0].in == 7 && c.rules[0].out == 8);
	for (size_t i = 0; i < COUNT(texts); i++)
		CHECK_CASE(texts[i],
			   access_record_text_counts(texts[i], strlen(texts[i]), &c, &e) < 0);
}

static void turns(void)
{
	static const char whole[] = "{\"count\":3,\"sum_ns\":30,\"max_ns\":20,\"slowest_ns\":9,"
				    "\"slowest\":\"timer \\\"x\\n\",\"buckets\":[1,2,0]}";
	static const char *const texts[] = {
		"", "{}", "{\"count\":-1,\"sum_ns\":1,\"max_ns\":1,\"slowest_ns\":1}",
		("{\"count\":1,\"sum_ns\":1,\"max_ns\":1,\"slowest_ns\":1,\"buckets\":["
		 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}")
	};
	struct record_turns t;

	CHECK(access_record_text_turns(whole, strlen(whole), &t, &e) == 0);
	CHECK(t.count == 3 && t.sum_ns == 30 && t.max_ns == 20 && t.slowest_ns == 9);
	CHECK(t.nbuckets == 3 && t.buckets[1] == 2);
	CHECK_STR(t.slowest, "timer ?x?");
	for (size_t i = 0; i < COUNT(texts); i++)
		CHECK_CASE(texts[i],
			   access_record_text_turns(texts[i], strlen(texts[i]), &t, &e) < 0);
}

/* The longest entry that a policy can have. */
static void registries(void)
{
	char registry[PACKAGE_REGISTRY_MAX] = "", text[PACKAGE_REGISTRY_MAX + 256];
	struct access_record_text r;

	memset(registry, 'r', sizeof(registry) - 1);
	(void)snprintf(text, sizeof(text), PACKAGE(LEAST ",\"registry\":\"%s\""), registry);
	CHECK(take(text, &r) == 0);
	CHECK_STR(r.package.registry, registry);
	(void)snprintf(text, sizeof(text), PACKAGE(LEAST ",\"registry\":\"%sr\""), registry);
	CHECK(take(text, &r) < 0);
}

static void edges(void)
{
	struct access_record_text r;

	for (unsigned more = 0; more < 2; more++) {
		char text[2048];
		size_t n =
			(size_t)snprintf(text, sizeof(text),
					 "{\"kind\":\"dns\",\"verdict\":\"allow\",\"time_ms\":1");

		for (unsigned i = 3; i < 64 + more; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, ",\"m%u\":0", i);
		(void)snprintf(text + n, sizeof(text) - n, "}");
		CHECK((take(text, &r) < 0) == (more > 0));
		CHECK(more == 0 || strcmp(e.msg, "record: more than 64 members") == 0);
		(void)snprintf(text, sizeof(text),
			       "{\"kind\":\"dns\",\"verdict\":\"allow\",\"time_ms\":%lld}",
			       ACCESS_RECORD_NUMBER_MAX + more);
		CHECK((take(text, &r) < 0) == (more > 0));
	}
}

TEST_MAIN({ "a record", good }, { "numbers and times that cannot be", nonsense },
	  { "a record of a package", packages }, { "a registry with a long name", registries },
	  { "which program made it", owner }, { "a long name is cut", long_name },
	  { "what is none is refused", bad }, { "counts", counts }, { "turns", turns },
	  { "members and numbers at their bounds", edges })
