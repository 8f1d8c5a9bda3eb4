/* Two things. (1) Any bytes at an end of a mux that has streams of every kind: each is read as one
 * frame or refused, and what an end may receive is never more than it gave credit for. (2) Two ends
 * joined by two queues, driven by the input: open, announce, send, end, take, give up, move some
 * bytes. No byte is lost, repeated or out of order, no end finds fault with the other, and when
 * both have given everything up, all numbers are free. */
#include "fuzz.h"

#include <stdbool.h>

#include "lib/wire/guest_msg.h"
#include "lib/wire/mux.h"

#define PIPE_MAX (4U << 20)
#define SLOTS 64
#define USES_MAX 256

unsigned long fuzz_accepted;

/* What one end knows of the stream that has a number now. A number is used again and again, and the
 * end that chose it may be one use ahead. */
struct half {
	bool used, over;
	unsigned use;
	uint64_t to_send; /* bytes that it still has; then the end */
	bool ends;
	uint64_t sent, received, consumed;
};

struct end {
	struct mux *mux;
	uint8_t *out;		     /* bytes on the way to the other end: out[out_at .. out_len) */
	uint8_t aside[MUX_DATA_MAX]; /* what claim() took */
	size_t out_at, out_len;
	struct half halves[SLOTS];	 /* by number */
	uint64_t total[SLOTS][USES_MAX]; /* bytes before EOF, by number and use */
};

struct model {
	struct end ends[2];
};

static uint8_t byte_at(uint16_t number, const struct half *h, int sender, uint64_t at)
{
	return (uint8_t)(at * 31 + (at >> 8) * 7 + number * 3U + h->use * 11 + (unsigned)sender);
}

struct filler {
	struct model *model;
	int side;
};

static ssize_t fill(void *arg, uint16_t number, void *stream_arg, uint8_t *to, size_t max)
{
	const struct filler *who = arg;
	struct end *end = &who->model->ends[who->side];
	struct half *h = &end->halves[number];
	const struct half *peer = &who->model->ends[!who->side].halves[number];
	size_t n = h->to_send < max ? (size_t)h->to_send : max;

	assert(max > 0 && max <= MUX_DATA_MAX && h->used && !h->over);
	if (n == 0) {
		end->total[number][h->use] = h->sent;
		return h->ends ? -1 : 0;
	}
	for (size_t i = 0; i < n; i++)
		to[i] = byte_at(number, h, who->side, h->sent + i);
	h->sent += n;
	h->to_send -= n;
	/* Never more on the way than one window beyond what the receiver has consumed. */
	assert(h->sent - (peer->use == h->use ? peer->consumed : 0) <= MUX_WINDOW);
	return (ssize_t)n;
}

/* Some streams of the guest, when they have much, as its agent does with output of programs. */
static size_t claim(void *arg, uint16_t number, void *stream_arg, size_t max)
{
	const struct filler *who = arg;
	struct end *end = &who->model->ends[who->side];
	const struct half *h = &end->halves[number];

	if (number % 4 != 1 || h->to_send < 1000)
		return 0;
	return (size_t)fill(arg, number, stream_arg, end->aside, max);
}

static void begin(struct model *m, int side, uint16_t number)
{
	struct half *h = &m->ends[side].halves[number];

	assert(number > 0 && number < SLOTS && (!h->used || h->over));
	*h = (struct half){ .used = true, .use = h->use + 1 };
}

static void on_announced(struct model *m, int side, const struct frame *f)
{
	uint16_t number = (uint16_t)(f->body[1] | f->body[2] << 8);
	struct err e;

	assert(f->len == 3);
	assert(mux_accept(m->ends[side].mux, number, (enum mux_way)f->body[0], NULL, &e) == 0);
	begin(m, side, number);
}

static void on_open(struct model *m, int side, const struct mux_event *v)
{
	begin(m, side, v->number);
	if (v->open.port % 5 == 0) {
		mux_reset(m->ends[side].mux, v->number, 111);
		m->ends[side].halves[v->number].over = true;
		return;
	}
	mux_answer(m->ends[side].mux, v->number, 1 + v->open.port * 3U);
	mux_want(m->ends[side].mux, v->number);
}

static void on_data(struct half *h, int side, const struct mux_event *v)
{
	for (size_t i = 0; i < v->len; i++)
		assert(v->bytes[i] == byte_at(v->number, h, !side, h->received + i));
	h->received += v->len;
	fuzz_accepted++;
}

static void on_event(struct model *m, int side, const struct mux_event *v)
{
	struct half *h = &m->ends[side].halves[v->number];

	if (v->kind == MUX_ON_MESSAGE) {
		on_announced(m, side, &v->message);
		return;
	}
	if (v->kind == MUX_ON_OPEN) {
		on_open(m, side, v);
		return;
	}
	assert(v->kind == MUX_ON_NOTHING || (h->used && !h->over));
	if (v->kind == MUX_ON_OPENED)
		mux_want(m->ends[side].mux, v->number);
	else if (v->kind == MUX_ON_DATA)
		on_data(h, side, v);
	else if (v->kind == MUX_ON_EOF)
		assert(m->ends[!side].total[v->number][h->use] == h->received);
	else if (v->kind == MUX_ON_RESET)
		h->over = true;
}

/* Lets the other end read up to max bytes of what this one has written. */
static void deliver(struct model *m, int from, size_t max)
{
	struct end *end = &m->ends[from];
	size_t have = end->out_len - end->out_at, len = have < max ? have : max, at = 0;
	uint8_t *exact = fuzz_copy(end->out + end->out_at, len);
	struct mux_event v;
	struct err e;
	int took;

	while ((took = mux_read(m->ends[!from].mux, exact + at, len - at, &v, &e)) > 0) {
		on_event(m, !from, &v);
		at += (size_t)took;
	}
	assert(took == 0);
	free(exact);
	end->out_at += at;
	if (end->out_at < end->out_len && end->out_at < PIPE_MAX / 2)
		return;
	memmove(end->out, end->out + end->out_at, end->out_len - end->out_at);
	end->out_len -= end->out_at;
	end->out_at = 0;
}

static void write_some(struct model *m, int side, unsigned frames)
{
	struct end *end = &m->ends[side];
	size_t n;

	while (frames-- > 0 && end->out_len + FRAME_HEAD + MUX_DATA_MAX <= PIPE_MAX &&
	       (n = mux_write(end->mux, end->out + end->out_len, MUX_FRAME_MAX)) > 0) {
		end->out_len += n;
		memcpy(end->out + end->out_len, end->aside, end->mux->claimed);
		end->out_len += end->mux->claimed;
	}
}

/* Is there room for one more in the model? */
static bool has_room(const struct model *m, int side)
{
	unsigned n = 0;

	for (unsigned i = 1; i < SLOTS; i++) {
		n += m->ends[side].mux->streams[i].state != 0;
		if (m->ends[side].halves[i].use >= USES_MAX - 2)
			return false;
	}
	return n < SLOTS / 3 && m->ends[side].out_len + MUX_FRAME_MAX <= PIPE_MAX;
}

static void open_one(struct model *m, int side, uint8_t arg)
{
	struct mux_open o = { .kind = side == MUX_GUEST ? MUX_TCP : MUX_DIAL,
			      .family = side == MUX_GUEST ? 4 : 0,
			      .port = (uint16_t)(arg * 37 + 1),
			      .credit = 1 + arg * 1000U };

	begin(m, side, mux_open(m->ends[side].mux, &o, NULL));
}

static void announce_one(struct model *m, int side, uint8_t arg)
{
	enum mux_way way = (enum mux_way)(1 + arg % 3);
	uint8_t *to = m->ends[side].out + m->ends[side].out_len;
	uint16_t number = mux_announce(m->ends[side].mux, way, NULL);

	begin(m, side, number);
	frame_head(to, 1, 3);
	to[FRAME_HEAD] = (uint8_t)(way == MUX_BOTH ? MUX_BOTH : MUX_BOTH - way);
	to[FRAME_HEAD + 1] = (uint8_t)number;
	to[FRAME_HEAD + 2] = (uint8_t)(number >> 8);
	m->ends[side].out_len += FRAME_HEAD + 3;
}

static void consume(struct end *end, uint16_t number)
{
	struct half *h = &end->halves[number];

	mux_consumed(end->mux, number, (size_t)(h->received - h->consumed));
	h->consumed = h->received;
}

static void give_up(struct end *end, uint16_t number, int sys)
{
	mux_reset(end->mux, number, sys);
	end->halves[number].over = true;
}

/* One operation of the input: what, which side, which stream, how much. */
static void operate(struct model *m, const uint8_t op[3])
{
	int side = op[0] & 1, what = op[0] >> 1 & 7;
	uint16_t number = (uint16_t)(1 + op[1] % (SLOTS - 1));
	struct half *h = &m->ends[side].halves[number];
	bool live = h->used && !h->over;

	if (what == 0 && has_room(m, side))
		open_one(m, side, op[2]);
	else if (what == 1 && has_room(m, side))
		announce_one(m, side, op[2]);
	else if ((what == 2 || what == 3) && live && !h->ends) {
		h->to_send += op[2] * ((op[0] & 0x40) != 0 ? 2000U : 20U);
		h->ends = (op[0] & 0x80) != 0;
		mux_want(m->ends[side].mux, number);
	} else if (what == 4 && live)
		consume(&m->ends[side], number);
	else if (what == 5 && live && op[2] <= 64)
		give_up(&m->ends[side], number, op[2]);
	else if (what == 6)
		write_some(m, side, op[2]);
	else if (what == 7)
		deliver(m, side, op[2] < 128 ? op[2] : op[2] * 512U);
}

static void settle(struct model *m)
{
	do {
		for (int side = 0; side < 2; side++) {
			write_some(m, side, 1000);
			deliver(m, side, PIPE_MAX);
		}
	} while (mux_has_output(m->ends[0].mux) || mux_has_output(m->ends[1].mux) ||
		 m->ends[0].out_len + m->ends[1].out_len > 0);
}

/* Every byte that was to be sent arrives once the receivers take them. */
static void drain(struct model *m)
{
	for (bool moved = true; moved;) {
		moved = false;
		settle(m);
		for (uint16_t n = 1; n < SLOTS; n++)
			for (int side = 0; side < 2; side++) {
				struct half *h = &m->ends[side].halves[n];

				if (!h->used || h->over || h->received == h->consumed)
					continue;
				consume(&m->ends[side], n);
				moved = true;
			}
	}
	for (unsigned n = 1; n < SLOTS; n++) {
		const struct half *a = &m->ends[0].halves[n], *b = &m->ends[1].halves[n];

		assert(a->used == b->used && a->use == b->use && a->over == b->over);
		if (a->used && !a->over)
			assert(a->sent == b->received && b->sent == a->received);
	}
}

static void run_model(const uint8_t *data, size_t size)
{
	static struct mux mux[2];
	static uint8_t pipes[2][PIPE_MAX];
	static struct model m;
	static struct filler who[2] = { { &m, 0 }, { &m, 1 } };

	memset(&m, 0, sizeof(m));
	for (int side = 0; side < 2; side++) {
		mux_init(&mux[side], (enum mux_side)side, 64, fill, &who[side]);
		mux_set_claim(&mux[side], side == MUX_GUEST ? claim : NULL);
		m.ends[side].mux = &mux[side];
		m.ends[side].out = pipes[side];
	}
	for (; size >= 3; data += 3, size -= 3)
		operate(&m, data);
	drain(&m);
	for (uint16_t n = 1; n < SLOTS; n++)
		for (int side = 0; side < 2; side++)
			if (m.ends[side].halves[n].used && !m.ends[side].halves[n].over)
				give_up(&m.ends[side], n, 0);
	settle(&m);
	for (unsigned n = 0; n < MUX_NUMBERS; n++)
		assert(mux[0].streams[n].state == 0 && mux[1].streams[n].state == 0);
	assert(mux[0].used == 0 && mux[1].used == 0);
}

static ssize_t fill_ones(void *arg, uint16_t number, void *stream_arg, uint8_t *to, size_t max)
{
	memset(to, 1, max);
	return (ssize_t)max;
}

static void check_message(const struct frame *f)
{
	struct guest_event v;
	struct guest_ready r;
	struct guest_hello h;
	struct err e;
	uint8_t body[GUEST_HELLO_SIZE + GUEST_TO_SHIM_MAX];

	if (guest_event_read(f, &v, &e) == 0) {
		assert(guest_event_write(&v, body) == f->len && memcmp(body, f->body, f->len) == 0);
		fuzz_accepted++;
	}
	if (guest_ready_read(f, &r, &e) == 0) {
		guest_ready_write(&r, body);
		assert(f->len == GUEST_READY_SIZE && memcmp(body, f->body, f->len) == 0);
	}
	if (guest_hello_read(f, &h, &e) == 0)
		assert(guest_hello_write(&h, body) == f->len && memcmp(body, f->body, f->len) == 0);
}

/* The shim's end, with some streams, reads whatever the input has. */
static void run_hostile(const uint8_t *data, size_t size)
{
	static struct mux m;
	struct mux_event v;
	struct err e;
	uint8_t *exact = fuzz_copy(data, size), out[MUX_FRAME_MAX];
	size_t at = 0, got = 0;
	int took;

	mux_init(&m, MUX_SHIM, GUEST_TO_SHIM_MAX, fill_ones, NULL);
	assert(mux_accept(&m, 1, MUX_IN, NULL, &e) == 0);
	assert(mux_accept(&m, 3, MUX_OUT, NULL, &e) == 0);
	assert(mux_open(&m, &(struct mux_open){ .kind = MUX_DIAL, .port = 80, .credit = 100 },
			NULL) == 2);
	assert(mux_write(&m, out, sizeof(out)) == MUX_CONTROL_MAX);
	while ((took = mux_read(&m, exact + at, size - at, &v, &e)) > 0) {
		at += (size_t)took;
		got += v.kind == MUX_ON_DATA ? v.len : 0;
		if (v.kind == MUX_ON_MESSAGE)
			check_message(&v.message);
		else if (v.kind == MUX_ON_OPEN)
			mux_answer(&m, v.number, 100);
		else if (v.kind == MUX_ON_DATA && v.number == 1)
			mux_want(&m, 3);
		(void)mux_write(&m, out, sizeof(out));
		assert(got <= MUX_WINDOW + 100 + 100U * MUX_NUMBERS);
	}
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 'M')
		run_model(data + 1, size - 1);
	else
		run_hostile(data + 1, size - 1);
	return 0;
}
