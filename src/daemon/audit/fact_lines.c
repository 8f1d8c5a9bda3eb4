/* fact_lines.c - see fact_lines.h. */
#include "daemon/audit/fact_lines.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/own.h"
#include "lib/json/json.h"

/* ---- printing */

struct fact_lines {
	char *text;
	size_t cap, len;
	size_t line;  /* where the last line begins */
	size_t value; /* where its value begins. 0: at its key */
	bool full;
};

/* Room is kept for the end of the line. A value that does not fit is cut. */
static void fact_lines_put(struct fact_lines *f, const char *text, size_t n)
{
	size_t room = f->cap - f->len - 2;

	f->full |= n > room;
	if (f->full && f->value == 0)
		return;
	if (f->full)
		n = room;
	memcpy(f->text + f->len, text, n);
	f->len += n;
}

/* A value without separators, or the caller's own lines. */
static void fact_lines_put_text(struct fact_lines *f, const char *text, size_t n)
{
	size_t from = f->len;

	fact_lines_put(f, text, n);
	if (f->value == 0) {
		if (f->len > 0 && f->text[f->len - 1] == '\n')
			f->line = f->len;
		return;
	}
	for (; from < f->len; from++) {
		char c = f->text[from];

		if (c == '\t' || c == '\n' || c == '\r' || c == '\0')
			f->text[from] = '?';
	}
}

/* A character of the format itself. */
static void fact_lines_put_own(struct fact_lines *f, char c)
{
	fact_lines_put(f, &c, 1);
	if (f->full)
		return;
	if (c == '\t' && f->value == 0) {
		f->value = f->len;
	} else if (c == '\n') {
		if (f->text[f->line] == '?' && f->value == f->len - 1) {
			f->len = f->line;
		} else if (f->text[f->line] == '?') {
			f->len--;
			memmove(f->text + f->line, f->text + f->line + 1, f->len - f->line);
		}
		f->line = f->len;
		f->value = 0;
	}
}

size_t fact_lines_vprint(char *ret, size_t cap, const char *fmt, va_list args)
{
	struct fact_lines f = { .text = ret, .cap = cap };
	char digits[24];

	for (const char *at = fmt; *at != '\0' && !f.full; at++) {
		size_t most = SIZE_MAX;
		const char *text = digits;

		if (*at != '%') {
			size_t plain = strcspn(at, "%\t\n");

			if (plain == 0) {
				fact_lines_put_own(&f, *at);
			} else {
				fact_lines_put(&f, at, plain);
				at += plain - 1;
			}
			continue;
		}
		at++;
		if (*at == '.') {
			char *end;

			most = strtoul(at + 1, &end, 10);
			at = end;
		}
		if (*at == 's') {
			text = va_arg(args, const char *);
		} else if (*at == 'd') {
			(void)snprintf(digits, sizeof(digits), "%d", va_arg(args, int));
		} else if (*at == 'u') {
			(void)snprintf(digits, sizeof(digits), "%u", va_arg(args, unsigned));
		} else if (strncmp(at, "zu", 2) == 0) {
			(void)snprintf(digits, sizeof(digits), "%zu", va_arg(args, size_t));
			at++;
		} else {
			assert(strncmp(at, "llu", 3) == 0);
			(void)snprintf(digits, sizeof(digits), "%llu",
				       va_arg(args, unsigned long long));
			at += 2;
		}
		fact_lines_put_text(&f, text, strnlen(text, most));
	}
	if (f.full && f.value == 0)
		f.len = f.line;
	else if (f.full)
		ret[f.len++] = '\n';
	ret[f.len] = '\0';
	return f.len;
}

size_t fact_lines_print(char *ret, size_t cap, const char *fmt, ...)
{
	va_list args;
	size_t n;

	va_start(args, fmt);
	n = fact_lines_vprint(ret, cap, fmt, args);
	va_end(args);
	return n;
}

/* ---- as JSON */

static void fact_lines_one(struct json *j, const char *key, const char *text, size_t len)
{
	static const char *const numbers[] = { "exit_code",
					       "version",
					       "bytes",
					       "size",
					       "records",
					       "duration_ms",
					       "memory",
					       "cpu_millis",
					       "pids",
					       "disk",
					       "timeout_ms",
					       "from",
					       "to",
					       "epoch",
					       "known",
					       "record",
					       "cpu_us",
					       "memory_peak",
					       "template_version",
					       "files_found",
					       "value",
					       "threshold",
					       "raised",
					       "operations",
					       "failed",
					       "first_seq",
					       "last_seq",
					       "after_seq",
					       "lost_before",
					       "unrecorded",
					       "times",
					       "lost",
					       "entry",
					       "late_ms" };
	char digits[24], *end;
	long long n;
	/* Most are texts: they are known by their first character. */
	bool may_be = len > 0 && len < sizeof(digits) && text[0] <= '9';

	for (size_t i = 0; i < COUNT(numbers) && may_be; i++) {
		if (strcmp(key, numbers[i]) != 0)
			continue;
		memcpy(digits, text, len);
		digits[len] = '\0';
		n = strtoll(digits, &end, 10);
		if (*end != '\0')
			break;
		json_int(j, key, n);
		return;
	}
	json_bytes(j, key, text, len);
}

/* Is there a line of the key in front of this one? */
static bool fact_lines_has(const char *lines, const char *end, const char *key, size_t len)
{
	for (const char *at = lines; at < end; at += strcspn(at, "\n") + 1)
		if (strncmp(at, key, len) == 0 && at[len] == '\t')
			return true;
	return false;
}

void fact_lines_json(struct json *j, const char *lines)
{
	for (const char *at = lines; *at != '\0';) {
		size_t line = strcspn(at, "\n"), key = strcspn(at, "\t\n");
		char label[64];

		if (key < line && key < sizeof(label) && !fact_lines_has(lines, at, at, key)) {
			memcpy(label, at, key);
			label[key] = '\0';
			fact_lines_one(j, label, at + key + 1, line - key - 1);
		}
		at += line + (at[line] == '\n');
	}
}
