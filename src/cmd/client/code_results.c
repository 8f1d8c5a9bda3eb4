/* code_results.c - see code_results.h. Bytes are collected to lines, each line is one result,
 * and each known form of a result becomes a file. Every bound is checked before memory or disk
 * is used, because code in the session decides on the amount. */
#include "cmd/client/code_results.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/api_call.h"
#include "cmd/client/member.h"
#include "cmd/client/saved_file.h"
#include "lib/base/base64.h"
#include "lib/base/io.h"

#define UNREAD "a line of results is left out: it is no JSON, or longer than 64 MiB"

void code_results_init(struct code_results *c, const char *dir, bool quiet)
{
	*c = (struct code_results){ .dir = dir, .quiet = quiet };
	buf_init(&c->line, CODE_RESULTS_LINE_MAX);
}

void code_results_release(struct code_results *c)
{
	buf_release(&c->line);
}

/* Base64 without its line breaks. The decoder takes no line breaks, and Python's encoder writes
 * some. NULL memory counts as a malformed result. */
static ssize_t code_results_decode(const char *text, uint8_t *ret)
{
	OWN_MEM char *packed = malloc(strlen(text) + 1);
	size_t n = 0;

	if (packed == NULL)
		return -1;
	for (const char *c = text; *c != '\0'; c++)
		if (*c != '\n' && *c != '\r')
			packed[n++] = *c;
	return base64_decode(packed, n, ret);
}

/* A session may write results without end: once for each reason. */
static void say_once(bool *said, const char *what)
{
	if (!*said)
		(void)fprintf(stderr, "cordon: %s\n", what);
	*said = true;
}

/* Both bounds are for the whole command. A result that does not fit is left out, and later
 * smaller ones may still fit. */
static bool has_room(struct code_results *c, size_t n)
{
	if (c->files < CODE_RESULTS_FILES_MAX && n <= CODE_RESULTS_BYTES_MAX - c->bytes)
		return true;
	say_once(&c->said_full, "--save-dir: no more results are saved: at most 1000 files, and "
				"1 GiB of them together");
	return false;
}

/* The number in the name is that of the result, so that several forms of one result share it. An
 * existing file is replaced. */
static int code_results_save(struct code_results *c, const char *ending, const void *bytes,
			     size_t n, struct err *e)
{
	char path[PATH_MAX];
	struct saved_file f;
	int result;

	if (!has_room(c, n))
		return 0;
	c->files++;
	c->bytes += n;
	if ((size_t)snprintf(path, sizeof(path), "%s/result-%u.%s", c->dir, c->n, ending) >=
	    sizeof(path))
		return err_set(e, ERR_INVALID, "--save-dir: the path is too long");
	if (saved_file_open(&f, path, e) < 0)
		return -1;
	result = saved_file_write(&f, bytes, n, e);
	if (result == 0)
		result = saved_file_commit(&f, 0644, e);
	saved_file_release(&f);
	if (result == 0)
		(void)fprintf(stderr, "cordon: saved %s\n", path);
	return result;
}

/* One file for each known form in the result. The table's endings are what programs expect, so a
 * name never comes from the session. */
static int save_formats(struct code_results *c, const json_t *result, struct err *e)
{
	static const struct {
		const char *name, *ending;
		bool coded;
	} formats[] = { { "png", "png", true },	    { "jpeg", "jpeg", true },
			{ "pdf", "pdf", true },	    { "svg", "svg", false },
			{ "html", "html", false },  { "latex", "tex", false },
			{ "markdown", "md", false } };

	for (size_t i = 0; i < COUNT(formats); i++) {
		const char *text = member_text(result, formats[i].name, NULL);
		OWN_MEM uint8_t *bytes = NULL;
		ssize_t n;

		if (text == NULL)
			continue;
		if (!formats[i].coded) {
			if (code_results_save(c, formats[i].ending, text, strlen(text), e) < 0)
				return -1;
			continue;
		}
		bytes = malloc(BASE64_BYTES(strlen(text)) + 1);
		n = bytes == NULL ? -1 : code_results_decode(text, bytes);
		if (n >= 0 && code_results_save(c, formats[i].ending, bytes, (size_t)n, e) < 0)
			return -1;
	}
	return 0;
}

/* One line. Only results are shown here: an error of the code is already on stderr. */
static int show_line(struct code_results *c, struct err *e)
{
	/* No number of it is used: a whole one of more than 64 bits does no harm. */
	OWN_JSON *line = json_loadb(buf_text(&c->line), c->line.len,
				    JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
	const json_t *text = json_object_get(line, "text");

	if (line == NULL)
		say_once(&c->said_bad, UNREAD);
	if (strcmp(member_text(line, "type", ""), "result") != 0)
		return 0; /* an error is on stderr already */
	c->n++;
	if (json_is_string(text) && !c->quiet &&
	    (io_write_all(STDOUT_FILENO, json_string_value(text), json_string_length(text), e) <
		     0 ||
	     io_write_all(STDOUT_FILENO, "\n", 1, e) < 0))
		return -1;
	return c->dir == NULL ? 0 : save_formats(c, line, e);
}

/* Lines may arrive in any pieces. A line beyond the bound is skipped to its end, and the next
 * one counts again. */
int code_results_take(void *arg, const uint8_t *bytes, size_t n, struct err *e)
{
	struct code_results *c = arg;

	while (n > 0) {
		const uint8_t *end = memchr(bytes, '\n', n);
		size_t part = end == NULL ? n : (size_t)(end - bytes);
		struct err full;

		if (!c->too_long && buf_add(&c->line, bytes, part, &full) < 0)
			c->too_long = true;
		if (end != NULL) {
			if (c->too_long)
				say_once(&c->said_bad, UNREAD);
			else if (c->line.len > 0 && show_line(c, e) < 0)
				return -1;
			buf_clear(&c->line);
			c->too_long = false;
			part++;
		}
		bytes += part;
		n -= part;
	}
	return 0;
}
