/* Tables of secrets as PID 1's built-in reads them. */
#include "cell/init/base/secret_table.h"

#include <string.h>

#include "lib/wire/codec.h"
#include "support.h"

static size_t put(uint8_t *to, size_t cap, char kind, const char *name, const char *place,
		  uint32_t mode, const char *value)
{
	struct codec c = codec_writer(to, cap);
	const uint8_t *bytes = (const uint8_t *)value;
	const char *owner = "root";
	size_t len = strlen(value);

	(void)codec_number(&c, 1, (uint8_t)kind);
	codec_string(&c, 64, &name);
	codec_string(&c, 4096, &place);
	codec_string(&c, 64, &owner);
	(void)codec_number(&c, 4, mode);
	(void)codec_number(&c, 4, len);
	codec_span(&c, &bytes, len);
	CHECK(!c.bad);
	return cap - c.n;
}

static void reads(void)
{
	uint8_t bytes[512];
	size_t n = put(bytes, sizeof(bytes), 'f', "a", "file", 0440, "one");
	struct secret_table t;
	struct err e;

	n += put(bytes + n, sizeof(bytes) - n, 's', "b", "/usr/bin/x", 0, "");
	CHECK(secret_table_read(bytes, 0, &t, &e) == 0 && t.n == 0);
	CHECK(secret_table_read(bytes, n, &t, &e) == 0 && t.n == 2);
	CHECK(t.at[0].kind == 'f' && t.at[0].mode == 0440 && t.at[0].len == 3);
	CHECK_STR(t.at[0].name, "a");
	CHECK_STR(t.at[0].place, "file");
	CHECK_STR(t.at[0].owner, "root");
	CHECK(memcmp(t.at[0].value, "one", 3) == 0);
	CHECK(t.at[1].kind == 's' && t.at[1].len == 0);
	for (size_t i = 1; i < n; i++) /* the end of the first is the end of a table, too */
		CHECK((secret_table_read(bytes, i, &t, &e) == 0) ==
		      (i == n - put(bytes + 256, 256, 's', "b", "/usr/bin/x", 0, "")));
}

static void refuses(void)
{
	static const struct {
		char kind;
		const char *name, *place;
		uint32_t mode;
	} bad[] = { { 'x', "a", "f", 0400 },	{ 'f', "", "f", 0400 },
		    { 'f', "a/b", "f", 0400 },	{ 'f', "a", "", 0400 },
		    { 'f', "a", "../f", 0400 }, { 'f', "a", ".socket", 0400 },
		    { 'f', "a", "f", 04755 },	{ 's', "a", "x", 0 },
		    { 's', "a", "", 0 } };
	uint8_t bytes[512], many[8192];
	struct secret_table t;
	struct err e;
	size_t n = 0;

	for (size_t i = 0; i < COUNT(bad); i++) {
		size_t len = put(bytes, sizeof(bytes), bad[i].kind, bad[i].name, bad[i].place,
				 bad[i].mode, "v");

		CHECK(secret_table_read(bytes, len, &t, &e) < 0);
	}
	for (int i = 0; i < SECRET_TABLE_MAX + 1; i++)
		n += put(many + n, sizeof(many) - n, 'f', "a", "f", 0400, "v");
	CHECK(secret_table_read(many, n, &t, &e) < 0 && e.code == ERR_LIMIT);
}

TEST_MAIN({ "reads", reads }, { "refuses", refuses })
