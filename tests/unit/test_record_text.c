/* Goal: what cordon-egress says is read as it is meant, or refused; nothing else gets into the
 * store.
 */
#include "record_text.h"

#include "support.h"

static struct err e;

#define GOOD                                                                                   \
	"{\"time_ms\":1700000000123,\"kind\":\"request\",\"name\":\"a.example\",\"port\":443," \
	"\"verdict\":\"deny\",\"bytes_out\":1}"

static int take(const char *text, struct record_text *ret)
{
	OWN_MEM char *clean = NULL;
	int read = record_text_read(text, strlen(text), ret, &clean, &e);

	CHECK((read == 0) == (clean != NULL));
	return read;
}

static void good(void)
{
	struct record_text r;
	OWN_MEM char *clean = NULL;

	CHECK(record_text_read(GOOD, strlen(GOOD), &r, &clean, &e) == 0);
	CHECK_STR(r.kind, "request");
	CHECK_STR(r.name, "a.example");
	CHECK(!r.allowed && r.time_ms == 1700000000123);
	CHECK_STR(clean, GOOD);
	CHECK(take("{ \"kind\" : \"dns\", \"time_ms\":0, \"verdict\":\"allow\"}", &r) == 0);
	CHECK(r.allowed && r.name[0] == '\0');
}

static void long_name(void)
{
	char text[1200], name[1001];
	struct record_text r;

	memset(name, 'a', 1000);
	name[1000] = '\0';
	(void)snprintf(text, sizeof(text),
		       "{\"kind\":\"dns\",\"time_ms\":1,\"verdict\":\"deny\",\"name\":\"%s\"}",
		       name);
	CHECK(take(text, &r) == 0 && strlen(r.name) == RECORD_TEXT_NAME_MAX - 1);
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
	struct record_text r;

	for (size_t i = 0; i < COUNT(texts); i++)
		CHECK_CASE(texts[i], take(texts[i], &r) < 0 && e.code == ERR_INVALID);
}

static void counts(void)
{
	static const char whole[] =
		"{\"bytes_in\":1,\"bytes_out\":2,\"requests\":3,\"connections\":4}";
	static const char *const texts[] = {
		"", "{}", "[1]", "{\"bytes_in\":1,\"bytes_out\":2,\"requests\":3}",
		"{\"bytes_in\":1,\"bytes_out\":2,\"requests\":3,\"connections\":-4}"
	};
	struct record_counts c;

	CHECK(record_text_counts(whole, strlen(whole), &c, &e) == 0);
	CHECK(c.bytes_in == 1 && c.bytes_out == 2 && c.requests == 3 && c.connections == 4);
	for (size_t i = 0; i < COUNT(texts); i++)
		CHECK_CASE(texts[i], record_text_counts(texts[i], strlen(texts[i]), &c, &e) < 0);
}

TEST_MAIN({ "a record", good }, { "a long name is cut", long_name },
	  { "what is none is refused", bad }, { "counts", counts })
