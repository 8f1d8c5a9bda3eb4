/* Goal: a long text is lifted out of a message wherever the message is cut into pieces, decoded as
 * it would have been in place, and nothing else of the message changes. */
#include "lib/base/base64.h"
#include "front/e2b/envd/rpc_base64_stream.h"

#include "support.h"

static struct err e;

/* A message with a text of n characters' worth of bytes in it; returns its length. */
static size_t compose(char *to, const char *before, const uint8_t *bytes, size_t n,
		      const char *after)
{
	size_t len = strlen(before);

	memcpy(to, before, len);
	base64_encode(bytes, n, to + len);
	len += BASE64_LENGTH(n);
	memcpy(to + len, after, strlen(after) + 1);
	return len + strlen(after);
}

static int add_all(struct rpc_base64_stream *l, const char *text, size_t len, size_t step)
{
	rpc_base64_stream_init(l, 1U << 20, 1U << 20);
	for (size_t i = 0; i < len; i += step)
		if (rpc_base64_stream_add(l, (const uint8_t *)text + i,
					  len - i < step ? len - i : step, &e) < 0)
			return -1;
	return 0;
}

static void lifted_in_any_pieces(void)
{
	static const size_t sizes[] = { 3072, 3073, 3074, 3075, 5000, 70001 };
	static uint8_t bytes[70001];
	static char text[100000];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31 + i / 251);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_t len = compose(text, "{\"a\\\"\":\"\\\\\",\"stdin\":\"", bytes, sizes[i],
				     "\",\"b\":\"c\"}");

		for (size_t step = 1; step <= len; step += step < 10 ? 1 : step) {
			struct rpc_base64_stream l;

			CHECK(add_all(&l, text, len, step) == 0);
			CHECK(l.lifted == (sizes[i] > 3072));
			if (l.lifted) {
				CHECK(l.bytes.len == sizes[i] &&
				      memcmp(l.bytes.data, bytes, sizes[i]) == 0);
				CHECK_STR(buf_text(&l.text),
					  "{\"a\\\"\":\"\\\\\",\"stdin\":\"" RPC_BASE64_STREAM_MARK
					  "\",\"b\":\"c\"}");
			} else {
				CHECK(l.bytes.len == 0 && l.text.len == len);
				CHECK_STR(buf_text(&l.text), text);
			}
			rpc_base64_stream_release(&l);
		}
	}
}

static void only_the_first(void)
{
	static uint8_t bytes[4000];
	static char text[20000];
	size_t len = compose(text, "[\"", bytes, sizeof(bytes), "\",\"");
	struct rpc_base64_stream l;

	len += compose(text + len, "", bytes, sizeof(bytes), "\"]");
	CHECK(add_all(&l, text, len, 1000) == 0);
	CHECK(l.bytes.len == sizeof(bytes));
	CHECK(l.text.len ==
	      strlen("[\"" RPC_BASE64_STREAM_MARK "\",\"\"]") + BASE64_LENGTH(sizeof(bytes)));
	rpc_base64_stream_release(&l);
}

static void both_alphabets_and_no_padding(void)
{
	static uint8_t bytes[4000];
	static char text[20000];
	size_t len;
	struct rpc_base64_stream l;

	memset(bytes, 0xfb, sizeof(bytes)); /* '+' and '/' */
	len = compose(text, "\"", bytes, sizeof(bytes), "\"");
	CHECK(memchr(text, '=', len) != NULL && memchr(text, '+', len) != NULL);
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
	len = strcspn(text, "=");
	text[len++] = '"';
	CHECK(add_all(&l, text, len, 77) == 0);
	CHECK(l.bytes.len == sizeof(bytes) && memcmp(l.bytes.data, bytes, sizeof(bytes)) == 0);
	rpc_base64_stream_release(&l);
}

static void what_is_no_base64(void)
{
	static const char *const tails[] = { "*\"",	"A\"",	  "=\"",   "AA=A\"", "AA==AAAA\"",
					     "AAA=A\"", "AB==\"", "\\n\"", "====\"" };
	static char text[RPC_BASE64_STREAM_FROM + 64];

	for (size_t i = 0; i < COUNT(tails); i++)
		for (size_t step = 1; step < 9; step++) {
			struct rpc_base64_stream l;

			text[0] = '"';
			memset(text + 1, 'A', RPC_BASE64_STREAM_FROM + 4);
			(void)snprintf(text + 1 + RPC_BASE64_STREAM_FROM + 4, 32, "%s", tails[i]);
			CHECK(add_all(&l, text, strlen(text), step) < 0 && e.code == ERR_INVALID);
			rpc_base64_stream_release(&l);
		}
}

static void bounds(void)
{
	static uint8_t bytes[6000];
	static char text[20000];
	size_t len = compose(text, "{\"a\":\"", bytes, sizeof(bytes), "\"}");
	struct rpc_base64_stream l;

	rpc_base64_stream_init(&l, 1U << 20, 5999);
	CHECK(rpc_base64_stream_add(&l, (const uint8_t *)text, len, &e) < 0 && e.code == ERR_LIMIT);
	rpc_base64_stream_release(&l);
	rpc_base64_stream_init(&l, 4000, 1U << 20);
	CHECK(rpc_base64_stream_add(&l, (const uint8_t *)text, len, &e) < 0 && e.code == ERR_LIMIT);
	rpc_base64_stream_release(&l);
}

TEST_MAIN({ "lifted in any pieces", lifted_in_any_pieces }, { "only the first", only_the_first },
	  { "both alphabets, no padding", both_alphabets_and_no_padding },
	  { "what is no base64", what_is_no_base64 }, { "bounds", bounds })
