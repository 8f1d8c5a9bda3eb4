/* talk.c - theory of operation
 *
 * One WebSocket carries everything. Its messages have no position in the output, so the bytes of
 * each stream that were passed on are counted: after a break the server repeats the output from its
 * start, and as many bytes are dropped. (The server keeps all output of an execution; a cursor, if
 * it tells one, saves the repetition.)
 *
 * Input is sent in small pieces and only while the socket takes it without waiting. Otherwise two
 * programs could wait for each other: we with input the other does not read because we do not read
 * its output. Input that was on its way when a server died is lost; there is no telling how much of
 * it arrived.
 *
 * Signals are read from a descriptor, never handled asynchronously. */
#include "talk.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#include "clock.h"
#include "member.h"
#include "pick.h"
#include "show.h"
#include "terminal.h"

#define PIECE 16384
#define PATIENCE_MS 60000 /* for a server that is away */
#define INTERRUPTS_MAX 3  /* then the user wants to leave, not to ask again */
#define LAST_WORDS_MS 250
#define DETACH_KEY 0x1d /* Ctrl-] */

enum { CHANNEL_OUT = 1, CHANNEL_ERR = 2, CHANNELS };
enum { DONE, LOST };

struct talk {
	const struct talk_options *o;
	struct ask *a;
	int signals;
	struct terminal terminal;
	uint64_t seen[CHANNELS];  /* bytes passed on */
	uint64_t skip[CHANNELS];  /* bytes that are about to be repeated */
	bool closed[CHANNELS];	  /* nobody reads it here any more */
	char cursor[128];	  /* the last position that the server told, or "" */
	uint64_t known[CHANNELS]; /* bytes before it */
	uint8_t piece[PIECE];	  /* input not sent yet */
	size_t have;
	bool input_ended, end_sent, detached, cut;
	bool finished; /* ended, and no output is missing */
	unsigned interrupts;
	json_t *ended;
};

/* 0, or LOST: the connection is gone. */
static int say(struct talk *t, json_t *message)
{
	OWN_JSON *owned = message;
	OWN_MEM char *text = json_dumps(owned, JSON_COMPACT);
	struct err lost;

	if (text == NULL || client_ws_send(t->a->client, true, text, strlen(text), &lost) < 0)
		return LOST;
	return 0;
}

static int say_size(struct talk *t)
{
	uint16_t rows = 0, cols = 0;

	terminal_size(&rows, &cols);
	if (!t->o->tty || rows == 0)
		return 0;
	return say(t, json_pack("{s:s, s:i, s:i}", "type", "resize", "rows", rows, "cols", cols));
}

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

static int output(struct talk *t, const struct client_ws_message *m, struct err *e)
{
	const uint8_t *data = m->data + 1;
	size_t len = m->len - 1, drop;
	unsigned channel = m->data[0];

	if (channel != CHANNEL_OUT && channel != CHANNEL_ERR)
		return 0; /* of a newer server */
	drop = t->skip[channel] < len ? (size_t)t->skip[channel] : len;
	t->skip[channel] -= drop;
	t->seen[channel] += len - drop;
	if (t->closed[channel] || write_all(channel == CHANNEL_OUT ? STDOUT_FILENO : STDERR_FILENO,
					    data + drop, len - drop) == 0)
		return 0;
	if (errno != EPIPE)
		return err_sys(e, "write the command's output");
	/* As it would learn it from a pipe. */
	t->closed[channel] = true;
	(void)say(t, json_pack("{s:s, s:s}", "type", "signal", "signal", "PIPE"));
	return 0;
}

static void notice(const struct talk *t, const char *words, const char *what)
{
	const char *end = t->terminal.raw ? "\r\n" : "\n";

	(void)fprintf(stderr, "cordon: %s", words);
	show_text(what, stderr);
	(void)fputs(end, stderr);
}

/* A position, and how many bytes of each stream are before it. */
static void take_cursor(struct talk *t, const json_t *cursor)
{
	if (json_is_integer(cursor))
		(void)snprintf(t->cursor, sizeof(t->cursor), "%lld",
			       (long long)json_integer_value(cursor));
	else if (json_is_string(cursor) && json_string_length(cursor) < sizeof(t->cursor))
		(void)snprintf(t->cursor, sizeof(t->cursor), "%s", json_string_value(cursor));
	else
		return;
	for (int i = 0; i < CHANNELS; i++)
		t->known[i] = t->seen[i] - t->skip[i];
}

static void told(struct talk *t, const struct client_ws_message *m)
{
	OWN_JSON *j = json_loadb((const char *)m->data, m->len, 0, NULL);
	json_t *execution = json_object_get(j, "execution");
	const char *type = member_text(j, "type", "");

	take_cursor(t, json_object_get(j, "cursor"));
	if (strcmp(type, "cut") == 0 && !t->cut) {
		t->cut = true;
		notice(t, "output cut: ", member_text(j, "reason", "limit"));
	} else if (strcmp(type, "error") == 0) {
		notice(t, "", member_text(member_group(j, "error"), "message", "unknown error"));
	} else if (strcmp(type, "exit") == 0 && t->ended == NULL) {
		t->ended = json_incref(json_is_object(execution) ? execution : j);
		/* Its last words may still be on their way, unless it is known that there are none;
		 * what a process in the background says later is not waited for. */
		t->finished = !member_bool(t->ended, "output_open");
	}
}

/* Takes every message that is here. */
static int receive(struct talk *t, struct err *e)
{
	struct client_ws_message m;
	struct err lost;

	while (!t->finished) {
		int n = client_ws_recv(t->a->client, 0, &m, &lost);

		if (n == 0)
			return 0;
		if (n < 0 || m.kind == CLIENT_WS_CLOSED) {
			t->finished = t->ended != NULL;
			return t->finished ? DONE : LOST;
		}
		if (m.kind == CLIENT_WS_TEXT)
			told(t, &m);
		else if (m.len > 0 && output(t, &m, e) < 0)
			return -1;
	}
	return DONE;
}

static void read_input(struct talk *t)
{
	ssize_t n = read(STDIN_FILENO, t->piece, sizeof(t->piece));
	const uint8_t *key;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	t->input_ended = n <= 0;
	t->have = n <= 0 ? 0 : (size_t)n;
	if (!t->o->may_detach || !t->terminal.raw || n <= 0)
		return;
	key = memchr(t->piece, DETACH_KEY, t->have);
	t->detached = key != NULL;
	t->have = key == NULL ? t->have : (size_t)(key - t->piece);
}

static int send_input(struct talk *t)
{
	struct err lost;

	if (t->have > 0 && client_ws_send(t->a->client, false, t->piece, t->have, &lost) < 0)
		return LOST;
	t->have = 0;
	if (!t->input_ended || t->end_sent)
		return 0;
	t->end_sent = true;
	return say(t, json_pack("{s:s}", "type", "eof"));
}

/* The signal that came, or 0. */
static int read_signal(struct talk *t)
{
	struct signalfd_siginfo info;

	if (read(t->signals, &info, sizeof(info)) != sizeof(info))
		return 0;
	if (info.ssi_signo != SIGWINCH)
		t->interrupts++;
	return (int)info.ssi_signo;
}

static int pass_signal(struct talk *t, struct err *e)
{
	int signo = read_signal(t);
	const char *name = signo == SIGINT    ? "INT"
			   : signo == SIGTERM ? "TERM"
			   : signo == SIGQUIT ? "QUIT"
					      : "HUP";

	if (signo == 0)
		return 0;
	if (signo == SIGWINCH)
		return say_size(t);
	if (t->interrupts >= INTERRUPTS_MAX)
		return err_set(e, ERR_SYSTEM, "interrupted; the command may still be running");
	return say(t, json_pack("{s:s, s:s}", "type", "signal", "signal", name));
}

/* One connection, from its start to its end. */
static int pump(struct talk *t, struct err *e)
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

		int n = poll(p, FDS, pending ? 0 : t->ended != NULL ? LAST_WORDS_MS : -1);

		if (n < 0 && errno != EINTR)
			return err_sys(e, "poll");
		if (n == 0 && !pending && t->ended != NULL)
			return DONE;
		if (pending || (p[SOCKET].revents & ~POLLOUT) != 0)
			result = receive(t, e);
		if (result == 0 && t->ended == NULL && (p[SOCKET].revents & POLLOUT) != 0)
			result = send_input(t);
		if (result == 0 && p[INPUT].revents != 0)
			read_input(t);
		if (result == 0 && p[SIGNALS].revents != 0)
			result = pass_signal(t, e);
	}
	return result;
}

/* 0: connected; LOST: not now, perhaps later. */
static int connect_once(struct talk *t, struct err *e)
{
	struct target where;
	const char *text;
	int n;

	pick_execution_target(&where, t->o->session, t->o->execution, "attach");
	target_query(&where, "after", t->cursor[0] == '\0' ? NULL : t->cursor);
	text = target_text(&where, e);
	if (text == NULL)
		return -1;
	client_close(t->a->client);
	t->a->status = 0;
	n = client_ws_open(t->a->client, text, t->a->headers, t->a->nheaders, e);
	if (n > 0)
		(void)ask_refused(t->a, e);
	if (n != 0)
		return ask_is_passing(t->a) ? LOST : -1;
	for (int i = 0; i < CHANNELS; i++)
		t->skip[i] = t->seen[i] - t->known[i];
	t->end_sent = false; /* it may have been lost; twice is harmless */
	return say_size(t);
}

static int connect_again(struct talk *t, struct err *e)
{
	uint64_t until = clock_now_ns() + PATIENCE_MS * CLOCK_MS;
	int pause_ms = 50;

	for (;;) {
		struct pollfd p = { .fd = t->signals, .events = POLLIN };
		int n = connect_once(t, e);

		if (n != LOST)
			return n;
		if (clock_now_ns() > until)
			return e->code == ERR_NONE ? err_set(e, ERR_SYSTEM, "connection lost") : -1;
		if (poll(&p, 1, pause_ms) > 0 && read_signal(t) != SIGWINCH)
			return err_set(e, ERR_SYSTEM,
				       "interrupted while the server is away; the command may "
				       "still be running");
		pause_ms = pause_ms < 1000 ? pause_ms * 2 : 1000;
	}
}

static int run(struct talk *t, struct err *e)
{
	int result = LOST;

	while (result == LOST) {
		if (connect_again(t, e) < 0)
			return -1;
		result = pump(t, e);
	}
	return result;
}

static int watch_signals(struct talk *t, sigset_t *ret_before, struct err *e)
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

int talk_run(const struct talk_options *o, struct ask *a, json_t **ret, struct err *e)
{
	static struct talk t; /* large */
	sigset_t before;
	int result;

	t = (struct talk){ .o = o, .a = a, .signals = -1, .terminal = TERMINAL_NONE };
	*ret = NULL;
	if (watch_signals(&t, &before, e) < 0)
		return -1;
	OWN_FD signals = t.signals;
	(void)signals;
	result = o->tty && o->input ? terminal_start(&t.terminal, -1, e) : 0;
	if (result == 0)
		result = run(&t, e);
	terminal_stop(&t.terminal);
	client_close(a->client);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (result < 0) {
		json_decref(t.ended);
		return -1;
	}
	*ret = t.ended;
	return t.ended == NULL ? TALK_DETACHED : TALK_ENDED;
}
