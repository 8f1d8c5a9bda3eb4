/* Recordings of terminals: each line is an event of asciicast v2, times never fall, and what was
 * written is whole, however it was divided into pieces. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/rest/cast.h"
#include "test.h"

#define BIG (1U << 20)

struct seen {
	char out[65536], in[4096], sizes[256], marks[256];
	double last;
	unsigned events;
};

static void add(char *to, size_t cap, const char *text)
{
	size_t n = strlen(to);

	CHECK(n + strlen(text) < cap);
	memcpy(to + n, text, strlen(text) + 1);
}

/* As a strict player reads it. */
static struct seen *play(const char *text, size_t len)
{
	static struct seen s;

	s = (struct seen){ .last = 0 };
	CHECK(len == 0 || text[len - 1] == '\n');
	for (const char *at = text; at < text + len;) {
		size_t n = strcspn(at, "\n");
		json_t *line = json_loadb(at, n, 0, NULL);
		const char *kind, *what;

		CHECK(json_is_array(line) && json_array_size(line) == 3);
		CHECK(json_is_real(json_array_get(line, 0)) &&
		      json_real_value(json_array_get(line, 0)) >= s.last);
		s.last = json_real_value(json_array_get(line, 0));
		kind = json_string_value(json_array_get(line, 1));
		what = json_string_value(json_array_get(line, 2));
		CHECK(kind != NULL && what != NULL && strlen(kind) == 1);
		switch (kind[0]) {
		case 'o':
			add(s.out, sizeof(s.out), what);
			break;
		case 'i':
			add(s.in, sizeof(s.in), what);
			break;
		case 'r':
			add(s.sizes, sizeof(s.sizes), what);
			add(s.sizes, sizeof(s.sizes), " ");
			break;
		default:
			CHECK(kind[0] == 'm');
			add(s.marks, sizeof(s.marks), what);
		}
		s.events++;
		json_decref(line);
		at += n + 1;
	}
	return &s;
}

static void head(void)
{
	struct json j;
	json_t *o;

	json_init_heap(&j, BIG);
	cast_head(&j, 1700000000999, "132x43", "echo \"\x1b[31m\"");
	CHECK(json_ok(&j) && j.text[j.len - 1] == '\n' && memchr(j.text, '\n', j.len - 1) == NULL);
	o = json_loadb(j.text, j.len, 0, NULL);
	CHECK(json_integer_value(json_object_get(o, "version")) == 2);
	CHECK(json_integer_value(json_object_get(o, "width")) == 132);
	CHECK(json_integer_value(json_object_get(o, "height")) == 43);
	CHECK(json_integer_value(json_object_get(o, "timestamp")) == 1700000000);
	CHECK_STR(json_string_value(json_object_get(o, "title")), "echo \"\x1b[31m\"");
	json_decref(o);
	json_release(&j);
	json_init_heap(&j, BIG);
	cast_head(&j, 0, "", "");
	CHECK(strstr(j.text, "\"width\":80,\"height\":24") != NULL &&
	      strstr(j.text, "title") == NULL);
	json_release(&j);
}

static void sizes(void)
{
	static const char *const bad[] = { "",	      "x",	 "80",	  "80x",
					   "x24",     "80x24x1", "-1x2",  "0x24",
					   "4097x24", "80x0",	 "80X24", "99999999999999999999x24",
					   "80x 24" };
	unsigned cols, rows;

	CHECK(cast_size("4096x1", 6, &cols, &rows) && cols == 4096 && rows == 1);
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(!cast_size(bad[i], strlen(bad[i]), &cols, &rows));
}

static void kinds(void)
{
	struct cast c = { .tty = true, .start_ms = 5000 };
	struct seen *s;
	struct json j;

	json_init_heap(&j, BIG);
	cast_chunk(&c, &j, OUTPUT_SIZE, 5000, (const uint8_t *)"80x24", 5);
	cast_chunk(&c, &j, OUTPUT_STDOUT, 6500, (const uint8_t *)"a\nb\x1b[1m", 7);
	cast_chunk(&c, &j, OUTPUT_INPUT, 4000, (const uint8_t *)"ls\r", 3); /* the clock was set */
	cast_chunk(&c, &j, OUTPUT_RESULT, 6600, (const uint8_t *)"{}", 2);
	cast_chunk(&c, &j, OUTPUT_SIZE, 6700, (const uint8_t *)"9999999", 7);
	cast_chunk(&c, &j, OUTPUT_CUT, 7000, (const uint8_t *)"limit", 5);
	cast_end(&c, &j);
	CHECK(json_ok(&j));
	s = play(j.text, j.len);
	CHECK_STR(s->out, "a\nb\x1b[1m");
	CHECK_STR(s->in, "ls\r");
	CHECK_STR(s->sizes, "80x24 ");
	CHECK_STR(s->marks, "output cut: limit");
	CHECK(s->events == 4 && s->last > 1.99 && s->last < 2.01);
	json_release(&j);
}

/* With a terminal, and without one: then lines end as on one. */
static void any_pieces(void)
{
	static const char text[] = "plain\n\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\r\nrow\r\n\n"
				   "\xf0\x9f\x98\x80\xf0\x9f\x98\x80 end";
	static const char lines[] = "plain\r\n\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\r\nrow\r\n\r\n"
				    "\xf0\x9f\x98\x80\xf0\x9f\x98\x80 end";
	size_t n = strlen(text);

	srand(7);
	for (unsigned round = 0; round < 2000; round++) {
		struct cast c = { .tty = round % 2 == 0, .start_ms = 1 };
		struct json j;

		json_init_heap(&j, BIG);
		for (size_t at = 0, step; at < n; at += step) {
			step = 1 + (size_t)rand() % (round % 5 + 1);
			if (step > n - at)
				step = n - at;
			cast_chunk(&c, &j, OUTPUT_STDOUT, 1 + at, (const uint8_t *)text + at, step);
			/* the other stream in between changes nothing */
			if (rand() % 3 == 0)
				cast_chunk(&c, &j, OUTPUT_INPUT, 1 + at, (const uint8_t *)"i", 1);
		}
		cast_end(&c, &j);
		CHECK(json_ok(&j));
		CHECK_STR(play(j.text, j.len)->out, c.tty ? text : lines);
		json_release(&j);
	}
}

/* Bytes that are no text are shown as such, and none are held for ever. */
static void no_text(void)
{
	static const char *const pieces[][3] = {
		{ "\xf0\x9f", "x", "" },	{ "\xe2\x82", "", "" },
		{ "\x80\x80", "\xff", "\xc3" }, { "\xc3", "\xc3", "\xa4" },
		{ "\xf0", "\x9f\x98\x80", "" }, { "\xed\xa0", "\x80", "y" },
		{ "\xf0\x9f", "\x98", "z" },	{ "\xe2", "\xe2\x82\xac", "" },
	};
	static const char *const want[] = {
		"\xef\xbf\xbd\xef\xbf\xbdx",
		"\xef\xbf\xbd\xef\xbf\xbd",
		"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
		"\xef\xbf\xbd\xc3\xa4",
		"\xf0\x9f\x98\x80",
		"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdy",
		"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz",
		"\xef\xbf\xbd\xe2\x82\xac",
	};

	for (size_t i = 0; i < COUNT(pieces); i++) {
		struct cast c = { .tty = true, .start_ms = 1 };
		struct json j;

		json_init_heap(&j, BIG);
		for (unsigned k = 0; k < 3; k++)
			cast_chunk(&c, &j, OUTPUT_STDOUT, 1, (const uint8_t *)pieces[i][k],
				   strlen(pieces[i][k]));
		cast_end(&c, &j);
		CHECK(json_ok(&j));
		CHECK_STR(play(j.text, j.len)->out, want[i]);
		json_release(&j);
	}
}

TEST_MAIN({ "the first line", head }, { "sizes of terminals", sizes }, { "kinds of events", kinds },
	  { "any pieces", any_pieces }, { "bytes that are no text", no_text })
