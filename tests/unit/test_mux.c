/* Goal: what mux.h promises of single streams. That no byte is lost in any order of operations is
 * shown by fuzz_mux.c, whose model runs as a test, too. */
#include "lib/wire/mux.h"

#include <errno.h>
#include <stdbool.h>

#include "support.h"

static struct mux shim, guest;
static uint8_t pipe_bytes[2][1 << 20];
static size_t pipe_len[2];
static size_t left[2][16]; /* what fill() still has, by side and number */
static bool ends[2][16];

static ssize_t fill(void *arg, uint16_t number, void *stream_arg, uint8_t *to, size_t max)
{
	size_t side = (size_t)(uintptr_t)arg,
	       n = left[side][number] < max ? left[side][number] : max;

	if (n == 0)
		return ends[side][number] ? -1 : 0;
	memset(to, number, n);
	left[side][number] -= n;
	return (ssize_t)n;
}

static void begin(void)
{
	mux_init(&shim, MUX_SHIM, 1024, fill, (void *)0);
	mux_init(&guest, MUX_GUEST, 1024, fill, (void *)1);
}

static size_t write_all(struct mux *m, size_t side)
{
	size_t n, frames = 0;

	while ((n = mux_write(m, pipe_bytes[side] + pipe_len[side],
			      sizeof(pipe_bytes[side]) - pipe_len[side])) > 0) {
		pipe_len[side] += n;
		frames++;
	}
	return frames;
}

/* The next event of what this side has written, at the other one. */
static struct mux_event next(struct mux *to, size_t from)
{
	struct mux_event v;
	struct err e = { 0 };
	int took = mux_read(to, pipe_bytes[from], pipe_len[from], &v, &e);

	if (took < 0)
		printf("# %s\n", e.msg);
	CHECK(took > 0);
	pipe_len[from] -= (size_t)took;
	memmove(pipe_bytes[from], pipe_bytes[from] + took, pipe_len[from]);
	return v;
}

static void sends_with_credit_only(void)
{
	uint16_t n;
	struct err e;
	size_t got = 0;

	begin();
	n = mux_announce(&guest, MUX_OUT, NULL);
	CHECK(n == 1 && mux_accept(&shim, n, MUX_IN, NULL, &e) == 0);
	left[1][n] = 3 * MUX_WINDOW;
	mux_want(&guest, n);
	CHECK(write_all(&guest, 1) == MUX_WINDOW / MUX_FILL_MAX);
	while (pipe_len[1] > 0) {
		struct mux_event v = next(&shim, 1);

		CHECK(v.kind == MUX_ON_DATA && v.number == n && v.len == MUX_FILL_MAX);
		got += v.len;
	}
	CHECK(got == MUX_WINDOW);
	mux_consumed(&shim, n, MUX_CREDIT_STEP - 1);
	CHECK(write_all(&shim, 0) == 0); /* not worth a frame yet */
	mux_consumed(&shim, n, 1);
	CHECK(write_all(&shim, 0) == 1);
	CHECK(next(&guest, 0).kind == MUX_ON_NOTHING);
	CHECK(write_all(&guest, 1) == MUX_CREDIT_STEP / MUX_FILL_MAX);
}

static size_t aside; /* what claim() may take */

static size_t claim(void *arg, uint16_t number, void *stream_arg, size_t max)
{
	size_t n = aside < max ? aside : max;

	aside -= n;
	return n;
}

/* Claimed bytes are behind the head that was written, use credit, and go before others. */
static void leaves_claimed_bytes_to_the_caller(void)
{
	uint8_t *to = pipe_bytes[1];
	struct mux_event v;
	struct err e;
	uint16_t n;

	begin();
	mux_set_claim(&guest, claim);
	n = mux_announce(&guest, MUX_OUT, NULL);
	CHECK(mux_accept(&shim, n, MUX_IN, NULL, &e) == 0);
	aside = MUX_DATA_MAX + 5;
	left[1][n] = 7;
	mux_want(&guest, n);
	for (size_t i = 0; i < 2; i++) {
		pipe_len[1] = mux_write(&guest, to, MUX_FRAME_MAX);
		CHECK(pipe_len[1] == FRAME_HEAD && guest.claimed == (i == 0 ? MUX_DATA_MAX : 5));
		memset(to + FRAME_HEAD, 'c', guest.claimed);
		CHECK(mux_read(&shim, to, FRAME_HEAD + guest.claimed - 1, &v, &e) == 0);
		pipe_len[1] += guest.claimed;
		v = next(&shim, 1);
		CHECK(v.kind == MUX_ON_DATA && v.len == guest.claimed && v.bytes[0] == 'c');
	}
	CHECK(write_all(&guest, 1) == 1 && guest.claimed == 0);
	CHECK(next(&shim, 1).len == 7);
	aside = left[1][n] = MUX_WINDOW;
	mux_want(&guest, n);
	for (size_t sent = MUX_DATA_MAX + 5 + 7; sent < MUX_WINDOW; sent += guest.claimed)
		CHECK(mux_write(&guest, to, MUX_FRAME_MAX) == FRAME_HEAD && guest.claimed > 0);
	CHECK(mux_write(&guest, to, MUX_FRAME_MAX) == 0); /* no credit */
	left[1][n] = aside = 0;
}

static void ends_by_itself(void)
{
	struct err e;
	struct mux_event v;
	uint16_t n;

	begin();
	n = mux_announce(&guest, MUX_OUT, &e);
	CHECK(mux_accept(&shim, n, MUX_IN, &v, &e) == 0);
	left[1][n] = 5;
	ends[1][n] = true;
	mux_want(&guest, n);
	CHECK(write_all(&guest, 1) == 3); /* DATA, EOF, RESET */
	CHECK(next(&shim, 1).len == 5 && next(&shim, 1).kind == MUX_ON_EOF);
	v = next(&shim, 1);
	CHECK(v.kind == MUX_ON_RESET && v.was_clean && v.arg == &v);
	CHECK(mux_announce(&guest, MUX_OUT, NULL) == 3); /* 1 is not free yet */
	CHECK(write_all(&shim, 0) == 1);
	v = next(&guest, 0);
	CHECK(v.kind == MUX_ON_RESET && v.was_clean && v.arg == &e);
	CHECK(mux_announce(&guest, MUX_OUT, NULL) == 1);
}

static const struct mux_open to_port = { .kind = MUX_DIAL, .port = 80, .credit = 1000 };

static void open_is_answered(void)
{
	uint16_t n;
	struct mux_event v;

	begin();
	n = mux_open(&shim, &to_port, &v);
	left[0][n] = left[1][n] = 2000;
	mux_want(&shim, n);
	CHECK(n == 2 && write_all(&shim, 0) == 1);
	v = next(&guest, 0);
	CHECK(v.kind == MUX_ON_OPEN && v.open.port == 80 && v.open.kind == MUX_DIAL);
	mux_want(&guest, n);
	CHECK(write_all(&guest, 1) == 0); /* nothing before the answer */
	mux_answer(&guest, n, 500);
	CHECK(write_all(&guest, 1) == 2); /* CREDIT, 1000 bytes */
	CHECK(next(&shim, 1).kind == MUX_ON_OPENED && next(&shim, 1).len == 1000);
	CHECK(write_all(&shim, 0) == 1 && next(&guest, 0).len == 500);
}

static void open_is_refused(void)
{
	uint16_t n;
	struct mux_event v;

	begin();
	n = mux_open(&shim, &to_port, &v);
	CHECK(write_all(&shim, 0) == 1 && next(&guest, 0).kind == MUX_ON_OPEN);
	mux_reset(&guest, n, ECONNREFUSED);
	CHECK(write_all(&guest, 1) == 1);
	v = next(&shim, 1);
	CHECK(v.kind == MUX_ON_RESET && v.sys == ECONNREFUSED && !v.was_clean);
	CHECK(write_all(&shim, 0) == 1 && next(&guest, 0).kind == MUX_ON_NOTHING);
	CHECK(mux_open(&shim, &to_port, NULL) == n);
}

static void control_goes_first(void)
{
	struct err e;
	uint8_t frame[MUX_FRAME_MAX];

	begin();
	for (int i = 0; i < 5; i++) {
		uint16_t n = mux_announce(&guest, MUX_OUT, NULL);

		left[1][n] = 2 * MUX_FILL_MAX;
		mux_want(&guest, n);
	}
	mux_reset(&guest, 9, 0);
	CHECK(mux_write(&guest, frame, sizeof(frame)) == FRAME_HEAD + 4 && frame[6] == 9);
	for (int i = 0; i < 8; i++) { /* in turn */
		CHECK(mux_write(&guest, frame, sizeof(frame)) == MUX_FRAME_MAX);
		CHECK(frame[6] == 1 + 2 * (i % 4));
	}
	CHECK(mux_accept(&guest, 2, MUX_OUT, NULL, &e) == 0);
	CHECK(mux_write(&guest, frame, MUX_FRAME_MAX - 1) == 0);
}

/* Frames that break the protocol, at a shim with: 1 in, 3 out, 2 opened and not answered. */
static const struct {
	const char *name, *bytes;
	size_t len;
} wrong[] = {
#define CASE(name, bytes)                      \
	{                                      \
		name, bytes, sizeof(bytes) - 1 \
	}
	CASE("no such stream", "\1\0\0\0\xc0\0\5\0x"),
	CASE("empty DATA", "\0\0\0\0\xc0\0\1\0"),
	CASE("too long", "\1\0\4\0\xc0\0\1\0"),
	CASE("message too long", "\1\4\0\0\1\0\0\0"),
	CASE("DATA on stream 0", "\1\0\0\0\xc0\0\0\0x"),
	CASE("DATA in the other direction", "\1\0\0\0\xc0\0\3\0x"),
	CASE("EOF in the other direction", "\0\0\0\0\xc1\0\3\0"),
	CASE("EOF with a body", "\1\0\0\0\xc1\0\1\0x"),
	CASE("CREDIT in the other direction", "\4\0\0\0\xc2\0\1\0\1\0\0\0"),
	CASE("CREDIT of nothing", "\4\0\0\0\xc2\0\3\0\0\0\0\0"),
	CASE("CREDIT over the maximum", "\4\0\0\0\xc2\0\3\0\0\0\0\1"),
	CASE("RESET out of range", "\4\0\0\0\xc3\0\1\0\0\x10\0\0"),
	CASE("RESET of three bytes", "\3\0\0\0\xc3\0\1\0\0\0\0"),
	CASE("DATA before the answer", "\1\0\0\0\xc0\0\2\0x"),
	CASE("unknown type", "\0\0\0\0\xc9\0\1\0"),
	CASE("OPEN of a number in use", "\x28\0\0\0\xc4\0\1\0\1\4\x50\0\1\0\0\0"
					"\0\0\0\0\0\0\0\0\x7f\0\0\1\0\0\0\0"
					"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	CASE("OPEN of a number of the shim", "\x28\0\0\0\xc4\0\4\0\1\4\x50\0\1\0\0\0"
					     "\0\0\0\0\0\0\0\0\x7f\0\0\1\0\0\0\0"
					     "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	CASE("OPEN without a port", "\x28\0\0\0\xc4\0\5\0\1\4\0\0\1\0\0\0"
				    "\0\0\0\0\0\0\0\0\x7f\0\0\1\0\0\0\0"
				    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	CASE("OPEN with too much address", "\x28\0\0\0\xc4\0\5\0\1\4\x50\0\1\0\0\0"
					   "\0\0\0\0\0\0\0\0\x7f\0\0\1\1\0\0\0"
					   "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
};

static void refuses_what_is_wrong(void)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint8_t *exact = exact_copy(wrong[i].bytes, wrong[i].len), out[MUX_CONTROL_MAX];
		struct mux_event v;
		struct err e = { 0 };

		begin();
		CHECK(mux_accept(&shim, 1, MUX_IN, NULL, &e) == 0);
		CHECK(mux_accept(&shim, 3, MUX_OUT, NULL, &e) == 0);
		CHECK(mux_open(&shim, &to_port, NULL) == 2);
		CHECK(mux_write(&shim, out, sizeof(out)) > 0);
		CHECK_CASE(wrong[i].name, mux_read(&shim, exact, wrong[i].len, &v, &e) == -1);
		CHECK_CASE(wrong[i].name, e.msg[0] != '\0');
		free(exact);
	}
}

static void refuses_wrong_announcements(void)
{
	struct err e;

	begin();
	CHECK(mux_accept(&shim, 1, MUX_IN, NULL, &e) == 0);
	CHECK(mux_accept(&shim, 1, MUX_IN, NULL, &e) == -1);
	CHECK(mux_accept(&shim, 2, MUX_IN, NULL, &e) == -1);
	CHECK(mux_accept(&shim, 0, MUX_IN, NULL, &e) == -1);
	CHECK(mux_accept(&shim, MUX_NUMBERS + 1, MUX_IN, NULL, &e) == -1);
}

static void numbers_run_out(void)
{
	unsigned n = 0;

	begin();
	CHECK(mux_numbers_left(&guest) == MUX_NUMBERS / 2);
	while (mux_announce(&guest, MUX_OUT, NULL) != 0)
		n++;
	CHECK(n == MUX_NUMBERS / 2 && mux_numbers_left(&guest) == 0);
	begin();
	for (n = 0; mux_open(&shim, &to_port, NULL) != 0; n++)
		;
	CHECK(n == MUX_NUMBERS / 2 - 1 && mux_numbers_left(&shim) == 0);
	CHECK(mux_open(&shim, &to_port, NULL) == 0);
}

TEST_MAIN({ "nothing is sent without credit", sends_with_credit_only },
	  { "claimed bytes are left to the caller", leaves_claimed_bytes_to_the_caller },
	  { "a stream whose bytes were all sent ends by itself", ends_by_itself },
	  { "OPEN is answered by credit", open_is_answered },
	  { "OPEN is answered by RESET", open_is_refused },
	  { "control frames go first, bytes in turn", control_goes_first },
	  { "frames that break the protocol are refused", refuses_what_is_wrong },
	  { "announced numbers are checked", refuses_wrong_announcements },
	  { "numbers run out", numbers_run_out })
