/* attach.c - theory of operation
 *
 * One WebSocket carries everything. Its messages have no position in the output, so the
 * forwarded bytes of each stream are counted: after a break the server repeats the output from
 * its start, and as many bytes are dropped. (The server keeps all output of an execution. A
 * cursor, if it sends one, saves the repetition.)
 *
 * Input is sent in small pieces and only while the socket takes it without waiting. Otherwise
 * client and server could wait for each other: the client to send input that the server does not
 * read, because the client does not read its output. Input in transit when a server dies is
 * lost. How much of it arrived is unknown.
 *
 * Signals are read from a descriptor, never handled asynchronously. Callers are exec, attach and
 * run. They hand over full ids and get the ended execution, or learn that the user left. */
#include "cmd/client/attach.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "cmd/base/terminal.h"
#include "cmd/client/exec.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/own.h"
#include "lib/base/str.h"

/* ---- kept output. `run --json` and `exec --json` print the output inside the execution's
 * object. The bound keeps a talkative command from filling this program's memory. Later bytes
 * are dropped, and inline_truncated says so. */
void kept_output_init(struct kept_output *k)
{
	k->cut = false;
	buf_init(&k->out, KEPT_OUTPUT_MAX);
	buf_init(&k->err, KEPT_OUTPUT_MAX);
}

void kept_output_release(struct kept_output *k)
{
	buf_release(&k->out);
	buf_release(&k->err);
}

void kept_output_take(struct kept_output *k, bool is_err, const uint8_t *bytes, size_t n)
{
	struct buf *b = is_err ? &k->err : &k->out;
	size_t room = b->cap - b->len;
	struct err e;

	if (n > room)
		k->cut = true;
	if (buf_add(b, bytes, n > room ? room : n, &e) < 0)
		k->cut = true;
}

/* Base64 of bytes that are no text. NULL: no memory. */
static json_t *kept_output_coded(const struct buf *b)
{
	OWN_MEM char *text = malloc(BASE64_LENGTH(b->len) + 1);

	if (text == NULL)
		return NULL;
	base64_encode(b->data, b->len, text);
	return json_string(text);
}

/* The name of the member tells the form: "stdout" has text, "stdout_base64" has bytes. */
static int kept_output_add_stream(json_t *execution, const char *name, struct buf *b)
{
	json_t *text = json_stringn(buf_text(b), b->len); /* NULL: not UTF-8 */
	char member[32];

	(void)snprintf(member, sizeof(member), "%s%s", name, text == NULL ? "_base64" : "");
	return json_object_set_new(execution, member, text == NULL ? kept_output_coded(b) : text);
}

int kept_output_add(struct kept_output *k, json_t *execution, struct err *e)
{
	if (kept_output_add_stream(execution, "stdout", &k->out) < 0 ||
	    kept_output_add_stream(execution, "stderr", &k->err) < 0 ||
	    json_object_set_new(execution, "inline_truncated", json_boolean(k->cut)) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

/* ---- one attachment. The channel is the first byte of a binary message. Text messages are
 * JSON: notices, the end of the command, and the cursor. seen and skip make a reconnection
 * invisible: seen counts the bytes that were passed on, skip those that the server is about to
 * repeat. */
#define ATTACH_PIECE 16384

enum { ATTACH_OUT = 1, ATTACH_ERR = 2, ATTACH_RESULTS = 4, ATTACH_CHANNELS };
enum { ATTACH_DONE, ATTACH_LOST };

struct client_attach {
	const struct attach_options *o;
	struct api_call *a;
	int signals;
	struct terminal terminal;
	uint64_t seen[ATTACH_CHANNELS];	 /* bytes passed on */
	uint64_t skip[ATTACH_CHANNELS];	 /* bytes about to be repeated */
	bool closed[ATTACH_CHANNELS];	 /* stdout or stderr has no reader any more */
	char cursor[128];		 /* the last position that the server sent, or "" */
	uint64_t known[ATTACH_CHANNELS]; /* bytes before it */
	uint8_t piece[ATTACH_PIECE];	 /* input not sent yet */
	size_t have;
	bool input_ended, end_sent, detached, cut;
	bool pipe_broke; /* a failure must be reported */
	bool finished;	 /* ended, and no output is missing */
	unsigned interrupts;
	uint64_t terminate_ns; /* when the client ends without waiting on. 0: not told to */
	json_t *ended;
};

/* Write all, also to a terminal that another program made non-blocking. -1 with errno. */
static int write_all(int fd, const uint8_t *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EAGAIN) { /* a terminal that others made non-blocking */
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			(void)poll(&p, 1, -1);
		} else if (n < 0 && errno != EINTR) {
			return -1;
		} else if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* Bytes that were passed on before a break are dropped here by count. Output to a closed pipe is
 * dropped too, and the command gets SIGPIPE as if it had written to that pipe itself. */
static int take_output(struct client_attach *t, const struct client_ws_message *m, struct err *e)
{
	const uint8_t *data = m->data + 1;
	size_t len = m->len - 1, drop;
	unsigned channel = m->data[0];

	if (channel != ATTACH_OUT && channel != ATTACH_ERR && channel != ATTACH_RESULTS)
		return 0; /* of a newer server */
	drop = t->skip[channel] < len ? (size_t)t->skip[channel] : len;
	t->skip[channel] -= drop;
	t->seen[channel] += len - drop;
	if (channel == ATTACH_RESULTS)
		return t->o->on_results == NULL
			       ? 0
			       : t->o->on_results(t->o->results_arg, data + drop, len - drop, e);
	if (t->o->kept != NULL) {
		kept_output_take(t->o->kept, channel == ATTACH_ERR, data + drop, len - drop);
		return 0;
	}
	if (t->closed[channel] || write_all(channel == ATTACH_OUT ? STDOUT_FILENO : STDERR_FILENO,
					    data + drop, len - drop) == 0)
		return 0;
	if (errno != EPIPE)
		return err_sys(e, "write the command's output");
	t->closed[channel] = true;
	t->pipe_broke = true;
	return 0;
}

/* In raw mode a line needs its own carriage return. */
static void attach_notice(const struct client_attach *t, const char *words, const char *what)
{
	const char *end = t->terminal.raw ? "\r\n" : "\n";

	(void)fprintf(stderr, "cordon: %s", words);
	show_text(what, stderr);
	(void)fputs(end, stderr);
}

/* A position, and how many bytes of each stream are before it. */
static void take_cursor(struct client_attach *t, const json_t *cursor)
{
	if (json_is_integer(cursor))
		(void)snprintf(t->cursor, sizeof(t->cursor), "%lld",
			       (long long)json_integer_value(cursor));
	else if (json_is_string(cursor) && json_string_length(cursor) < sizeof(t->cursor))
		str_copy(t->cursor, json_string_value(cursor));
	else
		return;
	for (int i = 0; i < ATTACH_CHANNELS; i++)
		t->known[i] = t->seen[i] - t->skip[i];
}

/* A message of an unknown type is ignored, so that a newer server may send more. */
static void take_text(struct client_attach *t, const struct client_ws_message *m)
{
	OWN_JSON *j = json_loadb((const char *)m->data, m->len, 0, NULL);
	json_t *execution = json_object_get(j, "execution");
	const char *type = member_text(j, "type", "");

	take_cursor(t, json_object_get(j, "cursor"));
	if (strcmp(type, "cut") == 0 && !t->cut) {
		t->cut = true;
		attach_notice(t, "output cut: ", member_text(j, "reason", "limit"));
	} else if (strcmp(type, "error") == 0) {
		attach_notice(t, "",
			      member_text(member_group(j, "error"), "message", "unknown error"));
	} else if (strcmp(type, "exit") == 0 && t->ended == NULL && exec_has_ended(execution)) {
		t->ended = json_incref(execution);
		/* The last output may still be on its way, unless it is known that there is none.
		 * Later output of a background process is not waited for. */
		t->finished = !member_bool(t->ended, "output_open");
	}
}

/* Take every arrived message: 0 (ATTACH_DONE if t->finished), ATTACH_LOST with the connection, -1
 * with e set. */
static int attach_input(struct client_attach *t, struct err *e)
{
	struct client_ws_message m;
	struct err lost;

	while (!t->finished) {
		int n = client_ws_recv(t->a->client, 0, &m, &lost);

		if (n == 0)
			return 0;
		if (n < 0 || m.kind == CLIENT_WS_CLOSED) {
			t->finished = t->ended != NULL;
			return t->finished ? ATTACH_DONE : ATTACH_LOST;
		}
		if (m.kind == CLIENT_WS_TEXT)
			take_text(t, &m);
		else if (m.len > 0 && take_output(t, &m, e) < 0)
			return -1;
	}
	return ATTACH_DONE;
}

/* ---- input and signals */
#define RECONNECT_MS 60000 /* while the server is unreachable */
#define INTERRUPTS_MAX 3   /* the third interrupt ends the client at once */
#define LAST_OUTPUT_MS 250
#define TERMINATE_MS 3000 /* the command may take to end after the client was told to end */
#define END_AGAIN_MS 500
#define END_OF_INPUT "\4\4" /* Ctrl-D: the first ends a begun line */
#define PAUSE_MS 50
#define DETACH_KEY 0x1d /* Ctrl-] */

/* 0, or ATTACH_LOST: the connection is gone. */
static int send_message(struct client_attach *t, json_t *message)
{
	OWN_JSON *owned = message;
	OWN_MEM char *text = json_dumps(owned, JSON_COMPACT);
	struct err lost;

	if (text == NULL || client_ws_send(t->a->client, true, text, strlen(text), &lost) < 0)
		return ATTACH_LOST;
	return 0;
}

/* The server applies it to the command's terminal. Without a terminal on either side there is no
 * size. */
static int send_size(struct client_attach *t)
{
	uint16_t rows = 0, cols = 0;

	terminal_size(&rows, &cols);
	if (!t->o->tty || rows == 0)
		return 0;
	return send_message(
		t, json_pack("{s:s, s:i, s:i}", "type", "resize", "rows", rows, "cols", cols));
}

/* As with a pipe whose reader is gone. */
static int send_pipe_signal(struct client_attach *t)
{
	t->pipe_broke = false;
	return send_message(t, json_pack("{s:s, s:s}", "type", "signal", "signal", "PIPE"));
}

/* A terminal has no other end of input. It is repeated, because a program that changes the mode of
 * its terminal at its start loses earlier input. */
static void put_end(struct client_attach *t)
{
	memcpy(t->piece, END_OF_INPUT, strlen(END_OF_INPUT));
	t->have = strlen(END_OF_INPUT);
}

static bool repeats_end(const struct client_attach *t)
{
	return t->o->tty && t->input_ended && t->ended == NULL;
}

/* At most one piece waits. It is read only when the last one was sent (client_attach_pump()), so
 * a fast writer waits in its own pipe and not in this program's memory. */
static void read_input(struct client_attach *t)
{
	ssize_t n = read(STDIN_FILENO, t->piece, sizeof(t->piece));
	const uint8_t *key;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	t->input_ended = n <= 0;
	t->have = n <= 0 ? 0 : (size_t)n;
	if (t->input_ended && t->o->tty)
		put_end(t);
	if (!t->o->may_detach || !t->terminal.raw || n <= 0)
		return;
	key = memchr(t->piece, DETACH_KEY, t->have);
	t->detached = key != NULL;
	t->have = key == NULL ? t->have : (size_t)(key - t->piece);
}

/* The end of input follows the last piece. It is sent once for each connection, because a server
 * that restarted may not know it. */
static int send_input(struct client_attach *t)
{
	struct err lost;

	if (t->have > 0 && client_ws_send(t->a->client, false, t->piece, t->have, &lost) < 0)
		return ATTACH_LOST;
	t->have = 0;
	if (!t->input_ended || t->end_sent)
		return 0;
	t->end_sent = true;
	return t->o->tty ? 0 : send_message(t, json_pack("{s:s}", "type", "eof"));
}

/* The signal that came, or 0. */
static int read_signal(struct client_attach *t)
{
	struct signalfd_siginfo info;

	if (read(t->signals, &info, sizeof(info)) != sizeof(info))
		return 0;
	if (info.ssi_signo != SIGWINCH)
		t->interrupts++;
	if ((info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP) && t->terminate_ns == 0)
		t->terminate_ns = clock_now_ns() + TERMINATE_MS * CLOCK_MS;
	return (int)info.ssi_signo;
}

/* A signal of the user goes to the command. The third one ends the client instead, for a server
 * or a command that does not react. */
static int pass_signal(struct client_attach *t, struct err *e)
{
	int signo = read_signal(t);
	const char *name = signo == SIGINT    ? "INT"
			   : signo == SIGTERM ? "TERM"
			   : signo == SIGQUIT ? "QUIT"
					      : "HUP";

	if (signo == 0)
		return 0;
	if (signo == SIGWINCH)
		return send_size(t);
	if (t->interrupts >= INTERRUPTS_MAX)
		return err_set(e, ERR_SYSTEM, "interrupted; the command may still be running");
	return send_message(t, json_pack("{s:s, s:s}", "type", "signal", "signal", name));
}

/* For poll(): after the end of the command its last output is awaited. After SIGTERM or SIGHUP the
 * end of the command. */
static int pump_timeout(const struct client_attach *t)
{
	uint64_t now = clock_now_ns();
	int ms = repeats_end(t) ? END_AGAIN_MS : -1, left;

	if (t->ended != NULL)
		return LAST_OUTPUT_MS;
	if (t->terminate_ns == 0)
		return ms;
	left = now >= t->terminate_ns ? 0 : (int)((t->terminate_ns - now) / CLOCK_MS + 1);
	return ms < 0 || left < ms ? left : ms;
}

/* One connection, from its start to its end. */
static int client_attach_pump(struct client_attach *t, struct err *e)
{
	enum { SOCKET, INPUT, SIGNALS, FDS };
	int result = 0;

	while (result == 0 && !t->finished && !t->detached) {
		bool reads = t->o->input && !t->input_ended && t->have == 0;
		bool sends = t->have > 0 || (t->input_ended && !t->end_sent);
		bool pending = client_pending(t->a->client);
		struct pollfd p[FDS] = {
			{ .fd = client_fd(t->a->client),
			  .events = (short)(POLLIN | (sends ? POLLOUT : 0)) },
			{ .fd = reads ? STDIN_FILENO : -1, .events = POLLIN },
			{ .fd = t->signals, .events = POLLIN },
		};

		int n = poll(p, FDS, pending ? 0 : pump_timeout(t));

		if (n < 0 && errno != EINTR)
			return err_sys(e, "poll");
		if (n == 0 && !pending && t->ended != NULL)
			return ATTACH_DONE;
		if (t->ended == NULL && t->terminate_ns != 0 && clock_now_ns() >= t->terminate_ns)
			return err_set(e, ERR_SYSTEM,
				       "terminated; the command may still be running");
		if (n == 0 && !pending && repeats_end(t))
			put_end(t);
		if (pending || (p[SOCKET].revents & ~POLLOUT) != 0)
			result = attach_input(t, e);
		if (result == 0 && t->pipe_broke)
			result = send_pipe_signal(t);
		if (result == 0 && t->ended == NULL && (p[SOCKET].revents & POLLOUT) != 0)
			result = send_input(t);
		if (result == 0 && p[INPUT].revents != 0)
			read_input(t);
		if (result == 0 && p[SIGNALS].revents != 0)
			result = pass_signal(t, e);
	}
	return result;
}

/* 0: connected. ATTACH_LOST: not now, perhaps later. */
static int connect_once(struct client_attach *t, struct err *e)
{
	struct target where;
	const char *text;
	int n;

	id_match_execution_target(&where, t->o->session, t->o->execution, "attach");
	target_query(&where, "after", t->cursor[0] == '\0' ? NULL : t->cursor);
	text = target_text(&where, e);
	if (text == NULL)
		return -1;
	client_close(t->a->client);
	t->a->status = 0;
	n = client_ws_open(t->a->client, text, t->a->headers, t->a->nheaders, e);
	if (n > 0)
		(void)api_call_refused(t->a, e);
	if (n != 0)
		return api_call_is_temporary(t->a) ? ATTACH_LOST : -1;
	for (int i = 0; i < ATTACH_CHANNELS; i++)
		t->skip[i] = t->seen[i] - t->known[i];
	t->end_sent = false; /* it may have been lost. Twice is harmless */
	return send_size(t);
}

/* Wait a moment before the next try. -1: the user interrupted. A change of the window's size is
 * no interruption. */
static int wait_before_retry(struct client_attach *t, int ms, struct err *e)
{
	struct pollfd p = { .fd = t->signals, .events = POLLIN };

	if (poll(&p, 1, ms) > 0 && read_signal(t) != SIGWINCH)
		return err_set(
			e, ERR_SYSTEM,
			"interrupted while the server is unreachable; the command may still be "
			"running");
	return 0;
}

/* A refusal by the server ends the attempt at once. Only a missing or restarting server is tried
 * again, with growing pauses, for RECONNECT_MS. */
static int connect_with_retries(struct client_attach *t, struct err *e)
{
	uint64_t until = clock_now_ns() + RECONNECT_MS * CLOCK_MS;
	int pause_ms = PAUSE_MS;

	for (;;) {
		int n = connect_once(t, e);

		if (n != ATTACH_LOST)
			return n;
		if (clock_now_ns() > until)
			return e->code == ERR_NONE ? err_set(e, ERR_SYSTEM, "connection lost") : -1;
		if (wait_before_retry(t, pause_ms, e) < 0)
			return -1;
		pause_ms = pause_ms < 1000 ? pause_ms * 2 : 1000;
	}
}

/* The loop over connections. Each lost one is replaced, for as long as the command may run. */
static int client_attach_run(struct client_attach *t, struct err *e)
{
	int result;

	for (;;) {
		if (connect_with_retries(t, e) < 0)
			return -1;
		result = client_attach_pump(t, e);
		if (result != ATTACH_LOST)
			return result;
		if (wait_before_retry(t, PAUSE_MS, e) < 0)
			return -1;
	}
}

/* The signals are blocked for the whole attachment, so none of them interrupts a write in the
 * middle. The caller restores the mask. */
static int watch_signals(struct client_attach *t, sigset_t *ret_before, struct err *e)
{
	static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < COUNT(forwarded); i++)
		(void)sigaddset(&set, forwarded[i]);
	(void)sigprocmask(SIG_BLOCK, &set, ret_before);
	t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return t->signals < 0 ? err_sys(e, "signalfd") : 0;
}

/* The terminal and the mask are restored on every path. t.ended is the caller's if the command
 * has ended, and NULL if the user left it. */
int attach_run(const struct attach_options *o, struct api_call *a, json_t **ret, struct err *e)
{
	static struct client_attach t; /* large */
	sigset_t before;
	int result;

	t = (struct client_attach){ .o = o, .a = a, .signals = -1, .terminal = TERMINAL_NONE };
	*ret = NULL;
	if (watch_signals(&t, &before, e) < 0)
		return -1;
	OWN_FD signals = t.signals;
	result = o->tty && o->input ? terminal_start(&t.terminal, -1, e) : 0;
	if (result == 0)
		result = client_attach_run(&t, e);
	terminal_stop(&t.terminal);
	client_close(a->client);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (result < 0) {
		json_decref(t.ended);
		return -1;
	}
	*ret = t.ended;
	return t.ended == NULL ? ATTACH_DETACHED : ATTACH_ENDED;
}
