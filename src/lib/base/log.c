/* Theory of operation
 *
 * A line is put together in one buffer on the stack and leaves in one write(2). It is a list of
 * pairs in both formats, and both quote text in the same way (JSON's escapes are good in logfmt,
 * too), so the formats differ in a few bytes of punctuation only. A pair that does not fit is
 * removed from the line again and counted. TAIL bytes are kept free for the end. */
#include "lib/base/log.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/utf8.h"

#define TAIL 32 /* ' cut=NNN' or ',"cut":NNN}', and the end of the line */

static enum log_format the_format = LOG_FORMAT_LOGFMT;
static enum log_level the_level = LOG_LEVEL_INFO;

static const char *const level_names[] = { "debug", "info", "warn", "error" };
static_assert(COUNT(level_names) == LOG_LEVELS, "a name for every level");
static const char *const format_names[] = { "logfmt", "json" };
static_assert(COUNT(format_names) == LOG_FORMATS, "a name for every format");

struct log_line {
	char text[LOG_LINE_MAX];
	size_t len, cap;
	bool full;
	unsigned cut; /* pairs left out */
};

static void log_put(struct log_line *l, const char *bytes, size_t n)
{
	if (l->full || n > l->cap - l->len) {
		l->full = true;
		return;
	}
	memcpy(l->text + l->len, bytes, n);
	l->len += n;
}

static void log_put_text(struct log_line *l, const char *text)
{
	log_put(l, text, strlen(text));
}

static uint32_t log_decode(const char *s, size_t n)
{
	const uint8_t *p = (const uint8_t *)s;

	if (n == 1)
		return p[0];
	if (n == 2)
		return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
	if (n == 3)
		return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
	return 0x10000; /* any: no character above is hidden */
}

/* Characters that control a terminal, end a line or change the direction of text. */
static bool log_is_hidden(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

static void log_put_char(struct log_line *l, const char *s, size_t n)
{
	uint32_t c = n == 0 ? 0xfffd : log_decode(s, n);
	char escape[8];

	if (n == 1 && (*s == '"' || *s == '\\')) {
		log_put(l, "\\", 1);
		log_put(l, s, 1);
	} else if (c == '\n') {
		log_put(l, "\\n", 2);
	} else if (n == 0 || log_is_hidden(c)) {
		(void)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)c & 0xffff);
		log_put(l, escape, 6);
	} else {
		log_put(l, s, n);
	}
}

static void log_put_quoted(struct log_line *l, const char *s)
{
	/* 4 bytes more, so that the character that exceeds the limit is seen as a whole */
	size_t left = strnlen(s, LOG_VALUE_MAX + 4), budget = LOG_VALUE_MAX;

	log_put(l, "\"", 1);
	while (left > 0) {
		size_t n = utf8_length((const uint8_t *)s, left);
		size_t used = n == 0 ? 1 : n;

		if (used > budget) {
			log_put(l, "...", 3);
			break;
		}
		log_put_char(l, s, n);
		s += used;
		left -= used;
		budget -= used;
	}
	log_put(l, "\"", 1);
}

/* logfmt only: the value needs no quotes. */
static bool log_is_bare(const char *s)
{
	size_t n = strnlen(s, LOG_VALUE_MAX + 1);

	if (n == 0 || n > LOG_VALUE_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' || s[i] == '=')
			return false;
	return true;
}

/* name="value" or "name":"value". Numbers stand as they are. */
static void log_put_pair(struct log_line *l, const char *name, size_t n, const char *value,
			 bool number)
{
	size_t start = l->len;
	bool json = the_format == LOG_FORMAT_JSON;

	if (start > 0)
		log_put(l, json ? "," : " ", 1);
	else if (json)
		log_put(l, "{", 1);
	if (json)
		log_put(l, "\"", 1);
	log_put(l, name, n);
	log_put_text(l, json ? "\":" : "=");
	if (number || (!json && log_is_bare(value)))
		log_put_text(l, value);
	else
		log_put_quoted(l, value);
	if (l->full) {
		l->len = start;
		l->full = false;
		l->cut++;
	}
}

static bool log_takes(const char **at, const char *conversion)
{
	size_t n = strlen(conversion);

	if (strncmp(*at, conversion, n) != 0)
		return false;
	*at += n;
	return true;
}

/* One conversion of the template. Return the place behind it. */
static const char *log_put_value(struct log_line *l, const char *name, size_t n, const char *at,
				 va_list *ap)
{
	char digits[24] = "";
	const char *text = NULL;

	if (log_takes(&at, "%s"))
		text = va_arg(*ap, const char *);
	else if (log_takes(&at, "%d"))
		(void)snprintf(digits, sizeof(digits), "%d", va_arg(*ap, int));
	else if (log_takes(&at, "%u"))
		(void)snprintf(digits, sizeof(digits), "%u", va_arg(*ap, unsigned));
	else if (log_takes(&at, "%ld"))
		(void)snprintf(digits, sizeof(digits), "%ld", va_arg(*ap, long));
	else if (log_takes(&at, "%lu"))
		(void)snprintf(digits, sizeof(digits), "%lu", va_arg(*ap, unsigned long));
	else if (log_takes(&at, "%lld"))
		(void)snprintf(digits, sizeof(digits), "%lld", va_arg(*ap, long long));
	else if (log_takes(&at, "%llu"))
		(void)snprintf(digits, sizeof(digits), "%llu", va_arg(*ap, unsigned long long));
	else if (log_takes(&at, "%zu"))
		(void)snprintf(digits, sizeof(digits), "%zu", va_arg(*ap, size_t));
	else
		assert(false && "log: only %s %d %u %ld %lu %lld %llu %zu");
	if (digits[0] != '\0')
		log_put_pair(l, name, n, digits, true);
	else
		log_put_pair(l, name, n, text == NULL ? "" : text, false);
	return at;
}

static void log_put_fields(struct log_line *l, const char *at, va_list *ap)
{
	while (*at != '\0') {
		const char *name = at;
		size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");

		assert(n > 0 && at[n] == '=' && "log: fields are key=%x");
		at = log_put_value(l, name, n, at + n + 1, ap);
		assert((*at == '\0' || (*at == ' ' && at[1] != '\0')) &&
		       "log: one space between fields");
		if (*at == ' ')
			at++;
	}
}

static void log_end(struct log_line *l)
{
	char cut[24];

	l->cap = sizeof(l->text);
	if (l->cut > 0) {
		(void)snprintf(cut, sizeof(cut), "%u", l->cut);
		log_put_pair(l, "cut", 3, cut, true);
	}
	log_put_text(l, the_format == LOG_FORMAT_JSON ? "}\n" : "\n");
}

void log_setup(enum log_format format, enum log_level level)
{
	the_format = format;
	the_level = level;
}

const char *log_level_name(enum log_level level)
{
	return level_names[level];
}

const char *log_format_name(enum log_format format)
{
	return format_names[format];
}

bool log_wants(enum log_level level)
{
	return level >= the_level;
}

void log_write(enum log_level level, const char *what, const char *fields, ...)
{
	int saved = errno;
	struct log_line l;
	char now[40];
	va_list ap;

	if (!log_wants(level))
		return;
	l.len = 0;
	l.cap = sizeof(l.text) - TAIL;
	l.full = false;
	l.cut = 0;
	clock_stamp(now, sizeof(now));
	log_put_pair(&l, "time", 4, now, false);
	log_put_pair(&l, "level", 5, level_names[level], false);
	log_put_pair(&l, "msg", 3, what, false);
	va_start(ap, fields);
	log_put_fields(&l, fields, &ap);
	va_end(ap);
	log_end(&l);
	while (write(STDERR_FILENO, l.text, l.len) < 0 && errno == EINTR) {
	}
	errno = saved;
}

bool log_limit(struct log_limit *limit, unsigned long long *ret_dropped)
{
	uint64_t now = clock_now_ns();

	if (limit->began_ns == 0 || now - limit->began_ns >= limit->interval_ms * CLOCK_MS) {
		limit->began_ns = now;
		limit->used = 0;
	}
	if (limit->used >= limit->burst) {
		limit->dropped++;
		return false;
	}
	limit->used++;
	*ret_dropped = limit->dropped;
	limit->dropped = 0;
	return true;
}
