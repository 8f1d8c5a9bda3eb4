/* verdict.c - what our codec reads of a connection, for differential.py.
 *
 * Input: cases, each a length (32 bits, as this machine has them) and its bytes. Output: a line for
 * each: messages as method, target, number of headers and body in hex, separated by commas, each
 * ended by a space; then how it ended: "end", "wait" for more, "bad", or "last" if the connection
 * is not kept. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/http/chunk.h"
#include "lib/http/http1.h"

#define CASE_MAX (1U << 20)

static void print_hex(const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%02x", (unsigned)(unsigned char)bytes[i]);
}

/* Bytes of the body, 0 if it is not complete, -1 if malformed; *ret_n of them, decoded, in out. */
static int read_chunks(const char *bytes, size_t len, char *out, size_t *ret_n)
{
	struct chunk c;
	size_t at = 0;

	chunk_init(&c, CASE_MAX);
	*ret_n = 0;
	for (;;) {
		struct http1_span data;
		size_t used;
		enum chunk_result r = chunk_read(&c, bytes + at, len - at, &used, &data);

		at += used;
		if (r == CHUNK_DATA) {
			memcpy(out + *ret_n, data.p, data.n);
			*ret_n += data.n;
			at += data.n;
			chunk_took(&c, data.n);
			continue;
		}
		return r == CHUNK_END ? (int)at : r == CHUNK_MORE ? 0 : -1;
	}
}

/* Reads and prints one message; its bytes, or 0 or -1 as above. */
static int read_one(const char *bytes, size_t len, char *out, bool *ret_last)
{
	struct http1_request r;
	struct http1_fault fault;
	int head = http1_request_read(bytes, len, &r, &fault), body = 0;
	size_t n = 0;

	if (head <= 0)
		return head;
	if (r.framing == HTTP1_LENGTH) {
		if (r.content_length > len - (size_t)head)
			return 0;
		n = (size_t)r.content_length;
		memcpy(out, bytes + head, n);
		body = (int)n;
	} else if (r.framing == HTTP1_CHUNKED) {
		body = read_chunks(bytes + head, len - (size_t)head, out, &n);
		if (body <= 0)
			return body;
	}
	print_hex(r.method_name.p, r.method_name.n);
	printf(",");
	print_hex(r.target.p, r.target.n);
	printf(",%zu,", r.headers_n);
	print_hex(out, n);
	printf(" ");
	*ret_last = !r.keep_alive || r.method == HTTP1_CONNECT || r.upgrade_websocket ||
		    http1_lists(r.headers, r.headers_n, "connection", "upgrade");
	return head + body;
}

static void judge(const char *bytes, size_t len, char *out)
{
	size_t at = 0;
	bool last = false;

	while (at < len) {
		int n = read_one(bytes + at, len - at, out, &last);

		if (n <= 0) {
			printf(n == 0 ? "wait\n" : "bad\n");
			return;
		}
		at += (size_t)n;
		if (last) {
			printf("last\n");
			return;
		}
	}
	printf("end\n");
}

int main(void)
{
	char *bytes = malloc(CASE_MAX), *out = malloc(CASE_MAX);
	uint32_t len;

	if (bytes == NULL || out == NULL)
		return 1;
	while (fread(&len, sizeof(len), 1, stdin) == 1) {
		if (len > CASE_MAX || fread(bytes, 1, len, stdin) != len)
			return 1;
		judge(bytes, len, out);
	}
	free(bytes);
	free(out);
	return 0;
}
