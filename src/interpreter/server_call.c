#include "server_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "chunk.h"
#include "clock.h"
#include "http1.h"
#include "http1_write.h"
#include "io.h"
#include "local_address.h"
#include "peer_user.h"

#define HEAD_MAX 16384
#define READ_SIZE 65536
#define PAUSE_NS 5000000L

typedef int piece_fn(void *arg, const void *bytes, size_t n, struct err *e);

static int connect_once(const char *text, int *ret_fd, struct err *e)
{
	struct sockaddr_un a;
	socklen_t n = local_address(text, &a);
	OWN_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (n == 0 || fd < 0)
		return err_sys(e, "socket %.60s", text);
	if (connect(fd, (const struct sockaddr *)&a, n) < 0)
		return err_sys(e, "the interpreter does not answer at %.60s", text);
	/* Any user can listen at that name first. */
	if (!peer_user_is_ours(fd))
		return err_set(e, ERR_DENIED, "another user listens at %.60s", text);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int call_connect(const char *socket, unsigned wait_ms, int *ret_fd, struct err *e)
{
	const uint64_t end = clock_now_ns() + wait_ms * CLOCK_MS;
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	while (connect_once(socket, ret_fd, e) < 0) {
		if (clock_now_ns() >= end)
			return -1;
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

int call_send(int fd, const char *path, const void *body, size_t n, struct err *e)
{
	struct http1_write w;
	char head[1024];
	int length;

	http1_write_request(&w, head, sizeof(head), body == NULL ? "GET" : "POST", path,
			    "localhost");
	if (body != NULL) {
		http1_write_header(&w, "Content-Type", "application/json");
		http1_write_number(&w, "Content-Length", n);
	}
	http1_write_header(&w, "Connection", "close");
	length = http1_write_end(&w);
	if (length < 0)
		return err_set(e, ERR_INVALID, "the request cannot be written");
	if (io_write_all(fd, head, (size_t)length, e) < 0)
		return -1;
	return body == NULL ? 0 : io_write_all(fd, body, n, e);
}

static ssize_t read_some(int fd, void *to, size_t n)
{
	ssize_t got;

	do
		got = read(fd, to, n);
	while (got < 0 && errno == EINTR);
	return got;
}

/* Returns the length of the head in bytes[0..*len). */
static int read_head(int fd, char *bytes, size_t *len, struct http1_response *ret, struct err *e)
{
	struct http1_fault fault;
	size_t scanned = 0;
	int end = 0;

	while (end == 0 && *len < HEAD_MAX) {
		ssize_t n = read_some(fd, bytes + *len, HEAD_MAX - *len);

		if (n <= 0)
			return err_set(e, ERR_SYSTEM, "the interpreter has ended");
		*len += (size_t)n;
		end = http1_head_end(bytes, *len, &scanned);
	}
	if (end > 0)
		end = http1_response_read(bytes, *len, HTTP1_POST, ret, &fault);
	return end > 0 ? end : err_set(e, ERR_SYSTEM, "the interpreter's answer is malformed");
}

struct body {
	struct chunk chunk;
	bool chunked, over;
	uint64_t left;
	piece_fn *on_piece;
	void *arg;
};

static int take_chunks(struct body *b, const char *bytes, size_t len, struct err *e)
{
	struct http1_span data;
	size_t used = 0;

	for (;;) {
		size_t step = 0;
		enum chunk_result r = chunk_read(&b->chunk, bytes + used, len - used, &step, &data);

		used += step;
		if (r == CHUNK_MORE || r == CHUNK_END) {
			b->over = r == CHUNK_END;
			return 0;
		}
		if (r != CHUNK_DATA)
			return err_set(e, ERR_SYSTEM, "the interpreter's answer is malformed");
		if (b->on_piece(b->arg, data.p, data.n, e) < 0)
			return -1;
		chunk_took(&b->chunk, data.n);
		used += data.n;
	}
}

static int take_bytes(struct body *b, const char *bytes, size_t len, struct err *e)
{
	if (b->chunked)
		return take_chunks(b, bytes, len, e);
	len = len < b->left ? len : (size_t)b->left;
	b->left -= len;
	b->over = b->left == 0;
	return len == 0 ? 0 : b->on_piece(b->arg, bytes, len, e);
}

int call_receive(int fd, int *ret_status, piece_fn *on_piece, void *arg, struct err *e)
{
	static char bytes[READ_SIZE];
	static struct http1_response r; /* large */
	struct body b = { .on_piece = on_piece, .arg = arg };
	size_t len = 0;
	int head = read_head(fd, bytes, &len, &r, e);

	if (head < 0)
		return -1;
	*ret_status = r.status;
	b.chunked = r.framing == HTTP1_CHUNKED;
	b.left = r.content_length;
	chunk_init_answer(&b.chunk, UINT64_MAX);
	if (take_bytes(&b, bytes + head, len - (size_t)head, e) < 0)
		return -1;
	while (!b.over) {
		ssize_t n = read_some(fd, bytes, sizeof(bytes));

		if (n <= 0)
			return err_set(e, ERR_SYSTEM, "the interpreter has ended");
		if (take_bytes(&b, bytes, (size_t)n, e) < 0)
			return -1;
	}
	return 0;
}
