/* Goal: of every request that servers are known to disagree about, we answer 400 and read nothing
 * behind it.
 *
 * A server in miniature reads a connection's bytes to their end: head, body, next request. Each row
 * is followed by a clean request, which a reader that sees another end of the first would answer.
 * The rows are those of the comparison of seven servers, of which none refuses all. */
#include "lib/http/chunk.h"
#include "lib/http/http1.h"

#include "support.h"

#define START "POST /a HTTP/1.1\r\nHost: x\r\n"
#define NEXT "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"

/* Bytes of a body, 0 if it is not complete, -1 if malformed. */
static int skip_chunks(const char *bytes, size_t len)
{
	struct chunk c;
	size_t at = 0;

	chunk_init(&c, 1 << 20);
	for (;;) {
		struct http1_span data;
		size_t used;

		switch (chunk_read(&c, bytes + at, len - at, &used, &data)) {
		case CHUNK_MORE:
			return 0;
		case CHUNK_DATA:
			chunk_took(&c, data.n);
			at += used + data.n;
			break;
		case CHUNK_END:
			return (int)(at + used);
		case CHUNK_BAD:
		case CHUNK_TOO_LONG:
		default:
			return -1;
		}
	}
}

/* Writes what would be answered: "200 200", "400", "200 wait". */
static void answer(const char *bytes, size_t len, char *ret, size_t cap)
{
	size_t at = 0, out = 0;

	ret[0] = '\0';
	while (at < len) {
		struct http1_request r;
		struct http1_fault fault;
		int head = http1_request_read(bytes + at, len - at, &r, &fault), body = 0;

		if (head > 0) {
			at += (size_t)head;
			if (r.framing == HTTP1_LENGTH && r.content_length > len - at)
				head = 0;
			else if (r.framing == HTTP1_LENGTH)
				at += (size_t)r.content_length;
			if (r.framing == HTTP1_CHUNKED) {
				body = skip_chunks(bytes + at, len - at);
				at += body > 0 ? (size_t)body : 0;
				head = body;
				fault.status = 400;
			}
		}
		CHECK(out + 8 < cap);
		if (head > 0)
			out += (size_t)snprintf(ret + out, cap - out, "%s200", out ? " " : "");
		else if (head == 0)
			out += (size_t)snprintf(ret + out, cap - out, "%swait", out ? " " : "");
		else
			out += (size_t)snprintf(ret + out, cap - out, "%s%d", out ? " " : "",
						fault.status);
		if (head <= 0)
			return;
	}
}

struct row {
	const char *name, *bytes;
	size_t len;
};
#define ROW(name, bytes)                                 \
	{                                                \
		name, bytes NEXT, sizeof(bytes NEXT) - 1 \
	}

static const struct row rows[] = {
	ROW("Content-Length and chunked",
	    START "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
	ROW("chunked and Content-Length",
	    START "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
	ROW("two different Content-Lengths",
	    START "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
	ROW("two equal Content-Lengths",
	    START "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
	ROW("Content-Length: +5", START "Content-Length: +5\r\n\r\nhello"),
	ROW("Content-Length: 5, 5", START "Content-Length: 5, 5\r\n\r\nhello"),
	ROW("Content-Length : 5", START "Content-Length : 5\r\n\r\nhello"),
	ROW("folded Transfer-Encoding", START "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: xchunked", START "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
	ROW("Transfer-Encoding: chunked, identity",
	    START "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
	ROW("two Transfer-Encodings",
	    START "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
	ROW("bare LF line ends", "POST /a HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello"),
	ROW("bare LF before a header", START "X: y\nContent-Length: 5\r\n\r\nhello"),
	ROW("bare CR inside a value", START "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
	ROW("NUL in a value", START "X: a\0b\r\n\r\n"),
	ROW("NUL in a name", START "X\0: b\r\n\r\n"),
	ROW("no Host", "GET /a HTTP/1.1\r\n\r\n"),
	ROW("two Hosts", "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
	ROW("control byte in target", "GET /a\x01 HTTP/1.1\r\nHost: x\r\n\r\n"),
	ROW("first header line begins with space",
	    "GET /a HTTP/1.1\r\n Host: x\r\nHost: y\r\n\r\n"),
	ROW("header line begins with space", START " Content-Length: 5\r\n\r\nhello"),
	ROW("HTTP/1.2", "GET /a HTTP/1.2\r\nHost: x\r\n\r\n"),
	ROW("LF inside chunk extension",
	    START "Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\n4c\r\n0\r\n\r\n"),
	ROW("bare LF behind a chunk size",
	    START "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"),
	ROW("bare LF behind a chunk",
	    START "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n"),
	ROW("chunk longer than it says",
	    START "Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n"),
	ROW("chunk size 0x5", START "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
	ROW("chunk size that overflows",
	    START "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"),
	ROW("bare LF in trailers", START "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n"),
	ROW("request line among the trailers",
	    START "Transfer-Encoding: chunked\r\n\r\n0\r\nGET /b HTTP/1.1\r\nX: y\r\n\r\n"),
	ROW("Content-Length among the trailers",
	    START "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n"),
	ROW("Transfer-Encoding in HTTP/1.0",
	    "POST /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
	ROW("target of another host", "GET http://y/a HTTP/1.1\r\nHost: x\r\n\r\n"),
};

static void answers_400_only(void)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *bytes = exact_copy(rows[i].bytes, rows[i].len), text[64];

		answer(bytes, rows[i].len, text, sizeof(text));
		free(bytes);
		CHECK_CASE(rows[i].name, strcmp(text, "400") == 0);
	}
}

/* The bytes of each row come one by one: no state on the way says anything but wait and 400. */
static void answers_400_in_pieces(void)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		bool refused = false;

		for (size_t n = 1; n <= rows[i].len; n++) {
			char *bytes = exact_copy(rows[i].bytes, n), text[64];

			answer(bytes, n, text, sizeof(text));
			free(bytes);
			CHECK_CASE(rows[i].name, strcmp(text, refused ? "400" : "wait") == 0 ||
							 (!refused && strcmp(text, "400") == 0));
			refused = strcmp(text, "400") == 0;
		}
		CHECK_CASE(rows[i].name, refused);
	}
}

/* So that the rows are refused for what is wrong with them. */
static const struct row clean[] = {
	ROW("length", START "Content-Length: 5\r\n\r\nhello"),
	ROW("chunked", START "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
	ROW("trailer", START "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
	ROW("no body", START "X: y\r\n\r\n"),
	ROW("absolute", "GET http://x/a HTTP/1.1\r\nHost: x\r\n\r\n"),
	ROW("HTTP/1.0", "POST /a HTTP/1.0\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"),
};

static void answers_200_twice_without_the_fault(void)
{
	for (size_t i = 0; i < COUNT(clean); i++) {
		char text[64];

		answer(clean[i].bytes, clean[i].len, text, sizeof(text));
		CHECK_CASE(clean[i].name, strcmp(text, "200 200") == 0);
	}
}

TEST_MAIN({ "400 and nothing behind it", answers_400_only },
	  { "400 however it is cut", answers_400_in_pieces },
	  { "200 twice without the fault", answers_200_twice_without_the_fault })
