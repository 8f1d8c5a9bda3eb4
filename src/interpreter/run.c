/* run.c - `cordon-interpreter run`: code from standard input, run in a context of the server.
 *
 * Output comes out as the code writes it. Results, errors and the count are written to descriptor 3
 * as lines of JSON, if it is open; else the text of results goes to standard output. The count,
 * which comes first, is written with the first of them or at the end: a reader that found it would
 * read results before output that was written earlier. When the
 * program is killed its connection closes, and the server interrupts the code. --env NAME sends a
 * variable of its own environment along, which the code has for this call. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "ascii_json.h"
#include "server_call.h"
#include "code_request.h"
#include "interpreter_options.h"
#include "io.h"
#include "json_read.h"

#define RESULTS_FD 3
#define CODE_MAX CODE_REQUEST_CODE_MAX
#define LINE_MAX_BYTES (100U << 20)
#define KEEP_SIZE (1U << 20)
#define COUNT_MAX 4096

enum { EXIT_ERROR = 1, EXIT_USAGE = 2 };

struct running {
	bool results; /* descriptor 3 is open */
	bool failed;  /* the code ended with an error */
	bool over;    /* the last line came */
	int status;   /* of the answer */
	struct buf line, text, count;
};

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

/* Ends in a newline, whatever the text does. */
static int write_line(int fd, struct running *r, struct json_value v, struct err *e)
{
	if (write_text(fd, r, v, e) < 0)
		return -1;
	if (v.kind != JSON_READ_TEXT || (r->text.len > 0 && r->text.data[r->text.len - 1] == '\n'))
		return 0;
	return io_write_all(fd, "\n", 1, e);
}

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

/* line: with its newline. */
static int show(struct running *r, const char *line, size_t n, struct err *e)
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

		if (show(r, (const char *)r->line.data + from, end - from, e) < 0)
			return -1;
		from = before = end;
	}
	buf_consume(&r->line, from);
	if (r->line.len == 0 && r->line.size > KEEP_SIZE)
		buf_release(&r->line);
	return 0;
}

/* ---- the request */

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

static const char *value_of(const char *name)
{
	size_t n = strlen(name);

	for (char **v = environ; *v != NULL; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

/* Those that are not set are left out. */
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

static int run(const struct interpreter_options *o, struct running *r, struct err *e)
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

/* The answer is no stream: what is in r->line says why nothing was run. */
static void refused(struct running *r)
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
	result = run(o, &r, &e);
	if (r.count.len > 0) /* there was no last line */
		IGNORED(pass_on(&r, "", 0, &(struct err){ 0 }), "it is only the count");
	if (r.status != 200 && r.status != 0) {
		refused(&r);
		return EXIT_USAGE;
	}
	if (result < 0) {
		(void)fprintf(stderr, "cordon-interpreter: %s\n", e.msg);
		return r.status == 0 && e.code != ERR_SYSTEM ? EXIT_USAGE : EXIT_ERROR;
	}
	return r.failed || !r.over ? EXIT_ERROR : 0;
}
