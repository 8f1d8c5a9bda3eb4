#include "incell/mcpgateway/stdio_server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "incell/mcpgateway/out_send.h"
#include "incell/mcpgateway/server_spawn.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#define LOG_BURST 20

/* The last bytes in order. Older ones are moved out. */
static void stdio_server_keep(struct server_words *w, const char *bytes, size_t n)
{
	size_t room;

	w->cut = w->cut || w->n + n > sizeof(w->last);
	if (n > sizeof(w->last)) {
		bytes += n - sizeof(w->last);
		n = sizeof(w->last);
	}
	room = sizeof(w->last) - n;
	if (w->n > room) {
		memmove(w->last, w->last + w->n - room, room);
		w->n = room;
	}
	memcpy(w->last + w->n, bytes, n);
	w->n += n;
}

/* Log the first n bytes of `line`. At most LOG_BURST lines a second. */
static void log_some(struct server_words *w, size_t n)
{
	static struct log_limit limit = { .burst = LOG_BURST, .interval_ms = 1000 };
	unsigned long long dropped;
	char text[sizeof(w->line)];

	if (n > 0 && log_limit(&limit, &dropped)) {
		(void)snprintf(text, sizeof(text), "%.*s", (int)n, w->line);
		log_info("standard error of a server", "server=%s text=%s dropped=%llu", w->name,
			 text, dropped);
	}
	w->nline -= n;
	memmove(w->line, w->line + n, w->nline);
	w->waited = false;
}

/* The next bytes. */
static void server_words_add(struct server_words *w, const char *bytes, size_t n)
{
	stdio_server_keep(w, bytes, n);
	w->total += n;
	while (n > 0) {
		size_t room = sizeof(w->line) - 1 - w->nline, part = n < room ? n : room;
		const char *newline;

		memcpy(w->line + w->nline, bytes, part);
		w->nline += part;
		bytes += part;
		n -= part;
		newline = memrchr(w->line, '\n', w->nline);
		if (newline != NULL)
			log_some(w, (size_t)(newline - w->line) + 1);
		else if (w->nline == sizeof(w->line) - 1)
			log_some(w, w->nline);
	}
}

/* About once a second: logs a line that does not end. */
static void server_words_tick(struct server_words *w)
{
	if (w->waited)
		log_some(w, w->nline);
	w->waited = w->nline > 0;
}

/* There will be no more. An incomplete line is logged as it is. */
static void server_words_end(struct server_words *w)
{
	log_some(w, w->nline);
}

void server_words_last(const struct server_words *w, char ret[SERVER_WORDS + 1])
{
	const char *from = w->last;
	size_t n = w->n;

	if (w->cut) {
		const char *newline = memchr(w->last, '\n', w->n);

		from = newline == NULL ? w->last + w->n : newline + 1;
		n = w->n - (size_t)(from - w->last);
	}
	while (n > 0 && (from[n - 1] == '\n' || from[n - 1] == '\r'))
		n--;
	memcpy(ret, from, n);
	ret[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (((unsigned char)ret[i] < 0x20 && ret[i] != '\n' && ret[i] != '\t') ||
		    ret[i] == 0x7f)
			ret[i] = '?';
}

#define READ_SIZE 65536
#define AGAIN_MS 1000 /* before the first new start. Doubles */
#define AGAIN_MAX_MS 30000
#define LAST_READS 64
#define LIVED_NS (60000 * CLOCK_MS) /* after that, failures are forgotten */

/* The loop forgets the descriptor before it is closed. */
static void close_one(struct stdio_server *s, struct loop_fd *ready, int *fd)
{
	loop_remove(s->loop, ready);
	fd_close(*fd);
	*fd = -1;
}

/* Safe for descriptors that are closed already. */
static void close_all(struct stdio_server *s)
{
	close_one(s, &s->pid_ready, &s->pidfd);
	close_one(s, &s->in_ready, &s->in);
	close_one(s, &s->out_ready, &s->out);
	close_one(s, &s->err_ready, &s->err);
}

/* The group first, then the program itself, should it have left the group. */
void server_stop(struct stdio_server *s, const char *why)
{
	loop_timer_cancel(s->loop, &s->again);
	if (s->pid > 0) {
		(void)kill(-s->pid, SIGKILL);
		(void)kill(s->pid, SIGKILL);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
		s->pid = 0;
	}
	close_all(s);
	peer_lost(&s->peer, why);
}

/* The wait doubles with each failure. */
static void start_later(struct stdio_server *s)
{
	uint64_t ms = (uint64_t)AGAIN_MS << (s->failures < 5 ? s->failures : 5);

	s->failures++;
	loop_timer_set(s->loop, &s->again,
		       loop_now_ns(s->loop) + (ms < AGAIN_MAX_MS ? ms : AGAIN_MAX_MS) * CLOCK_MS);
}

/* Read some of its standard error. False: there is no more. One read. */
static bool read_words(struct stdio_server *s)
{
	char bytes[LOG_VALUE_MAX];
	ssize_t n = s->err < 0 ? 0 : read(s->err, bytes, sizeof(bytes));

	if (n > 0)
		server_words_add(&s->words, bytes, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Its last output may still be in the pipe, and take more than one read. */
static void read_last_words(struct stdio_server *s)
{
	size_t before = SIZE_MAX;

	for (unsigned i = 0; i < LAST_READS && s->words.total != before && s->err >= 0; i++) {
		before = s->words.total;
		if (!read_words(s))
			break;
	}
	server_words_end(&s->words);
}

/* The program is gone or useless. s stays: it starts its program again after a while. */
static void stdio_server_end(struct stdio_server *s, const char *why)
{
	struct err e;

	(void)err_set(&e, ERR_SYSTEM, "%s", why);
	err_sanitize(&e);
	if (s->began_ns != 0 && clock_now_ns() - s->began_ns > LIVED_NS)
		s->failures = 0;
	read_last_words(s);
	server_stop(s, e.msg);
	log_warn("server ended", "server=%s why=%s", s->entry->name, e.msg);
	start_later(s);
	s->owner.on_ended(s, e.msg);
}

/* The program is not reaped here: server_stop() does that. */
static void describe_exit(pid_t pid, char *ret, size_t cap)
{
	siginfo_t i = { 0 };

	if (waitid(P_PID, (id_t)pid, &i, WEXITED | WNOHANG | WNOWAIT) < 0 || i.si_pid == 0)
		(void)snprintf(ret, cap, "it closed its standard output");
	else if (i.si_code == CLD_EXITED)
		(void)snprintf(ret, cap, "it ended with exit code %d", i.si_status);
	else
		(void)snprintf(ret, cap, "it was killed by signal %d", i.si_status);
}

static void on_exit_ready(struct loop_fd *f, uint32_t events)
{
	struct stdio_server *s = f->arg;
	char why[64];

	describe_exit(s->pid, why, sizeof(why));
	stdio_server_end(s, why);
}

/* ---- its output
 *
 * Lines of the protocol go to the peer, standard error to the log. */

/* One read in each turn. */
static void on_out_ready(struct loop_fd *f, uint32_t events)
{
	struct stdio_server *s = f->arg;
	static char bytes[READ_SIZE];
	ssize_t n = read(s->out, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		/* The exit is reported by its pidfd, which may come a moment later. */
		close_one(s, &s->out_ready, &s->out);
		loop_timer_set(s->loop, &s->again, loop_now_ns(s->loop) + 200 * CLOCK_MS);
		return;
	}
	peer_feed(&s->peer, bytes, (size_t)n);
	if (s->peer.state == PEER_FAILED)
		stdio_server_end(s, s->peer.failure);
	else
		server_flush(s);
}

/* A server without a program keeps the mark for its next one. */
void server_pause(struct stdio_server *s, bool pause)
{
	s->paused = pause;
	loop_modify(s->loop, &s->out_ready, pause ? 0 : EPOLLIN);
}

static void on_err_ready(struct loop_fd *f, uint32_t events)
{
	struct stdio_server *s = f->arg;

	if (!read_words(s)) {
		server_words_end(&s->words);
		close_one(s, &s->err_ready, &s->err);
	}
}

/* ---- its input
 *
 * The peer's messages, as fast as the program reads them. */

void server_flush(struct stdio_server *s)
{
	struct buf *out = &s->peer.out;

	if (s->in >= 0 && out_send(s->in, out) < 0) {
		/* It reads no more. Its output is still read. */
		close_one(s, &s->in_ready, &s->in);
		return;
	}
	loop_modify(s->loop, &s->in_ready, out->len > 0 ? EPOLLOUT : 0);
}

static void on_in_ready(struct loop_fd *f, uint32_t events)
{
	server_flush(f->arg);
	/* Its reader is gone. Without this the loop would report that again and again. */
	if ((events & EPOLLERR) != 0 && ((struct stdio_server *)f->arg)->in >= 0)
		close_one(f->arg, f, &((struct stdio_server *)f->arg)->in);
}

/* ---- start
 *
 * server_start() also follows each end, after a while. */

/* The descriptors are the server's from here on, also on failure. */
static int stdio_server_watch(struct stdio_server *s, const struct server_pipes *p, struct err *e)
{
	s->pid = p->pid;
	s->pidfd = p->pidfd;
	s->in = p->in;
	s->out = p->out;
	s->err = p->err;
	return s->pidfd < 0 || loop_add(s->loop, &s->pid_ready, s->pidfd, EPOLLIN, e) < 0 ||
			       loop_add(s->loop, &s->out_ready, s->out, s->paused ? 0 : EPOLLIN,
					e) < 0 ||
			       loop_add(s->loop, &s->err_ready, s->err, EPOLLIN, e) < 0 ||
			       loop_add(s->loop, &s->in_ready, s->in, 0, e) < 0
		       ? -1
		       : 0;
}

/* The install command runs only until the server has worked once. */
void server_start(struct stdio_server *s)
{
	struct server_pipes pipes;
	struct err e = { 0 };

	s->began_ns = clock_now_ns();
	s->words = (struct server_words){ .name = s->entry->name };
	if (server_spawn(s->entry, !s->was_ready, &pipes, &e) < 0 ||
	    stdio_server_watch(s, &pipes, &e) < 0) {
		stdio_server_end(s, e.msg);
		return;
	}
	peer_begin(&s->peer);
	server_flush(s);
}

/* Either the time for a new start, or the grace for an exit that has not been reported. */
static void on_again(struct loop_timer *t)
{
	struct stdio_server *s = t->arg;

	if (s->pid > 0)
		stdio_server_end(s, "it closed its standard output");
	else
		server_start(s);
}

/* Deadlines of calls are the peer's. */
void server_tick(struct stdio_server *s)
{
	if (s->pid == 0)
		return;
	peer_tick(&s->peer);
	server_words_tick(&s->words);
	if (s->peer.state == PEER_FAILED)
		stdio_server_end(s, s->peer.failure);
	else
		server_flush(s);
}

/* From here on a new start skips the install command. */
static void on_tools(struct peer *p)
{
	struct stdio_server *s = p->arg;

	s->was_ready = true;
	s->owner.on_tools(s);
}

static void on_failed(struct peer *p)
{
	(void)p; /* the caller of peer_feed() and peer_tick() sees it */
}

/* No program is started. */
void server_init(struct stdio_server *s, struct loop *l, const struct gateway_entry *entry,
		 struct server_owner owner)
{
	static const struct peer_events events = { on_tools, on_failed };

	*s = (struct stdio_server){ .owner = owner, .entry = entry, .loop = l };
	s->pidfd = s->in = s->out = s->err = -1;
	s->pid_ready = (struct loop_fd){ .fd = -1, .on_ready = on_exit_ready, .arg = s };
	s->in_ready = (struct loop_fd){ .fd = -1, .on_ready = on_in_ready, .arg = s };
	s->out_ready = (struct loop_fd){ .fd = -1, .on_ready = on_out_ready, .arg = s };
	s->err_ready = (struct loop_fd){ .fd = -1, .on_ready = on_err_ready, .arg = s };
	s->again = (struct loop_timer){ .on_expire = on_again, .arg = s };
	peer_init(&s->peer, &events, s);
	s->peer.name = entry->name;
	s->peer.client = "mcp-gateway";
}
