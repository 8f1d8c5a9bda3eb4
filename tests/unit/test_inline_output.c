/* Output of executions in JSON: whole and unchanged, however it is divided into pieces. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "front/rest/inline_output.h"
#include "daemon/output/output.h"
#include "daemon/output/output_record.h"
#include "test.h"

struct log {
	int fd;
	uint64_t size;
	uint64_t written[OUTPUT_STREAMS];
};

static void say(struct log *l, enum output_stream stream, const void *bytes, size_t n)
{
	struct output_record r = { .len = (uint32_t)n,
				   .stream = stream,
				   .offset = l->written[output_index(stream)] };

	CHECK(output_record_write(l->fd, l->size, &r) == 0);
	CHECK(pwrite(l->fd, bytes, n, (off_t)(l->size + OUTPUT_RECORD_HEAD)) == (ssize_t)n);
	l->size += OUTPUT_RECORD_HEAD + n;
	l->written[output_index(stream)] += n;
}

static struct log new_log(void)
{
	struct log l = { .fd = memfd_create("log", MFD_CLOEXEC) };

	CHECK(l.fd >= 0);
	return l;
}

/* Writes all of it; how many pieces that took, and by how much one of them grew the JSON at most.
 */
static unsigned write_all(struct log *l, bool base64, struct json *ret, size_t *ret_longest)
{
	struct inline_output o;
	unsigned pieces = 0;
	struct err e;
	int got;

	inline_output_init(&o, l->fd, base64);
	json_init_heap(ret, INLINE_OUTPUT_JSON_MAX + 4096);
	json_open(ret, NULL, '{');
	*ret_longest = 0;
	do {
		size_t before = ret->len;

		got = inline_output_piece(&o, ret, &e);
		CHECK(got >= 0);
		pieces++;
		if (ret->len - before > *ret_longest)
			*ret_longest = ret->len - before;
	} while (got > 0);
	json_close(ret, '}');
	CHECK(json_ok(ret));
	inline_output_release(&o);
	return pieces;
}

static void short_output_is_one_piece(void)
{
	struct log l = new_log();
	size_t longest;
	struct json j;

	say(&l, OUTPUT_STDOUT, "a", 1);
	say(&l, OUTPUT_STDERR, "\0", 1);
	say(&l, OUTPUT_STDOUT, "b\n", 2);
	CHECK(write_all(&l, false, &j, &longest) == 1);
	CHECK(strcmp(j.text, "{\"stdout\":\"ab\\n\",\"stderr\":\"\\u0000\","
			     "\"inline_truncated\":false}") == 0);
	json_release(&j);
}

static void nothing_is_one_piece(void)
{
	struct log l = { .fd = -1 };
	size_t longest;
	struct json j;

	CHECK(write_all(&l, true, &j, &longest) == 1);
	CHECK(strcmp(j.text, "{\"stdout_base64\":\"\",\"stderr_base64\":\"\","
			     "\"inline_truncated\":false}") == 0);
	json_release(&j);
}

static void long_output_is_bounded_in_each_piece(void)
{
	char *zeros = calloc(1, INLINE_OUTPUT_MAX + 1);
	struct log l = new_log();
	size_t longest;
	struct json j;

	CHECK(zeros != NULL);
	say(&l, OUTPUT_STDOUT, zeros, INLINE_OUTPUT_MAX + 1);
	say(&l, OUTPUT_STDERR, zeros, INLINE_OUTPUT_MAX);
	CHECK(write_all(&l, false, &j, &longest) >=
	      2 * 2 * INLINE_OUTPUT_MAX / INLINE_OUTPUT_PIECE);
	CHECK(longest <= 6 * INLINE_OUTPUT_PIECE + 128);
	CHECK(j.len > 2 * 6 * INLINE_OUTPUT_MAX && strstr(j.text, "\"inline_truncated\":true}"));
	json_release(&j);
	free(zeros);
}

static void many_records_are_read_in_pieces(void)
{
	struct log l = new_log();
	size_t longest;
	struct json j;

	for (int i = 0; i < 3 * INLINE_OUTPUT_RECORDS; i++)
		say(&l, OUTPUT_STDOUT, "x", 1);
	CHECK(write_all(&l, false, &j, &longest) > 3);
	json_release(&j);
}

/* Text whose characters lie across the ends of pieces at every offset, and bytes that are none. */
static void pieces_do_not_show(void)
{
	static const char unit[] =
		"\xf0\x9f\x98\x80\xe2\x82\xac\x80\x80\x80\x80\xc3\xa4\xf0\x9f\xff";
	size_t n = 300000, longest;
	char *text = malloc(n);
	struct json whole, j;
	struct log l;

	CHECK(text != NULL);
	for (size_t shift = 0; shift < sizeof(unit) - 1; shift++) {
		for (size_t i = 0; i < n; i++)
			text[i] = unit[(i + shift) % (sizeof(unit) - 1)];
		l = new_log();
		say(&l, OUTPUT_STDERR, text, n);
		(void)write_all(&l, false, &j, &longest);
		json_init_heap(&whole, INLINE_OUTPUT_JSON_MAX);
		json_open(&whole, NULL, '{');
		json_text(&whole, "stdout", "");
		json_bytes(&whole, "stderr", text, n);
		json_bool(&whole, "inline_truncated", false);
		json_close(&whole, '}');
		CHECK(whole.len == j.len && memcmp(whole.text, j.text, j.len) == 0);
		json_release(&whole);
		json_release(&j);
	}
	free(text);
}

/* Padding only at the end. */
static void base64_is_one_text(void)
{
	size_t n = 2 * INLINE_OUTPUT_PIECE + 4, longest;
	char *zeros = calloc(1, n);
	struct log l = new_log();
	struct json j;

	CHECK(zeros != NULL);
	say(&l, OUTPUT_STDOUT, "x", 1);
	say(&l, OUTPUT_STDERR, zeros, n);
	(void)write_all(&l, true, &j, &longest);
	CHECK(strstr(j.text, "{\"stdout_base64\":\"eA==\",\"stderr_base64\":\"AAAA") == j.text);
	CHECK(strcspn(j.text + 41, "=") == (n + 2) / 3 * 4 - 2);
	CHECK(strstr(j.text, "AAAA==\",\"inline_truncated\":false}") != NULL);
	json_release(&j);
	free(zeros);
}

static void say_line(struct log *l, const char *line)
{
	say(l, OUTPUT_RESULT, line, strlen(line));
}

/* Hostile lines are left out and counted; others are as they were, with stdout beside them. */
static void results_are_strict(void)
{
	struct log l = new_log();
	struct inline_output o;
	struct json j;
	struct err e;
	char deep[400];

	memset(deep, '[', 100);
	deep[100] = '\n';
	deep[101] = '\0';
	say(&l, OUTPUT_STDOUT, "out", 3);
	say_line(&l, "{\"type\":\"number_of_executions\",\"execution_count\":7}\n{\"type\":\"res");
	say_line(&l, "ult\",\"text\":\"\\u00fc\"}\n\nnonsense\n[1]\n{\"type\":\"other\"}\n");
	say_line(&l, deep);
	say_line(&l,
		 "{\"type\":\"result\",\"text\":\"\xff\"}\n{\"type\":\"error\",\"name\":\"E\"}\n");
	say_line(&l, "{\"type\":\"error\",\"name\":\"second\"}\n{\"type\":\"result\"");
	inline_output_init(&o, l.fd, false);
	o.with_results = true;
	json_init_heap(&j, INLINE_OUTPUT_JSON_MAX + 4096);
	json_open(&j, NULL, '{');
	CHECK(inline_output_piece(&o, &j, &e) == 0);
	json_close(&j, '}');
	CHECK(json_ok(&j));
	CHECK(strcmp(j.text,
		     "{\"stdout\":\"out\",\"stderr\":\"\",\"inline_truncated\":false,"
		     "\"results\":[{\"type\":\"result\",\"text\":\"\\u00fc\"}],"
		     "\"results_dropped\":7,\"code_error\":{\"type\":\"error\",\"name\":\"E\"},"
		     "\"execution_count\":7}") == 0);
	inline_output_release(&o);
	json_release(&j);
}

/* More than the bound: what is whole is shown. */
static void results_are_bounded(void)
{
	static char line[1 << 20];
	struct log l = new_log();
	struct inline_output o;
	struct json j;
	struct err e;
	unsigned pieces = 0;
	int got;

	memset(line, 'x', sizeof(line) - 1);
	memcpy(line, "{\"type\":\"result\",\"text\":\"", 25);
	memcpy(line + sizeof(line) - 4, "\"}\n", 4);
	for (int i = 0; i < 12; i++)
		say_line(&l, line);
	inline_output_init_results(&o, fcntl(l.fd, F_DUPFD_CLOEXEC, 0));
	json_init_heap(&j, RESULT_VIEW_JSON_MAX);
	json_open(&j, NULL, '{');
	do {
		got = inline_output_piece(&o, &j, &e);
		pieces++;
	} while (got > 0);
	json_close(&j, '}');
	CHECK(got == 0 && json_ok(&j) && pieces > 8 && j.len < RESULT_VIEW_MAX + 200);
	CHECK(strstr(j.text, "\"results_dropped\":1,") != NULL);
	inline_output_release(&o);
	json_release(&j);
	(void)close(l.fd);
}

/* How many pieces it takes to write the results; checks that the text is part of them. */
static unsigned results_pieces(struct log *l, const char *part)
{
	struct inline_output o;
	struct json j;
	struct err e;
	unsigned pieces = 0;
	int got;

	inline_output_init_results(&o, l->fd);
	json_init_heap(&j, RESULT_VIEW_JSON_MAX);
	json_open(&j, NULL, '{');
	do {
		got = inline_output_piece(&o, &j, &e);
		pieces += o.read;
	} while (got > 0);
	json_close(&j, '}');
	CHECK(got == 0 && json_ok(&j) && strstr(j.text, part) != NULL);
	CHECK(o.results.lines.data == NULL); /* nothing is held while the answer is sent */
	inline_output_release(&o);
	json_release(&j);
	return pieces;
}

/* One line may be all that there is: it is checked in pieces, too. */
static void a_long_line_takes_many_pieces(void)
{
	size_t n = RESULT_VIEW_MAX - 64, at;
	char *line = malloc(n + 80);
	struct log l = new_log();

	CHECK(line != NULL);
	at = (size_t)snprintf(line, 16, "{\"a\":[1");
	for (; at < n; at += 2)
		memcpy(line + at, ",1", 2);
	at += (size_t)snprintf(line + at, 64, "],\"type\":\"result\"}\n");
	say(&l, OUTPUT_RESULT, line, at);
	CHECK(results_pieces(&l, "\"results_dropped\":0,") >= n / RESULT_VIEW_PIECE);
	free(line);
}

/* Each line has a cost of its own. */
static void many_short_lines_take_many_pieces(void)
{
	size_t n = 1 << 20;
	char *lines = malloc(n);
	struct log l = new_log();

	CHECK(lines != NULL);
	for (size_t i = 0; i < n; i += 2)
		memcpy(lines + i, "x\n", 2);
	say(&l, OUTPUT_RESULT, lines, n);
	CHECK(results_pieces(&l, "\"results_dropped\":524288,") > 4 * n / RESULT_VIEW_PIECE);
	free(lines);
}

/* Lines with what some clients' parsers refuse, and the nearest that all accept. */
static void results_can_be_read_by_all_clients(void)
{
	static const struct {
		const char *value;
		bool shown;
	} values[] = {
		{ "\"\\ud800\"", false },
		{ "\"\\ude00\\ud83d\"", false },
		{ "\"\\ud83dx\"", false },
		{ "\"\\ud83d\\u0041\"", false },
		{ "{\"\\udfff\":1}", false },
		{ "\"\\ud83d\\ude00\\\\ud800\"", true },
		{ "1e999999", false },
		{ "[-1.5E+309]", false },
		{ "1.7976931348623157e308", true },
		{ "0.0001e310", true },
		{ "1e-999999", true },
		{ "1267650600228229401496703205376", true },
		{ "01", false },
		{ "1.", false },
		{ "-", false },
		{ "[1,]", false },
		{ "{\"a\":1,}", false },
		{ "{\"a\" : [ { } , [] , null ] }", true },
		{ "[}", false },
		{ "tru", false },
		{ "\"\\x41\"", false },
		{ "\"a\tb\"", false },
		{ "1} {", false },
	};
	char line[200], want[40];

	for (size_t i = 0; i < COUNT(values); i++) {
		struct log l = new_log();

		(void)snprintf(line, sizeof(line), "{\"x\":%s,\"type\":\"result\"}\n",
			       values[i].value);
		(void)snprintf(want, sizeof(want), "\"results_dropped\":%d,", !values[i].shown);
		say_line(&l, line);
		(void)results_pieces(&l, want);
	}
}

TEST_MAIN({ "short output is one piece", short_output_is_one_piece },
	  { "nothing is one piece", nothing_is_one_piece },
	  { "long output is bounded in each piece", long_output_is_bounded_in_each_piece },
	  { "many records are read in pieces", many_records_are_read_in_pieces },
	  { "pieces do not show", pieces_do_not_show },
	  { "base64 is one text", base64_is_one_text },
	  { "results are strict", results_are_strict },
	  { "results are bounded", results_are_bounded },
	  { "a long line takes many pieces", a_long_line_takes_many_pieces },
	  { "many short lines take many pieces", many_short_lines_take_many_pieces },
	  { "results can be read by all clients", results_can_be_read_by_all_clients })
