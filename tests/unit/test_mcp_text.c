/* Goal: what a tool of MCP shows of a cell has its bound, no control characters, both ends of long
 * output and every byte of short output; and its URIs mean one thing each. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/output/output.h"
#include "daemon/output/output_record.h"
#include "front/mcptools/resource_uri.h"
#include "front/mcptools/run_results.h"
#include "lib/base/shown_text.h"
#include "support.h"

static void shows(const char *bytes, size_t n, const char *want)
{
	struct buf to = BUF_INIT(65536);

	shown_text(&to, (const uint8_t *)bytes, n);
	CHECK_STR(buf_text(&to), want);
	buf_release(&to);
}

static void escapes_are_visible(void)
{
	shows("plain \xc3\xa9\n\tx", 11, "plain \xc3\xa9\n\tx");
	shows("\x1b[2J\x07\x00\x7f", 7, "\\x1b[2J\\x07\\x00\\x7f");
	shows("\xc2\x85\xe2\x80\xae\xe2\x80\xa8", 8, "\\u0085\\u202e\\u2028");
	/* A soft hyphen, a zero width space, a tag "A" and a selector cannot be seen. */
	shows("a\xc2\xad\xe2\x80\x8b\xf3\xa0\x81\x81\xf3\xa0\x84\x80", 14,
	      "a\\u00ad\\u200b\\U000e0041\\U000e0100");
	shows("\xe2\x9d\xa4\xef\xb8\x8f \xf0\x9f\x98\x80", 11,
	      "\xe2\x9d\xa4\xef\xb8\x8f \xf0\x9f\x98\x80");
	shows("\xff\xc3(\xe2\x82", 5, "\\xff\\xc3(\\xe2\\x82");
	shows("a\r\nb\rc", 6, "a\nb\\x0dc");
	shows("\\x1b", 4, "\\x1b");
}

/* Runs of bytes that are shown alike are written at once: where they are cut must be the same. */
static void runs_are_cut_between_characters(void)
{
	static const struct {
		const char *bytes, *want;
		size_t n, max, shown;
	} cases[] = { { "\x1b\x1b\x1b\x1b", "\\x1b\\x1b", 4, 11, 2 },
		      { "ab\x1b\x01z", "ab\\x1b", 5, 9, 3 },
		      { "ab\x1b\x01z", "ab\\x1b\\x01", 5, 10, 4 },
		      { "a\xc3\xa9\xc3\xa9", "a\xc3\xa9", 5, 4, 3 },
		      { "\x1b\r\n\r\x1b", "\\x1b\n\\x0d\\x1b", 5, 13, 5 },
		      { "\xe2\x80\xae\x1b", "", 4, 5, 0 },
		      { "abc", "", 3, 0, 0 } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf to = BUF_INIT(64);

		CHECK(shown_text_head(&to, (const uint8_t *)cases[i].bytes, cases[i].n,
				      cases[i].max) == cases[i].shown);
		CHECK_STR(buf_text(&to), cases[i].want);
		buf_release(&to);
	}
}

static void bounds_hold(void)
{
	uint8_t bytes[3000];
	size_t most[] = { 0, 1, 3, 4, 5, 100, 999, 20000 };

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 13);
	for (size_t i = 0; i < COUNT(most); i++) {
		struct buf head = BUF_INIT(65536), tail = BUF_INIT(65536);
		size_t a = shown_text_head(&head, bytes, sizeof(bytes), most[i]);
		size_t b = shown_text_tail(&tail, bytes, sizeof(bytes), most[i]);

		CHECK(head.len <= most[i] && tail.len <= most[i]);
		CHECK(a <= sizeof(bytes) && b <= sizeof(bytes));
		CHECK(most[i] < 20000 || a == sizeof(bytes));
		buf_release(&head);
		buf_release(&tail);
	}
}

/* ---- excerpts of a log */

struct log {
	int fd;
	uint64_t at, offset[2];
};

static struct log new_log(void)
{
	struct log l = { .fd = memfd_create("log", MFD_CLOEXEC) };

	CHECK(l.fd >= 0);
	return l;
}

static void add(struct log *l, enum output_stream stream, const void *bytes, size_t n)
{
	unsigned i = stream == OUTPUT_STDERR;
	struct output_record r = { .len = (uint32_t)n,
				   .stream = stream,
				   .offset = stream == OUTPUT_RESULT ? 0 : l->offset[i] };

	CHECK(output_record_write(l->fd, l->at, &r) == 0);
	CHECK(pwrite(l->fd, bytes, n, (off_t)(l->at + OUTPUT_RECORD_HEAD)) == (ssize_t)n);
	l->at += OUTPUT_RECORD_HEAD + n;
	if (stream != OUTPUT_RESULT)
		l->offset[i] += n;
}

static void read_all(struct excerpt *x, struct log *l, bool whole)
{
	struct err e = { 0 };
	unsigned pieces = 0;
	int got;

	excerpt_init(x, l->fd, l->offset[0], l->offset[1], whole);
	while ((got = excerpt_piece(x, &e)) > 0)
		CHECK(++pieces < 100);
	CHECK(got == 0);
}

static void short_output_is_whole(void)
{
	struct buf out = BUF_INIT(EXCERPT_TEXT_MAX), err = BUF_INIT(EXCERPT_TEXT_MAX);
	struct log l = new_log();
	struct excerpt x;

	add(&l, OUTPUT_STDOUT, "a", 1);
	add(&l, OUTPUT_STDERR, "e\x1b", 2);
	add(&l, OUTPUT_RESULT, "{}\n", 3);
	add(&l, OUTPUT_STDOUT, "b", 1);
	read_all(&x, &l, true);
	CHECK(!excerpt_text(&x, 0, &out) && !excerpt_text(&x, 1, &err));
	CHECK_STR(buf_text(&out), "ab");
	CHECK_STR(buf_text(&err), "e\\x1b");
	CHECK(x.results.len == 3 && !x.more_results);
	buf_release(&out);
	buf_release(&err);
	excerpt_release(&x);
}

/* Numbered lines of eight bytes; whole: the log has all of them, else its end is lost. */
static void long_output(size_t record, bool whole)
{
	struct buf text = BUF_INIT(EXCERPT_TEXT_MAX);
	struct log l = new_log();
	char lines[4096];
	unsigned n = 0, last;
	struct excerpt x;

	while (l.offset[0] < 300000) {
		for (size_t i = 0; i < record; i += 8)
			(void)snprintf(lines + i, sizeof(lines) - i, "%07u\n", n++);
		add(&l, OUTPUT_STDOUT, lines, record);
		add(&l, OUTPUT_STDERR, "x", 1);
	}
	last = n - 1;
	if (!whole)
		l.offset[0] += 1000000;
	read_all(&x, &l, whole);
	CHECK(excerpt_text(&x, 0, &text));
	CHECK(text.len <= EXCERPT_TEXT_MAX);
	CHECK(strncmp(buf_text(&text), "0000000\n0000001\n", 16) == 0);
	(void)snprintf(lines, sizeof(lines), "\n%07u\n", last);
	CHECK_STR(buf_text(&text) + text.len - 9, lines);
	CHECK(strstr(buf_text(&text), "bytes left out") != NULL);
	buf_release(&text);
	excerpt_release(&x);
}

static void long_output_has_both_ends(void)
{
	long_output(8, true);
	long_output(4088, true);
	long_output(8, false);
	long_output(4088, false);
}

static void binary_output_has_its_bound(void)
{
	struct buf text = BUF_INIT(EXCERPT_TEXT_MAX);
	struct log l = new_log();
	uint8_t zeros[4096] = { 0 };
	struct excerpt x;

	for (unsigned i = 0; i < 4; i++)
		add(&l, OUTPUT_STDOUT, zeros, sizeof(zeros));
	read_all(&x, &l, true);
	CHECK(excerpt_text(&x, 0, &text));
	CHECK(text.len <= EXCERPT_TEXT_MAX && !text.full);
	buf_release(&text);
	excerpt_release(&x);
}

/* ---- names */

static void uris_mean_one_thing(void)
{
	static const struct {
		const char *uri;
		enum resource_kind kind;
		const char *path;
	} cases[] = {
		{ "cordon://sessions/iabc", RESOURCE_SESSION, "" },
		{ "cordon://sessions/iabc/changes", RESOURCE_CHANGES, "" },
		{ "cordon://sessions/iabc/executions/exe_1/output", RESOURCE_OUTPUT, "" },
		{ "cordon://sessions/iabc/files/etc/a%20b", RESOURCE_FILE, "/etc/a b" },
		{ "cordon://sessions/iabc/files/..", RESOURCE_FILE, "/.." },
		{ "cordon://sessions/iabc/files/", RESOURCE_NONE, "" },
		{ "cordon://sessions/iabc/files/a%00b", RESOURCE_NONE, "" },
		{ "cordon://sessions/iabc/files/%zz", RESOURCE_NONE, "" },
		{ "cordon://sessions/iabc/executions/../output", RESOURCE_NONE, "" },
		{ "cordon://sessions/iabc/executions/exe_1/output/x", RESOURCE_NONE, "" },
		{ "cordon://sessions/iabc/other", RESOURCE_NONE, "" },
		{ "cordon://sessions/../x", RESOURCE_NONE, "" },
		{ "cordon://sessions/", RESOURCE_NONE, "" },
		{ "file:///etc/passwd", RESOURCE_NONE, "" },
		{ "", RESOURCE_NONE, "" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct json_span uri = { cases[i].uri, strlen(cases[i].uri) };
		struct resource_uri u;

		resource_uri_read(uri, &u);
		CHECK_CASE(cases[i].uri, u.kind == cases[i].kind);
		CHECK_CASE(cases[i].uri,
			   u.kind != RESOURCE_FILE || strcmp(u.path, cases[i].path) == 0);
	}
}

static void paths_come_back(void)
{
	char uri[RESOURCE_URI_MAX], all[256] = "/";
	struct resource_uri u;

	for (int i = 1; i < 255; i++)
		all[i] = (char)i;
	CHECK(resource_uri_file("iabc", all, uri));
	resource_uri_read((struct json_span){ uri, strlen(uri) }, &u);
	CHECK(u.kind == RESOURCE_FILE);
	CHECK_STR(u.path, all);
	CHECK(!resource_uri_file("iabc", "relative", uri));
}

static void kinds_of_files(void)
{
	CHECK_STR(file_kind_image((const uint8_t *)"\x89PNG\r\n\x1a\nrest", 12), "image/png");
	CHECK(file_kind_image((const uint8_t *)"\x89PNG", 4) == NULL);
	CHECK(file_kind_image(NULL, 0) == NULL);
	CHECK(!file_kind_is_binary((const uint8_t *)"text \xc3\xa9", 7));
	CHECK(file_kind_is_binary((const uint8_t *)"a\0b", 3));
	CHECK(file_kind_is_binary((const uint8_t *)"\xff\xfe\xfd", 3));
	CHECK(!file_kind_is_binary(NULL, 0));
}

/* Each piece of results has its bound, whatever the lines are, and all of them are looked at. */
static void results_come_in_pieces(void)
{
	struct buf lines = BUF_INIT(RUN_RESULTS_BYTES);
	struct run_results r;
	unsigned pieces = 1;
	struct json j;

	for (unsigned i = 0; i < 900; i++)
		buf_printf(&lines,
			   "{\"type\":\"result\",\"text\":\"%u\",\"png\":\"aGVsbG8=\"%1500s}\n", i,
			   "");
	buf_put_text(&lines, "nonsense\n{\"type\":\"error\",\"name\":\"E\"}\n");
	run_results_init(&r, &lines, false);
	for (size_t before = 0; run_results_piece(&r); before = r.at, pieces++)
		CHECK(r.at - before <= RUN_RESULTS_PIECE + 2000);
	CHECK(pieces >= 20 && r.at == lines.len && r.n == 900);
	CHECK(r.nimages == RUN_RESULTS_IMAGES && r.images[3].n == 5);
	CHECK(memcmp(r.images[3].bytes, "hello", 5) == 0);
	json_init_heap(&j, 4U << 20);
	json_open(&j, NULL, '{');
	run_results_write(&r, &j);
	CHECK(json_ok(&j) && strstr(j.text, "{\"text\":\"49\"") != NULL);
	CHECK(strstr(j.text, "{\"text\":\"50\"") == NULL);
	CHECK(strstr(j.text, "\"more_results\":true,\"code_error\":{\"name\":\"E\"") != NULL);
	json_release(&j);
	run_results_release(&r);
	buf_clear(&lines);
	for (unsigned i = 0; i < 5000; i++)
		buf_put_text(&lines, "x\n");
	run_results_init(&r, &lines, false);
	while (run_results_piece(&r))
		;
	CHECK(r.nlines == 1000);
	run_results_release(&r);
	buf_release(&lines);
}

TEST_MAIN({ "escapes are visible", escapes_are_visible }, { "bounds hold", bounds_hold },
	  { "runs are cut between characters", runs_are_cut_between_characters },
	  { "short output is whole", short_output_is_whole },
	  { "long output has both ends", long_output_has_both_ends },
	  { "binary output has its bound", binary_output_has_its_bound },
	  { "URIs mean one thing", uris_mean_one_thing }, { "paths come back", paths_come_back },
	  { "kinds of files", kinds_of_files },
	  { "results come in pieces", results_come_in_pieces })
