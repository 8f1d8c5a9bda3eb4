#include "server_words.h"

#include <stdio.h>
#include <string.h>

#define LOG_BURST 20

static void keep(struct server_words *w, const char *bytes, size_t n)
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

/* Logs the first n bytes of `line`. */
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

void server_words_add(struct server_words *w, const char *bytes, size_t n)
{
	keep(w, bytes, n);
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

void server_words_tick(struct server_words *w)
{
	if (w->waited)
		log_some(w, w->nline);
	w->waited = w->nline > 0;
}

void server_words_end(struct server_words *w)
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
