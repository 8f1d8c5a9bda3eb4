/* Goal: what a line of the answer costs depends on its length, and not on how much text the masks
 * hold. The lines come from a cell, and are read in cordond's loop. */
#include "front/e2b/code/code_answer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test.h"

#define VALUE 65536U
#define PIECES 32
/* CPU time, which other processes do not add to. The pieces need less than a hundredth of it;
 * a pass over what is held for every line would need several times as much. */
#define CPU_MAX_MS 1500

static struct mask *m;
static struct code_answer k;
static struct buf out;
static uint8_t piece[CODE_ANSWER_PIECE];

static void begin(void)
{
	static char value[VALUE];
	const char *values[] = { value };
	const size_t lens[] = { sizeof(value) };
	struct err e;

	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[(i * i + i / 7) % 36];
	m = mask_new(values, lens, 1, NULL, 0, &e);
	CHECK(m != NULL);
	code_answer_init(&k, false);
	buf_init(&out, CODE_ANSWER_OUT_MAX);
}

static void end(void)
{
	code_answer_release(&k);
	buf_release(&out);
	mask_free(m);
}

static void feed(size_t n)
{
	code_answer_feed(&k, m, piece, n, &out);
	buf_clear(&out);
}

/* Output until both streams hold as much as they may. */
static void fill(void)
{
	static const char *const heads[] = { "{\"type\":\"stdout\",\"text\":\"",
					     "{\"type\":\"stderr\",\"text\":\"" };

	for (unsigned i = 0; i < 40; i++) {
		memset(piece, 'x', sizeof(piece));
		memcpy(piece, heads[i % 2], strlen(heads[0]));
		memcpy(piece + sizeof(piece) - 3, "\"}\n", 3);
		feed(sizeof(piece));
	}
	for (unsigned i = 0; i < 2; i++)
		CHECK(mask_stream_held(&k.lanes[i].mask) >= VALUE);
}

static uint64_t cpu_ms(void)
{
	struct timespec t;

	CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void feed_lines(const char *line)
{
	size_t n = 0, len = strlen(line);
	uint64_t from;

	begin();
	fill();
	for (; n + len <= sizeof(piece); n += len)
		memcpy(piece + n, line, len);
	from = cpu_ms();
	for (unsigned i = 0; i < PIECES; i++)
		feed(n);
	CHECK(cpu_ms() - from < CPU_MAX_MS);
	end();
}

static void empty_lines_do_not_pass_over_held_text(void)
{
	feed_lines("\n");
}

static void short_lines_do_not_pass_over_held_text(void)
{
	feed_lines("{\"type\":\"stdout\",\"text\":\"x\"}\n\n");
}

/* A result whose bytes come one by one: its own mask holds as much. */
static void single_bytes_do_not_pass_over_held_text(void)
{
	static const char head[] = "{\"type\":\"result\",\"text\":\"";
	uint64_t from;

	begin();
	memset(piece, 'x', sizeof(piece));
	memcpy(piece, head, strlen(head));
	feed(sizeof(piece));
	memset(piece, 'x', strlen(head));
	for (unsigned i = 0; i < 20; i++)
		feed(sizeof(piece));
	CHECK(mask_stream_held(&k.mask) >= VALUE);
	from = cpu_ms();
	for (unsigned i = 0; i < 4 * CODE_ANSWER_PIECE; i++)
		feed(1);
	CHECK(cpu_ms() - from < CPU_MAX_MS);
	end();
}

TEST_MAIN({ "empty lines do not pass over held text", empty_lines_do_not_pass_over_held_text },
	  { "short lines do not pass over held text", short_lines_do_not_pass_over_held_text },
	  { "single bytes do not pass over held text", single_bytes_do_not_pass_over_held_text })
