/* Goal: frames as RFC 6455 has them, and no others. */
#include "lib/http/ws.h"

#include "support.h"

static void makes_the_accept_key(void)
{
	/* The example of RFC 6455, 1.3. */
	static const char key[] = "dGhlIHNhbXBsZSBub25jZQ==";
	char accept[WS_ACCEPT_LEN + 1];

	ws_accept_key((struct http1_span){ key, sizeof(key) - 1 }, accept);
	CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#define B(...) { __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ })

static const struct {
	const char *name;
	uint8_t bytes[16];
	size_t len;
	bool masked;
	int result;
	enum ws_opcode opcode;
	bool fin;
	uint64_t length;
} heads[] = {
	{ "text", B(0x81, 0x05, 'h'), false, 2, WS_TEXT, true, 5 },
	{ "text masked", B(0x81, 0x85, 1, 2, 3, 4), true, 6, WS_TEXT, true, 5 },
	{ "binary, first", B(0x02, 0x00), false, 2, WS_BINARY, false, 0 },
	{ "continuation", B(0x80, 0x7d), false, 2, WS_CONTINUATION, true, 125 },
	{ "126", B(0x82, 0x7e, 0, 126), false, 4, WS_BINARY, true, 126 },
	{ "65535", B(0x82, 0x7e, 255, 255), false, 4, WS_BINARY, true, 65535 },
	{ "65536", B(0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0), false, 10, WS_BINARY, true, 65536 },
	{ "2^63 - 1", B(0x82, 0xff, 127, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4), true, 14,
	  WS_BINARY, true, INT64_MAX },
	{ "close", B(0x88, 0x00), false, 2, WS_CLOSE, true, 0 },
	{ "ping of 125", B(0x89, 0xfd, 1, 2, 3, 4), true, 6, WS_PING, true, 125 },
	{ "pong", B(0x8a, 0x00), false, 2, WS_PONG, true, 0 },
	{ "one byte", B(0x81), false, 0, 0, false, 0 },
	{ "no mask yet", B(0x81, 0x85, 1, 2, 3), true, 0, 0, false, 0 },
	{ "half a length", B(0x81, 0x7e, 1), false, 0, 0, false, 0 },
	{ "half a long length", B(0x81, 0x7f, 0, 0, 0, 0, 0, 1, 0), false, 0, 0, false, 0 },
	{ "client without mask", B(0x81, 0x05), true, -1, 0, false, 0 },
	{ "server with mask", B(0x81, 0x85, 1, 2, 3, 4), false, -1, 0, false, 0 },
	{ "RSV1", B(0xc1, 0x05), false, -1, 0, false, 0 },
	{ "RSV2", B(0xa1, 0x05), false, -1, 0, false, 0 },
	{ "RSV3", B(0x91, 0x05), false, -1, 0, false, 0 },
	{ "opcode 3", B(0x83, 0x05), false, -1, 0, false, 0 },
	{ "opcode 7", B(0x87, 0x05), false, -1, 0, false, 0 },
	{ "opcode 11", B(0x8b, 0x05), false, -1, 0, false, 0 },
	{ "opcode 15", B(0x8f, 0x05), false, -1, 0, false, 0 },
	{ "ping in fragments", B(0x09, 0x05), false, -1, 0, false, 0 },
	{ "ping of 126", B(0x89, 0x7e, 0, 126), false, -1, 0, false, 0 },
	{ "125 in 16 bits", B(0x82, 0x7e, 0, 125), false, -1, 0, false, 0 },
	{ "65535 in 64 bits", B(0x82, 0x7f, 0, 0, 0, 0, 0, 0, 255, 255), false, -1, 0, false, 0 },
	{ "2^63", B(0x82, 0x7f, 128, 0, 0, 0, 0, 0, 0, 0), false, -1, 0, false, 0 },
};

static void reads_and_writes_heads(void)
{
	for (size_t i = 0; i < COUNT(heads); i++) {
		struct ws_head h;
		uint8_t *bytes = exact_copy(heads[i].bytes, heads[i].len), again[WS_HEAD_MAX];
		int n = ws_head_read(bytes, heads[i].len, heads[i].masked, &h);

		CHECK_CASE(heads[i].name, n == heads[i].result);
		if (n > 0) {
			CHECK_CASE(heads[i].name, h.opcode == heads[i].opcode &&
							  h.fin == heads[i].fin &&
							  h.masked == heads[i].masked &&
							  h.length == heads[i].length);
			CHECK_CASE(heads[i].name, ws_head_write(&h, again) == (size_t)n);
			CHECK_CASE(heads[i].name, memcmp(again, bytes, (size_t)n) == 0);
			for (size_t part = 0; part < (size_t)n; part++)
				CHECK_CASE(heads[i].name,
					   ws_head_read(bytes, part, heads[i].masked, &h) == 0);
		}
		free(bytes);
	}
}

static void masks_in_pieces(void)
{
	static const uint8_t mask[4] = { 0x37, 0xfa, 0x21, 0x3d };
	static const uint8_t masked[] = { 0x7f, 0x9f, 0x4d, 0x51, 0x58 }; /* RFC 6455, 5.7 */

	for (size_t cut = 0; cut <= 5; cut++) {
		uint8_t text[] = { 'H', 'e', 'l', 'l', 'o' };

		ws_mask(text, cut, mask, 0);
		ws_mask(text + cut, 5 - cut, mask, cut);
		CHECK(memcmp(text, masked, 5) == 0);
	}
}

static const struct {
	bool open;
	enum ws_opcode opcode;
	bool fin, good, open_then;
} orders[] = {
	{ false, WS_TEXT, true, true, false },
	{ false, WS_TEXT, false, true, true },
	{ false, WS_BINARY, false, true, true },
	{ false, WS_CONTINUATION, true, false, false },
	{ true, WS_CONTINUATION, false, true, true },
	{ true, WS_CONTINUATION, true, true, false },
	{ true, WS_TEXT, true, false, true },
	{ true, WS_BINARY, false, false, true },
	{ true, WS_PING, true, true, true },
	{ false, WS_CLOSE, true, true, false },
};

static void knows_the_order_of_frames(void)
{
	for (size_t i = 0; i < COUNT(orders); i++) {
		struct ws_head h = { .opcode = orders[i].opcode, .fin = orders[i].fin };
		bool open = orders[i].open;

		CHECK(ws_order_check(&open, &h) == orders[i].good);
		CHECK(open == orders[i].open_then);
	}
}

static void knows_the_codes(void)
{
	for (unsigned code = 0; code <= UINT16_MAX; code++) {
		uint8_t bytes[2] = { (uint8_t)(code >> 8), (uint8_t)code };
		bool good = (code >= 1000 && code <= 1014 && (code < 1004 || code > 1006)) ||
			    (code >= 3000 && code <= 4999);
		struct http1_span reason;
		uint16_t got;

		CHECK(ws_close_read(bytes, 2, &got, &reason) == (good ? 0 : -1));
		CHECK(got == (good ? code : WS_CODE_NO_STATUS) && reason.n == 0);
	}
}

static void reads_and_writes_closes(void)
{
	static const char *const bad[] = { "\x03", "\x03\xe8\xff", "\x03\xe8\xc3",
					   "\x03\xe8\xed\xa0\x80" };
	uint8_t bytes[WS_CONTROL_MAX];
	char longer[200];
	struct http1_span reason;
	uint16_t code;
	size_t n = ws_close_write(WS_CODE_GOING_AWAY, "bye \xc3\xa4", bytes);

	CHECK(n == 8 && ws_close_read(bytes, n, &code, &reason) == 0);
	CHECK(code == 1001 && http1_span_is(reason, "bye \xc3\xa4"));
	CHECK(ws_close_write(WS_CODE_NORMAL, NULL, bytes) == 2);
	CHECK(ws_close_read(NULL, 0, &code, &reason) == 0 && code == WS_CODE_NO_STATUS);
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], ws_close_read(bad[i], strlen(bad[i]), &code, &reason) == -1);
	memset(longer, 'a', sizeof(longer));
	memcpy(longer + 122, "\xc3\xa4", 3); /* the 123rd byte is half a character */
	n = ws_close_write(WS_CODE_NORMAL, longer, bytes);
	CHECK(n == 2 + 122 && ws_close_read(bytes, n, &code, &reason) == 0);
	longer[122] = 'a';
	CHECK(ws_close_write(WS_CODE_NORMAL, longer, bytes) ==
	      2 + 123); /* and stops at what is no text */
	memset(longer, 'a', 199);
	longer[199] = '\0';
	CHECK(ws_close_write(WS_CODE_NORMAL, longer, bytes) == WS_CONTROL_MAX);
	CHECK(ws_close_read(longer, WS_CONTROL_MAX + 1, &code, &reason) == -1);
}

static const struct {
	const char *bytes;
	bool good, ended;
} texts[] = {
	{ "", true, true },
	{ "abc\x7f", true, true },
	{ "\xc2\x80\xdf\xbf", true, true },
	{ "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", true, true },
	{ "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xf1\x80\x80\x80", true, true },
	{ "a\xc3", true, false },
	{ "\xe2\x82", true, false },
	{ "\xf0\x9f\x98", true, false },
	{ "\x80", false, true },
	{ "\xbf", false, true },
	{ "\xc0\x80", false, true },
	{ "\xc1\xbf", false, true },
	{ "\xe0\x9f\xbf", false, true },
	{ "\xed\xa0\x80", false, true },
	{ "\xf0\x8f\xbf\xbf", false, true },
	{ "\xf4\x90\x80\x80", false, true },
	{ "\xf5\x80\x80\x80", false, true },
	{ "\xff", false, true },
	{ "\xc3"
	  "a",
	  false, true },
	{ "\xe2\x82"
	  "a",
	  false, true },
	{ "\xe2\xc2\x80", false, true },
	{ "\xf0\x9f\x98"
	  "a",
	  false, true },
};

static void knows_text_in_pieces(void)
{
	for (size_t i = 0; i < COUNT(texts); i++) {
		const char *bytes = texts[i].bytes;

		for (size_t cut = 0; cut <= strlen(bytes); cut++) {
			struct ws_text t = { 0 };
			bool good = ws_text_feed(&t, bytes, cut) &&
				    ws_text_feed(&t, bytes + cut, strlen(bytes) - cut);

			CHECK_CASE(bytes, good == texts[i].good);
			CHECK_CASE(bytes, !good || ws_text_ended(&t) == texts[i].ended);
		}
	}
}

TEST_MAIN({ "makes the accept key", makes_the_accept_key },
	  { "reads and writes heads", reads_and_writes_heads },
	  { "masks in pieces", masks_in_pieces },
	  { "knows the order of frames", knows_the_order_of_frames },
	  { "knows the codes", knows_the_codes },
	  { "reads and writes closes", reads_and_writes_closes },
	  { "knows text in pieces", knows_text_in_pieces })
