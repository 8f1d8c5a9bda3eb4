/* run.c - `cordon-interpreter run`: code from standard input, run in a context of the server.
 *
 * Output comes out as the code writes it. Results, errors and the count are written to descriptor 3
 * as lines of JSON, if it is open. Else the text of results goes to standard output. The count,
 * which comes first, is written with the first of them or at the end: a reader that found it would
 * read results before output written earlier. When the program is killed its connection closes, and
 * the server interrupts the code. --env NAME sends a variable of its own environment along, which
 * the code has for this call. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "incell/interpreter/ascii_json.h"
#include "incell/interpreter/code_request.h"
#include "incell/interpreter/interpreter_options.h"
#include "incell/interpreter/local_address.h"
#include "incell/interpreter/peer_user.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/http/chunk.h"
#include "lib/http/http1.h"
#include "lib/http/http1_write.h"
#include "lib/json/json_read.h"

/* ---- a request to the server by its Unix socket. Blocking.
 *
 * One request on one connection, which ends with the answer. */

#define HEAD_MAX 16384
#define READ_SIZE 65536
#define SERVER_CALL_PAUSE_NS 5000000L

typedef int piece_fn(void *arg, const void *bytes, size_t n, struct err *e);

/* *ret_fd is the caller's to close. */
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

/* Connect, waiting up to wait_ms for the server to be there. */
static int call_connect(const char *socket, unsigned wait_ms, int *ret_fd, struct err *e)
{
	const uint64_t end = clock_now_ns() + wait_ms * CLOCK_MS;
	const struct timespec pause = { .tv_nsec = SERVER_CALL_PAUSE_NS };

	while (connect_once(socket, ret_fd, e) < 0) {
		if (clock_now_ns() >= end)
			return -1;
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

/* Send a request. body NULL: GET. */
static int call_send(int fd, const char *path, const void *body, size_t n, struct err *e)
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

/* Return the length of the head in bytes[0..*len). More than the head may have come: *len counts
 * all bytes. */
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

/* The body of an answer as it arrives. left counts down if it is not in chunks. */
struct run_body {
	struct chunk chunk;
	bool chunked, over;
	uint64_t left;
	piece_fn *on_piece;
	void *arg;
};

/* over: the end of the body has come. */
static int take_chunks(struct run_body *b, const char *bytes, size_t len, struct err *e)
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

/* Bytes behind the body are ignored. */
static int take_bytes(struct run_body *b, const char *bytes, size_t len, struct err *e)
{
	if (b->chunked)
		return take_chunks(b, bytes, len, e);
	len = len < b->left ? len : (size_t)b->left;
	b->left -= len;
	b->over = b->left == 0;
	return len == 0 ? 0 : b->on_piece(b->arg, bytes, len, e);
}

/* Read the answer: *ret_status. Then each piece of the body is given to on_piece() as it comes.
 * One that returns -1 ends it. ERR_SYSTEM: the server is gone. */
static int call_receive(int fd, int *ret_status, piece_fn *on_piece, void *arg, struct err *e)
{
	static char bytes[READ_SIZE];
	static struct http1_response r; /* large */
	struct run_body b = { .on_piece = on_piece, .arg = arg };
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

/* ---- `cordon-interpreter ready`: the ready command of templates. */

#define PAUSE_NS 5000000L

/* Only the status counts. */
static int ready_on_piece(void *arg, const void *bytes, size_t n, struct err *e)
{
	return 0;
}

/* One attempt. -1: the server is not there. */
static int run_ask(const struct interpreter_options *o, int *ret_status, struct err *e)
{
	int found = -1;

	if (call_connect(o->socket, 0, &found, e) < 0)
		return -1;
	OWN_FD fd = found;
	if (call_send(fd, "/ready", NULL, 0, e) < 0)
		return -1;
	return call_receive(fd, ret_status, ready_on_piece, NULL, e);
}

/* 0 when the server can run code, 1 if it could not in time. */
int interpreter_ready(const struct interpreter_options *o)
{
	const uint64_t end = clock_now_ns() + o->wait_ms * CLOCK_MS;
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct err e = { 0 };
	int status = 0;

	while (run_ask(o, &status, &e) < 0 || status != 200) {
		if (clock_now_ns() >= end) {
			(void)fprintf(stderr, "cordon-interpreter: not ready: %s\n",
				      status == 0 ? e.msg : "Python is still starting");
			return 1;
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

#define RESULTS_FD 3
#define CODE_MAX CODE_REQUEST_CODE_MAX
#define LINE_MAX_BYTES (100U << 20)
#define KEEP_SIZE (1U << 20)
#define COUNT_MAX 4096

enum { EXIT_ERROR = 1, EXIT_USAGE = 2 };

/* The state of a run. line is the answer that has no newline so far. */
struct running {
	bool results; /* descriptor 3 is open */
	bool failed;  /* the code ended with an error */
	bool over;    /* the last line came */
	int status;   /* of the answer */
	struct buf line, text, count;
};

/* A value that is no text is left out. */
static int write_text(int fd, struct running *r, struct json_value v, struct err *e)
{
	if (v.kind != JSON_READ_TEXT)
		return 0;
	buf_clear(&r->text);
	if (json_read_text(v, &r->text, e) < 0)
		return -1;
	return io_write_all(fd, r->text.data == NULL ? (const uint8_t *)"" : r->text.data,
			    r->text.len, e);
}

/* End in a newline, with any text. */
static int write_line(int fd, struct running *r, struct json_value v, struct err *e)
{
	if (write_text(fd, r, v, e) < 0)
		return -1;
	if (v.kind != JSON_READ_TEXT || (r->text.len > 0 && r->text.data[r->text.len - 1] == '\n'))
		return 0;
	return io_write_all(fd, "\n", 1, e);
}

/* The kept count goes first. A reader that is gone is no failure. */
static int pass_on(struct running *r, const char *line, size_t n, struct err *e)
{
	if (!r->results)
		return 0;
	if ((r->count.len > 0 && io_write_all(RESULTS_FD, r->count.data, r->count.len, e) < 0) ||
	    io_write_all(RESULTS_FD, line, n, e) < 0)
		r->results = false; /* the reader has closed them */
	buf_clear(&r->count);
	return 0;
}

/* The traceback has name and value in it, where there is one. */
static int show_error(struct running *r, struct json_value v, struct err *e)
{
	struct json_value traceback = json_read_member(v, "traceback");

	r->failed = true;
	if (traceback.kind == JSON_READ_TEXT && traceback.n > 2)
		return write_line(STDERR_FILENO, r, traceback, e);
	if (write_text(STDERR_FILENO, r, json_read_member(v, "name"), e) < 0 ||
	    io_write_all(STDERR_FILENO, ": ", 2, e) < 0)
		return -1;
	return write_line(STDERR_FILENO, r, json_read_member(v, "value"), e);
}

/* line: with its newline. Lines of other types are ignored. */
static int run_show(struct running *r, const char *line, size_t n, struct err *e)
{
	struct json_value v, type;

	if (json_read(line, n, 80, &v, e) < 0)
		return -1;
	type = json_read_member(v, "type");
	if (json_read_is(type, "stdout"))
		return write_text(STDOUT_FILENO, r, json_read_member(v, "text"), e);
	if (json_read_is(type, "stderr"))
		return write_text(STDERR_FILENO, r, json_read_member(v, "text"), e);
	if (json_read_is(type, "number_of_executions"))
		return buf_add(&r->count, line, n, e);
	if (json_read_is(type, "end_of_execution")) {
		r->over = true;
		return pass_on(r, "", 0, e);
	}
	if (json_read_is(type, "error"))
		return pass_on(r, line, n, e) < 0 ? -1 : show_error(r, v, e);
	if (!json_read_is(type, "result"))
		return 0;
	if (r->results)
		return pass_on(r, line, n, e);
	return write_line(STDOUT_FILENO, r, json_read_member(v, "text"), e);
}

/* Whole lines are shown. An answer other than 200 is kept as a text. */
static int on_piece(void *arg, const void *bytes, size_t n, struct err *e)
{
	struct running *r = arg;
	uint8_t *newline;
	size_t from = 0, before = r->line.len;

	if (buf_add(&r->line, bytes, n, e) < 0)
		return -1;
	if (r->status != 200)
		return 0;
	while ((newline = memchr(r->line.data + before, '\n', r->line.len - before)) != NULL) {
		size_t end = (size_t)(newline - r->line.data) + 1;

		if (run_show(r, (const char *)r->line.data + from, end - from, e) < 0)
			return -1;
		from = before = end;
	}
	buf_consume(&r->line, from);
	if (r->line.len == 0 && r->line.size > KEEP_SIZE)
		buf_release(&r->line);
	return 0;
}

/* ---- the request */

/* All of standard input, up to the bound. */
static int read_code(struct buf *ret, struct err *e)
{
	for (;;) {
		uint8_t *room = buf_reserve(ret, 65536, e);
		ssize_t n = room == NULL ? -1 : read(STDIN_FILENO, room, 65536);

		if (room == NULL)
			return err_set(e, ERR_LIMIT, "the code is larger than 16 MiB");
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read the code");
		if (n == 0)
			return 0;
		buf_commit(ret, (size_t)n);
	}
}

/* NULL: it is not set. */
static const char *value_of(const char *name)
{
	size_t n = strlen(name);

	for (char **v = environ; *v != NULL; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

/* Unset ones are left out. */
static void put_env(const struct interpreter_options *o, struct buf *ret)
{
	bool any = false;

	buf_put_text(ret, ",\"env_vars\":{");
	for (unsigned i = 0; i < o->nenv; i++) {
		const char *value = value_of(o->env[i]);

		if (value == NULL)
			continue;
		buf_put_text(ret, any ? "," : "");
		ascii_json_text(ret, o->env[i]);
		buf_put_text(ret, ":");
		ascii_json_text(ret, value);
		any = true;
	}
	buf_put_text(ret, "}");
}

/* The code may have any bytes. Those outside UTF-8 become U+FFFD. */
static int make_body(const struct interpreter_options *o, struct buf *ret, struct err *e)
{
	struct buf code = BUF_INIT(CODE_MAX + 65536);

	if (read_code(&code, e) < 0) {
		buf_release(&code);
		return -1;
	}
	buf_put_text(ret, "{\"code\":");
	ascii_json_bytes(ret, code.data == NULL ? (const uint8_t *)"" : code.data, code.len);
	buf_release(&code);
	buf_put_text(ret, ",\"language\":");
	ascii_json_text(ret, o->language);
	buf_put_text(ret, ",\"context_name\":");
	ascii_json_text(ret, o->context);
	buf_put_text(ret, ",\"cwd\":");
	ascii_json_text(ret, o->cwd);
	put_env(o, ret);
	buf_put_text(ret, "}");
	return buf_check(ret, e);
}

/* Everything is read before the server is asked. */
static int run_run(const struct interpreter_options *o, struct running *r, struct err *e)
{
	struct buf body = BUF_INIT((size_t)8 * CODE_MAX);
	int found = -1, result = make_body(o, &body, e);

	if (result == 0)
		result = call_connect(o->socket, o->wait_ms, &found, e);
	OWN_FD fd = found;
	if (result == 0)
		result = call_send(fd, "/execute", body.data, body.len, e);
	buf_release(&body);
	return result < 0 ? -1 : call_receive(fd, &r->status, on_piece, r, e);
}

/* The answer is no stream: r->line says why nothing was run. */
static void run_refused(struct running *r)
{
	struct buf line = BUF_INIT(LINE_MAX_BYTES);
	struct err e;

	(void)fprintf(stderr, "cordon-interpreter: %s\n", buf_text(&r->line));
	buf_put_text(&line, "{\"type\":\"error\",\"name\":\"InterpreterError\",\"value\":");
	ascii_json_text(&line, buf_text(&r->line));
	buf_put_text(&line, ",\"traceback\":\"\"}\n");
	if (buf_check(&line, &e) == 0)
		IGNORED(pass_on(r, (const char *)line.data, line.len, &e), "stderr has it");
	buf_release(&line);
}

/* The exit status: 0, 1 after an error in the code, 2 if nothing was run. */
int interpreter_run(const struct interpreter_options *o)
{
	struct running r = { .line = BUF_INIT(LINE_MAX_BYTES),
			     .text = BUF_INIT(LINE_MAX_BYTES),
			     .count = BUF_INIT(COUNT_MAX) };
	struct err e = { 0 };
	int result;

	(void)signal(SIGPIPE, SIG_IGN);
	/* Before anything is opened, which would get its number. */
	r.results = fcntl(RESULTS_FD, F_SETFD, FD_CLOEXEC) == 0;
	result = run_run(o, &r, &e);
	if (r.count.len > 0) /* there was no last line */
		IGNORED(pass_on(&r, "", 0, &(struct err){ 0 }), "it is only the count");
	if (r.status != 200 && r.status != 0) {
		run_refused(&r);
		return EXIT_USAGE;
	}
	if (result < 0) {
		(void)fprintf(stderr, "cordon-interpreter: %s\n", e.msg);
		return r.status == 0 && e.code != ERR_SYSTEM ? EXIT_USAGE : EXIT_ERROR;
	}
	return r.failed || !r.over ? EXIT_ERROR : 0;
}
