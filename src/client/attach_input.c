#include "attach_input.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "exec.h"
#include "member.h"
#include "show.h"

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

static int take_output(struct attach *t, const struct client_ws_message *m, struct err *e)
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
	if (t->closed[channel] || write_all(channel == ATTACH_OUT ? STDOUT_FILENO : STDERR_FILENO,
					    data + drop, len - drop) == 0)
		return 0;
	if (errno != EPIPE)
		return err_sys(e, "write the command's output");
	t->closed[channel] = true;
	t->pipe_broke = true;
	return 0;
}

static void notice(const struct attach *t, const char *words, const char *what)
{
	const char *end = t->terminal.raw ? "\r\n" : "\n";

	(void)fprintf(stderr, "cordon: %s", words);
	show_text(what, stderr);
	(void)fputs(end, stderr);
}

/* A position, and how many bytes of each stream are before it. */
static void take_cursor(struct attach *t, const json_t *cursor)
{
	if (json_is_integer(cursor))
		(void)snprintf(t->cursor, sizeof(t->cursor), "%lld",
			       (long long)json_integer_value(cursor));
	else if (json_is_string(cursor) && json_string_length(cursor) < sizeof(t->cursor))
		(void)snprintf(t->cursor, sizeof(t->cursor), "%s", json_string_value(cursor));
	else
		return;
	for (int i = 0; i < ATTACH_CHANNELS; i++)
		t->known[i] = t->seen[i] - t->skip[i];
}

static void take_text(struct attach *t, const struct client_ws_message *m)
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
	} else if (strcmp(type, "exit") == 0 && t->ended == NULL && exec_has_ended(execution)) {
		t->ended = json_incref(execution);
		/* The last output may still be on its way, unless it is known that there is none;
		 * later output of a background process is not waited for. */
		t->finished = !member_bool(t->ended, "output_open");
	}
}

int attach_input(struct attach *t, struct err *e)
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
