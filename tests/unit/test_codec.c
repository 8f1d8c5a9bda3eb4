/* Goal: one list of fields is the layout for both directions, and the first field that does not fit
 * makes the whole message bad, whichever field it is. */
#include "lib/wire/codec.h"

#include <string.h>

#include "support.h"

struct message {
	uint32_t number;
	int64_t time;
	bool flag;
	const char *text;
	char name[8];
	uint8_t bytes[3];
	enum err_code code;
	const char *reason;
	const uint8_t *rest;
	size_t rest_len;
};

static void fields(struct codec *c, struct message *m)
{
	codec_int(c, 4, m->number);
	codec_int(c, 8, m->time);
	codec_flag(c, &m->flag);
	codec_string(c, 5, &m->text);
	codec_text(c, sizeof(m->name), m->name);
	codec_bytes(c, m->bytes, sizeof(m->bytes));
	codec_error(c, &m->code, 6, &m->reason);
	codec_rest(c, &m->rest, &m->rest_len);
}

static const struct message sample = { .number = 0xfffffffe,
				       .time = -2,
				       .flag = true,
				       .text = "four",
				       .name = "sevench",
				       .bytes = { 1, 2, 3 },
				       .code = ERR_LIMIT,
				       .reason = "limit",
				       .rest = (const uint8_t *)"rest",
				       .rest_len = 4 };

static size_t write_sample(uint8_t *ret, size_t cap, bool *ret_bad)
{
	struct message m = sample;
	struct codec c = codec_writer(ret, cap);

	fields(&c, &m);
	*ret_bad = c.bad;
	return (size_t)(c.to - ret);
}

static void reads_back(void)
{
	struct message m = { 0 };
	uint8_t bytes[64];
	bool bad;
	size_t len = write_sample(bytes, sizeof(bytes), &bad);
	struct codec c = codec_reader(bytes, len);

	CHECK(!bad && len == 4 + 8 + 1 + 7 + 10 + 3 + 9 + 4);
	CHECK(memcmp(bytes, "\xfe\xff\xff\xff\xfe\xff\xff\xff\xff\xff\xff\xff\x01\x04\0four\0",
		     20) == 0);
	fields(&c, &m);
	CHECK(!c.bad && c.n == 0);
	CHECK(m.number == sample.number && m.time == -2 && m.flag && m.code == ERR_LIMIT);
	CHECK(strcmp(m.text, "four") == 0 && strcmp(m.name, "sevench") == 0);
	CHECK(memcmp(m.bytes, sample.bytes, 3) == 0 && strcmp(m.reason, "limit") == 0);
	CHECK(m.rest_len == 4 && memcmp(m.rest, "rest", 4) == 0);
}

/* Every shorter message is bad, but for one that lacks bytes of the rest only. */
static void refuses_short_messages(void)
{
	uint8_t bytes[64], part[64];
	bool bad;
	size_t len = write_sample(bytes, sizeof(bytes), &bad);

	for (size_t n = 0; n < len; n++) {
		struct codec c = codec_reader(memcpy(part, bytes, n), n);
		struct message m = { 0 };

		memset(part + n, 0xff, sizeof(part) - n);
		fields(&c, &m);
		CHECK(c.bad == (n < len - sample.rest_len));
		CHECK(m.text != NULL && m.reason != NULL && memchr(m.name, '\0', 8) != NULL);
		(void)write_sample(part, n, &bad);
		CHECK(bad);
	}
}

static bool takes(size_t at, uint8_t value)
{
	struct message m = { 0 };
	struct codec c;
	uint8_t bytes[64];
	bool bad;
	size_t len = write_sample(bytes, sizeof(bytes), &bad);

	bytes[at] = value;
	c = codec_reader(bytes, len);
	fields(&c, &m);
	return !c.bad;
}

static void refuses_values(void)
{
	CHECK(takes(12, 0) && !takes(12, 2));			/* a flag */
	CHECK(!takes(13, 5) && !takes(13, 3) && !takes(14, 1)); /* the length of a text */
	CHECK(!takes(16, '\0') && !takes(19, 'x'));		/* NUL inside, no NUL */
	CHECK(!takes(33, ERR_NONE) && !takes(33, ERR_CODES));	/* codes of errors */
	CHECK(takes(33, ERR_NONE + 1) && takes(33, ERR_CODES - 1));
}

static void refuses_long_strings(void)
{
	const char *five = "5char", *none = NULL;
	uint8_t bytes[16];
	struct codec c = codec_writer(bytes, sizeof(bytes));

	codec_string(&c, 5, &none);
	CHECK(!c.bad && c.n == sizeof(bytes) - 3);
	codec_string(&c, 5, &five);
	CHECK(c.bad && c.n == sizeof(bytes) - 3);
}

TEST_MAIN({ "reads_back", reads_back }, { "refuses_short_messages", refuses_short_messages },
	  { "refuses_values", refuses_values }, { "refuses_long_strings", refuses_long_strings })
