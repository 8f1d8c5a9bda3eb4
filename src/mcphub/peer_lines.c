/* peer_lines.c - what a server writes, divided into messages: one line each, bounded. A longer one,
 * or one with too many values, is skipped, and ends the call that it seems to answer. Called by the
 * owner of the peer. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The id of a message of which only the ends are known. It may be wrong: then the server has given
 * one of its own calls a bad answer, as it can at any time. */
static uint64_t guess_id(const char *bytes, size_t n)
{
	char text[PEER_EDGE + 1];
	const char *at;

	memcpy(text, bytes, n);
	text[n] = '\0';
	at = strstr(text, "\"id\":");
	return at == NULL ? 0 : strtoull(at + 5, NULL, 10);
}

/* The ends of the message are in head and tail. */
static void end_skipped(struct peer *p, const char *why, size_t n)
{
	struct peer_answer a = { .end = PEER_LOST, .message = why };
	uint64_t id = guess_id(p->head, p->nhead);
	struct peer_call *c;

	if (id == 0)
		id = guess_id(p->tail, p->ntail);
	peer_ignore(p, n);
	if (id != 0 && id == p->step_id) {
		peer_fail(p, why);
		return;
	}
	c = peer_find_call(p, id);
	if (c != NULL)
		peer_end_call(c, &a);
}

static void on_skipped(struct peer *p)
{
	char why[80];

	(void)snprintf(why, sizeof(why), "the answer of the server is longer than %zu MiB",
		       p->line_max >> 20);
	end_skipped(p, why, p->skipped);
}

void peer_on_unread(struct peer *p, const char *line, size_t n)
{
	char why[100];

	p->nhead = p->ntail = n < PEER_EDGE ? n : PEER_EDGE;
	memcpy(p->head, line, p->nhead);
	memcpy(p->tail, line + n - p->ntail, p->ntail);
	(void)snprintf(why, sizeof(why),
		       "the answer of the server has more than %zu values or %d levels",
		       p->values_max, PEER_DEPTH_MAX);
	end_skipped(p, why, n);
}

/* Keeps the last bytes of a message that is skipped. */
static void keep_tail(struct peer *p, const char *bytes, size_t n)
{
	if (n >= PEER_EDGE) {
		memcpy(p->tail, bytes + n - PEER_EDGE, PEER_EDGE);
		p->ntail = PEER_EDGE;
		return;
	}
	if (p->ntail + n > PEER_EDGE) {
		memmove(p->tail, p->tail + p->ntail + n - PEER_EDGE, PEER_EDGE - n);
		p->ntail = PEER_EDGE - n;
	}
	memcpy(p->tail + p->ntail, bytes, n);
	p->ntail += n;
}

static void begin_skip(struct peer *p)
{
	p->skipping = true;
	p->skipped = p->in.len;
	p->nhead = p->in.len < PEER_EDGE ? p->in.len : PEER_EDGE;
	p->ntail = 0;
	if (p->nhead > 0)
		memcpy(p->head, p->in.data, p->nhead);
	buf_release(&p->in);
}

/* A piece of a message without its end. */
static void add_piece(struct peer *p, const char *bytes, size_t n)
{
	struct err e;

	if (!p->skipping && (p->in.len + n > p->line_max || buf_add(&p->in, bytes, n, &e) < 0))
		begin_skip(p);
	if (!p->skipping)
		return;
	p->skipped += n;
	keep_tail(p, bytes, n);
}

static void end_line(struct peer *p, const char *bytes, size_t n)
{
	/* A line that came whole is read where it is. */
	if (p->in.len == 0 && !p->skipping) {
		if (n > 0)
			peer_on_message(p, bytes, n);
		return;
	}
	add_piece(p, bytes, n);
	if (p->skipping) {
		p->skipping = false;
		on_skipped(p);
	} else {
		peer_on_message(p, (const char *)p->in.data, p->in.len);
	}
	buf_release(&p->in);
}

void peer_feed(struct peer *p, const void *bytes, size_t n)
{
	const char *at = bytes, *end = at + n, *newline;

	while (at < end && p->state != PEER_IDLE && p->state != PEER_FAILED) {
		newline = memchr(at, '\n', (size_t)(end - at));
		if (newline == NULL) {
			add_piece(p, at, (size_t)(end - at));
			return;
		}
		end_line(p, at, (size_t)(newline - at));
		at = newline + 1;
	}
}
