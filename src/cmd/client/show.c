/* show.c - see show.h. Every text that a server or a cell may have chosen goes through these
 * functions before a terminal shows it. A control sequence in a name could otherwise change the
 * screen, or even type commands. Error messages are escaped by err_sanitize() instead. */
#include "cmd/client/show.h"

#include <string.h>
#include <time.h>

#include "lib/base/utf8.h"

/* The number of a character of two or three bytes. Control characters have no more. */
static unsigned number_of(const uint8_t *c, size_t n)
{
	return n == 2 ? (c[0] & 0x1fU) << 6 | (c[1] & 0x3fU)
		      : (c[0] & 0x0fU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
}

/* One character at p, n bytes long (0: not UTF-8), as it may be printed. Return its length. */
static size_t show_one(const uint8_t *p, size_t n, char ret[8])
{
	int len;

	if (n > 0 && !utf8_is_control(p, n)) {
		memcpy(ret, p, n);
		return n;
	}
	if (*p == '\n' || *p == '\t' || *p == '\r')
		len = snprintf(ret, 8, "\\%c", *p == '\n' ? 'n' : *p == '\t' ? 't' : 'r');
	else if (n > 1)
		len = snprintf(ret, 8, "\\u%04x", number_of(p, n));
	else
		len = snprintf(ret, 8, "\\x%02x", *p);
	return len > 0 ? (size_t)len : 0;
}

/* The columns are counted in characters. Wide characters count as one. */
size_t show_escape(const char *text, char *ret, size_t cap)
{
	size_t left = strlen(text), columns = 0, at = 0;

	for (const uint8_t *p = (const uint8_t *)text; left > 0;) {
		size_t n = utf8_length(p, left), step = n == 0 ? 1 : n;
		char piece[8];
		size_t len = show_one(p, n, piece);

		if (at + len >= cap)
			break;
		memcpy(ret + at, piece, len);
		at += len;
		columns += n > 1 && !utf8_is_control(p, n) ? 1 : len;
		p += step;
		left -= step;
	}
	ret[at] = '\0';
	return columns;
}

static void show_print(const char *text, size_t left, FILE *to)
{
	for (const uint8_t *p = (const uint8_t *)text; left > 0;) {
		size_t n = utf8_length(p, left), step = n == 0 ? 1 : n;
		char piece[8] = "";
		size_t len = show_one(p, n, piece);

		(void)fwrite(piece, 1, len, to);
		p += step;
		left -= step;
	}
}

void show_text(const char *text, FILE *to)
{
	show_print(text, strlen(text), to);
}

void show_lines(const char *text, FILE *to)
{
	while (*text != '\0') {
		size_t n = strcspn(text, "\n");

		show_print(text, n, to);
		(void)fputc('\n', to);
		text += n + (text[n] == '\n');
	}
}

/* The unit grows with the time, so the text is short and never exact. 99 s is shown as seconds,
 * 100 s as minutes. */
void show_span(int64_t ms, char *ret, size_t cap)
{
	long long s = ms / 1000;

	if (ms < 0)
		(void)snprintf(ret, cap, "-");
	else if (s < 100)
		(void)snprintf(ret, cap, "%llds", s);
	else if (s < 100LL * 60)
		(void)snprintf(ret, cap, "%lldm", s / 60);
	else if (s < 48LL * 3600)
		(void)snprintf(ret, cap, "%lldh", s / 3600);
	else
		(void)snprintf(ret, cap, "%lldd", s / 86400);
}

int64_t show_now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
