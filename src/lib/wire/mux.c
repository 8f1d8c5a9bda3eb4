/* mux.c - theory of operation
 *
 * The streams are a table by number. A stream with something to send is in one or both of two
 * queues: frames without bytes (OPEN, CREDIT, RESET) go first, so that they never wait for the
 * bytes of other streams. DATA and EOF go in turn, one frame for each stream. A stream is in each
 * queue once at most, so the queues are links in the table.
 *
 * A stream leaves the table when both ends have sent RESET. One reset by this end stays until the
 * other's RESET arrives. Its frames are still checked. */
#include "lib/wire/mux.h"

#include <assert.h>
#include <string.h>

#include "lib/wire/codec.h"

enum {
	USED = 1 << 0,
	CAN_IN = 1 << 1, /* the directions that it has */
	CAN_OUT = 1 << 2,
	EOF_SENT = 1 << 3, /* or there is no such direction */
	EOF_RECEIVED = 1 << 4,
	RESET_WANTED = 1 << 5, /* to be sent */
	RESET_SENT = 1 << 6,
	RESET_RECEIVED = 1 << 7,
	OPEN_WANTED = 1 << 8, /* to be sent */
	UNANSWERED = 1 << 9,  /* the other end has not answered OPEN */
	UNDECIDED = 1 << 10,  /* this end has not answered OPEN */
	WANTS = 1 << 11,      /* mux_want() */
	QUEUED_CONTROL = 1 << 12,
	QUEUED_DATA = 1 << 13,
	GIVEN_UP = 1 << 14,	 /* by the caller: no more events */
	ANSWER_WANTED = 1 << 15, /* the next CREDIT is the answer to OPEN, of any size */
};

enum { CONTROL, BYTES };

void mux_init(struct mux *m, enum mux_side side, size_t message_max, mux_fill fill, void *arg)
{
	memset(m, 0, sizeof(*m));
	m->side = side;
	m->message_max = message_max;
	m->fill = fill;
	m->arg = arg;
	m->lowest = side == MUX_GUEST ? 1 : 2;
}

void mux_set_claim(struct mux *m, mux_claim claim)
{
	m->claim = claim;
}

/* NULL: no stream has the number. */
static struct mux_stream *mux_find(struct mux *m, uint16_t number)
{
	struct mux_stream *s = number == 0 || number >= MUX_NUMBERS ? NULL : &m->streams[number];

	return s != NULL && (s->state & USED) != 0 ? s : NULL;
}

/* Is it a number that this end chooses? */
static bool mux_is_own(const struct mux *m, uint16_t number)
{
	return (number & 1) == (uint16_t)m->side;
}

/* ---- queues */

static void mux_push(struct mux *m, uint16_t number, int which)
{
	struct mux_stream *s = &m->streams[number];
	uint16_t bit = which == CONTROL ? QUEUED_CONTROL : QUEUED_DATA;

	if ((s->state & (bit | RESET_SENT)) != 0)
		return;
	s->state |= bit;
	s->next[which] = 0;
	if (m->queue[which].tail != 0)
		m->streams[m->queue[which].tail].next[which] = number;
	else
		m->queue[which].head = number;
	m->queue[which].tail = number;
}

static uint16_t mux_pop(struct mux *m, int which)
{
	uint16_t number = m->queue[which].head;
	struct mux_stream *s = &m->streams[number];

	if (number == 0)
		return 0;
	m->queue[which].head = s->next[which];
	if (s->next[which] == 0)
		m->queue[which].tail = 0;
	s->state &= (uint16_t) ~(which == CONTROL ? QUEUED_CONTROL : QUEUED_DATA);
	return number;
}

static bool mux_has_control(const struct mux_stream *s)
{
	if ((s->state & (OPEN_WANTED | RESET_WANTED | ANSWER_WANTED)) != 0)
		return true;
	return s->owed >= s->step && s->owed > 0 && (s->state & EOF_RECEIVED) == 0;
}

static bool mux_may_fill(const struct mux_stream *s)
{
	return (s->state & WANTS) != 0 && s->tx_credit > 0 &&
	       (s->state &
		(EOF_SENT | RESET_WANTED | RESET_SENT | OPEN_WANTED | UNANSWERED | UNDECIDED)) == 0;
}

/* Put the stream into the queues that it belongs to now. */
static void mux_requeue(struct mux *m, uint16_t number)
{
	const struct mux_stream *s = &m->streams[number];

	if (mux_has_control(s))
		mux_push(m, number, CONTROL);
	if (mux_may_fill(s))
		mux_push(m, number, BYTES);
}

/* ---- beginnings and ends */

static void mux_release(struct mux *m, uint16_t number)
{
	struct mux_stream *s = &m->streams[number];
	uint16_t queued = s->state & QUEUED_DATA;
	uint16_t next = s->next[BYTES];

	/* It may still be in the second queue, which finds it without anything to send. */
	*s = (struct mux_stream){ .state = queued, .next = { 0, next } };
	if (!mux_is_own(m, number))
		return;
	m->used--;
	if (number < m->lowest)
		m->lowest = number;
}

static void mux_start(struct mux_stream *s, enum mux_way way, void *arg)
{
	uint16_t queued = s->state & QUEUED_DATA;
	uint16_t next = s->next[BYTES];

	*s = (struct mux_stream){ .arg = arg, .next = { 0, next } };
	s->state = (uint16_t)(queued | USED | ((way & MUX_IN) != 0 ? CAN_IN : EOF_RECEIVED) |
			      ((way & MUX_OUT) != 0 ? CAN_OUT : EOF_SENT));
}

/* The credit this end gives at first. */
static void mux_set_window(struct mux_stream *s, uint32_t window)
{
	s->step = window / 2 < MUX_CREDIT_STEP ? (window + 1) / 2 : MUX_CREDIT_STEP;
	s->rx_credit = window;
}

/* RESET is to be sent, if it was not. */
static void mux_ask_reset(struct mux *m, uint16_t number, int sys)
{
	struct mux_stream *s = &m->streams[number];

	if ((s->state & (RESET_WANTED | RESET_SENT)) != 0)
		return;
	assert(sys >= 0 && sys <= 4095);
	s->state |= RESET_WANTED;
	s->reset_sys = (uint16_t)sys;
	mux_push(m, number, CONTROL);
}

/* As above, if both directions had their EOF. */
static void mux_end_if_complete(struct mux *m, uint16_t number)
{
	const uint16_t both = EOF_SENT | EOF_RECEIVED;

	if ((m->streams[number].state & both) == both)
		mux_ask_reset(m, number, 0);
}

static uint16_t mux_free_number(struct mux *m)
{
	for (unsigned n = m->lowest; n < MUX_NUMBERS; n += 2)
		if ((m->streams[n].state & USED) == 0) {
			m->lowest = (uint16_t)(n + 2);
			m->used++;
			return (uint16_t)n;
		}
	m->lowest = MUX_NUMBERS - 2 + (uint16_t)m->side;
	return 0;
}

unsigned mux_numbers_left(const struct mux *m)
{
	return MUX_NUMBERS / 2 - (m->side == MUX_SHIM) - m->used;
}

uint16_t mux_announce(struct mux *m, enum mux_way way, void *arg)
{
	uint16_t number = mux_free_number(m);

	if (number == 0)
		return 0;
	mux_start(&m->streams[number], way, arg);
	m->streams[number].tx_credit = (way & MUX_OUT) != 0 ? MUX_WINDOW : 0;
	mux_set_window(&m->streams[number], (way & MUX_IN) != 0 ? MUX_WINDOW : 0);
	return number;
}

int mux_accept(struct mux *m, uint16_t number, enum mux_way way, void *arg, struct err *e)
{
	if (number == 0 || number >= MUX_NUMBERS || mux_is_own(m, number))
		return err_set(e, ERR_INVALID, "stream %u: not a number of the other end", number);
	if (mux_find(m, number) != NULL)
		return err_set(e, ERR_INVALID, "stream %u: is in use", number);
	mux_start(&m->streams[number], way, arg);
	m->streams[number].tx_credit = (way & MUX_OUT) != 0 ? MUX_WINDOW : 0;
	mux_set_window(&m->streams[number], (way & MUX_IN) != 0 ? MUX_WINDOW : 0);
	return 0;
}

uint16_t mux_open(struct mux *m, const struct mux_open *open, void *arg)
{
	uint16_t number = mux_free_number(m);

	if (number == 0)
		return 0;
	assert(open->credit > 0 && open->credit <= MUX_CREDIT_MAX);
	mux_start(&m->streams[number], MUX_BOTH, arg);
	m->streams[number].open = *open;
	mux_set_window(&m->streams[number], open->credit);
	m->streams[number].state |= OPEN_WANTED | UNANSWERED;
	mux_push(m, number, CONTROL);
	return number;
}

void mux_set_arg(struct mux *m, uint16_t number, void *arg)
{
	struct mux_stream *s = mux_find(m, number);

	if (s != NULL)
		s->arg = arg;
}

void mux_answer(struct mux *m, uint16_t number, uint32_t credit)
{
	struct mux_stream *s = mux_find(m, number);

	assert(s != NULL && (s->state & UNDECIDED) != 0);
	assert(credit > 0 && credit <= MUX_CREDIT_MAX);
	s->state = (uint16_t)((s->state & ~UNDECIDED) | ANSWER_WANTED);
	mux_set_window(s, credit);
	s->rx_credit = 0; /* until CREDIT is sent */
	s->owed = credit;
	mux_requeue(m, number);
}

void mux_want(struct mux *m, uint16_t number)
{
	struct mux_stream *s = mux_find(m, number);

	if (s == NULL)
		return;
	s->state |= WANTS;
	mux_requeue(m, number);
}

void mux_consumed(struct mux *m, uint16_t number, size_t n)
{
	struct mux_stream *s = mux_find(m, number);

	if (s == NULL || (s->state & (EOF_RECEIVED | RESET_RECEIVED)) != 0)
		return;
	assert(n <= MUX_CREDIT_MAX - s->owed);
	s->owed += (uint32_t)n;
	mux_requeue(m, number);
}

void mux_reset(struct mux *m, uint16_t number, int sys)
{
	struct mux_stream *s = mux_find(m, number);

	if (s == NULL)
		return;
	s->state |= GIVEN_UP;
	s->arg = NULL;
	mux_ask_reset(m, number, sys);
}

/* ---- writing */

static size_t mux_put_number(uint8_t *to, enum mux_type type, uint16_t number, uint32_t value)
{
	struct codec c = codec_writer(to + FRAME_HEAD, 4);

	frame_head_stream(to, (uint16_t)type, number, 4);
	codec_int(&c, 4, value);
	return FRAME_HEAD + 4;
}

/* The body of OPEN, for both directions. */
static void mux_open_fields(struct codec *c, struct mux_open *o)
{
	codec_int(c, 1, o->kind);
	codec_int(c, 1, o->family);
	codec_int(c, 2, o->port);
	codec_int(c, 4, o->credit);
	codec_int(c, 8, o->mark);
	codec_bytes(c, o->address, sizeof(o->address));
	codec_expect(c, codec_number(c, 8, 0) == 0); /* reserved */
}

static size_t mux_put_open(uint8_t *to, uint16_t number, const struct mux_open *o)
{
	struct codec c = codec_writer(to + FRAME_HEAD, MUX_OPEN_SIZE);
	struct mux_open copy = *o;

	frame_head_stream(to, MUX_OPEN, number, MUX_OPEN_SIZE);
	mux_open_fields(&c, &copy);
	assert(!c.bad && c.n == 0);
	return MUX_CONTROL_MAX;
}

static size_t mux_put_reset(struct mux *m, uint16_t number, uint8_t *to)
{
	struct mux_stream *s = &m->streams[number];
	size_t n = mux_put_number(to, MUX_RESET, number, s->reset_sys);

	s->state = (uint16_t)((s->state & ~(RESET_WANTED | ANSWER_WANTED)) | RESET_SENT);
	if ((s->state & RESET_RECEIVED) != 0)
		mux_release(m, number);
	return n;
}

static size_t mux_put_credit(struct mux *m, uint16_t number, uint8_t *to)
{
	struct mux_stream *s = &m->streams[number];
	uint32_t n = s->owed;

	s->rx_credit += n;
	s->owed = 0;
	s->state &= (uint16_t)~ANSWER_WANTED;
	mux_requeue(m, number);
	return mux_put_number(to, MUX_CREDIT, number, n);
}

static size_t mux_write_control(struct mux *m, uint8_t *to)
{
	uint16_t number;

	while ((number = mux_pop(m, CONTROL)) != 0) {
		struct mux_stream *s = &m->streams[number];

		if ((s->state & OPEN_WANTED) != 0) {
			s->state &= (uint16_t)~OPEN_WANTED;
			mux_requeue(m, number);
			return mux_put_open(to, number, &s->open);
		}
		if ((s->state & ANSWER_WANTED) != 0 && (s->state & GIVEN_UP) == 0)
			return mux_put_credit(m, number, to);
		if ((s->state & RESET_WANTED) != 0)
			return mux_put_reset(m, number, to);
		if (mux_has_control(s))
			return mux_put_credit(m, number, to);
	}
	return 0;
}

static size_t mux_put_eof(struct mux *m, uint16_t number, uint8_t *to)
{
	m->streams[number].state |= EOF_SENT;
	frame_head_stream(to, MUX_EOF, number, 0);
	mux_end_if_complete(m, number);
	return FRAME_HEAD;
}

static size_t mux_smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The bytes of a DATA frame: beside the buffer, or behind its head. */
static ssize_t mux_take_bytes(struct mux *m, uint16_t number, uint8_t *to)
{
	const struct mux_stream *s = &m->streams[number];
	size_t max = mux_smaller(s->tx_credit, MUX_DATA_MAX);

	if (m->claim != NULL)
		m->claimed = m->claim(m->arg, number, s->arg, max);
	assert(m->claimed <= max);
	if (m->claimed > 0)
		return (ssize_t)m->claimed;
	return m->fill(m->arg, number, s->arg, to, mux_smaller(max, MUX_FILL_MAX));
}

static size_t mux_write_bytes(struct mux *m, uint8_t *to)
{
	uint16_t number;

	while ((number = mux_pop(m, BYTES)) != 0) {
		struct mux_stream *s = &m->streams[number];
		ssize_t n;

		if ((s->state & USED) == 0 || !mux_may_fill(s))
			continue;
		n = mux_take_bytes(m, number, to + FRAME_HEAD);
		if ((s->state & RESET_WANTED) != 0)
			continue;
		if (n < 0)
			return mux_put_eof(m, number, to);
		if (n == 0) {
			s->state &= (uint16_t)~WANTS;
			continue;
		}
		assert((size_t)n <= s->tx_credit);
		s->tx_credit -= (uint32_t)n;
		frame_head_stream(to, MUX_DATA, number, (uint32_t)n);
		mux_requeue(m, number);
		return FRAME_HEAD + (size_t)n - m->claimed;
	}
	return 0;
}

size_t mux_write(struct mux *m, uint8_t *to, size_t cap)
{
	size_t n = cap < MUX_CONTROL_MAX ? 0 : mux_write_control(m, to);

	m->claimed = 0;
	return n > 0 || cap < MUX_FRAME_MAX ? n : mux_write_bytes(m, to);
}

bool mux_has_output(const struct mux *m)
{
	return m->queue[CONTROL].head != 0 || m->queue[BYTES].head != 0;
}

/* ---- frames from the other side
 *
 * Each frame is checked against the state of its stream, and changes it. No frame is trusted. */

static int mux_refuse(struct err *e, const struct frame *f, const char *why)
{
	return err_set(e, ERR_INVALID, "stream %u, frame %u: %s", f->stream, f->type, why);
}

static bool mux_open_fits(const struct mux *m, const struct mux_open *o)
{
	static const uint8_t zero[16];
	size_t used = o->family == 6 ? 16 : o->family == 4 ? 4 : 0;
	bool by_guest = o->kind == MUX_TCP || o->kind == MUX_DNS;

	if (by_guest != (m->side == MUX_SHIM) || o->port == 0)
		return false;
	if (by_guest ? used == 0 : o->kind != MUX_DIAL || o->family != 0 || o->mark != 0)
		return false;
	return memcmp(o->address + used, zero, 16 - used) == 0 && o->credit > 0 &&
	       o->credit <= MUX_CREDIT_MAX;
}

static int on_open(struct mux *m, const struct frame *f, struct mux_event *ret, struct err *e)
{
	struct codec c = codec_reader(f->body, f->len);
	struct mux_open o = { 0 };
	struct mux_stream *s;

	mux_open_fields(&c, &o);
	if (c.bad || c.n != 0 || !mux_open_fits(m, &o))
		return mux_refuse(e, f, "malformed");
	if (f->stream >= MUX_NUMBERS || mux_is_own(m, f->stream))
		return mux_refuse(e, f, "not a number of the sender");
	if (mux_find(m, f->stream) != NULL)
		return mux_refuse(e, f, "the number is in use");
	s = &m->streams[f->stream];
	mux_start(s, MUX_BOTH, NULL);
	s->state |= UNDECIDED;
	s->tx_credit = o.credit;
	ret->kind = MUX_ON_OPEN;
	ret->open = o;
	return 0;
}

static int on_data(struct mux_stream *s, const struct frame *f, struct mux_event *ret,
		   struct err *e)
{
	if (f->len == 0)
		return mux_refuse(e, f, "no bytes");
	if ((s->state & EOF_RECEIVED) != 0)
		return mux_refuse(e, f, "bytes after the end");
	if (f->len > s->rx_credit)
		return mux_refuse(e, f, "more bytes than there was credit for");
	s->rx_credit -= f->len;
	ret->kind = MUX_ON_DATA;
	ret->bytes = f->body;
	ret->len = f->len;
	return 0;
}

static int on_eof(struct mux *m, struct mux_stream *s, const struct frame *f, struct mux_event *ret,
		  struct err *e)
{
	if (f->len != 0 || (s->state & EOF_RECEIVED) != 0)
		return mux_refuse(e, f, "a second end");
	s->state |= EOF_RECEIVED;
	s->owed = (s->state & ANSWER_WANTED) != 0 ? s->owed : 0;
	mux_end_if_complete(m, f->stream);
	ret->kind = MUX_ON_EOF;
	return 0;
}

static int mux_read_number(const struct frame *f, uint32_t max, uint32_t *ret, struct err *e)
{
	struct codec c = codec_reader(f->body, f->len);

	codec_int(&c, 4, *ret);
	return c.bad || c.n != 0 || *ret > max ? mux_refuse(e, f, "malformed") : 0;
}

static int on_credit(struct mux *m, struct mux_stream *s, const struct frame *f,
		     struct mux_event *ret, struct err *e)
{
	uint32_t n;

	if (mux_read_number(f, MUX_CREDIT_MAX, &n, e) < 0)
		return -1;
	if (n == 0 || (s->state & CAN_OUT) == 0 || n > MUX_CREDIT_MAX - s->tx_credit)
		return mux_refuse(e, f, "credit out of range");
	s->tx_credit += n;
	if ((s->state & UNANSWERED) != 0)
		ret->kind = MUX_ON_OPENED;
	s->state &= (uint16_t)~UNANSWERED;
	mux_requeue(m, f->stream);
	return 0;
}

static int on_reset(struct mux *m, struct mux_stream *s, const struct frame *f,
		    struct mux_event *ret, struct err *e)
{
	const uint16_t both = EOF_SENT | EOF_RECEIVED;
	uint32_t sys;

	if (mux_read_number(f, 4095, &sys, e) < 0)
		return -1;
	ret->kind = MUX_ON_RESET;
	ret->was_clean = (s->state & both) == both;
	ret->sys = (int)sys;
	s->state |= RESET_RECEIVED;
	if ((s->state & RESET_SENT) != 0)
		mux_release(m, f->stream);
	else
		mux_ask_reset(m, f->stream, 0);
	return 0;
}

static int on_stream(struct mux *m, struct mux_stream *s, const struct frame *f,
		     struct mux_event *ret, struct err *e)
{
	if ((s->state & RESET_RECEIVED) != 0)
		return mux_refuse(e, f, "after RESET");
	if ((s->state & OPEN_WANTED) != 0)
		return mux_refuse(e, f, "not open yet");
	if ((s->state & UNANSWERED) != 0 && f->type != MUX_CREDIT && f->type != MUX_RESET)
		return mux_refuse(e, f, "before the answer to OPEN");
	/* The opener has no credit yet, but may end its direction or give up. */
	switch (f->type) {
	case MUX_DATA:
		return on_data(s, f, ret, e);
	case MUX_EOF:
		return on_eof(m, s, f, ret, e);
	case MUX_CREDIT:
		return on_credit(m, s, f, ret, e);
	case MUX_RESET:
		return on_reset(m, s, f, ret, e);
	default:
		return mux_refuse(e, f, "of unknown type");
	}
}

static int mux_dispatch(struct mux *m, const struct frame *f, struct mux_event *ret, struct err *e)
{
	struct mux_stream *s = mux_find(m, f->stream);
	bool given_up;

	ret->number = f->stream;
	if (f->stream == 0) {
		if (f->type >= MUX_DATA && f->type < MUX_TYPES_END)
			return mux_refuse(e, f, "bytes among messages");
		ret->kind = MUX_ON_MESSAGE;
		ret->message = *f;
		return 0;
	}
	if (f->type == MUX_OPEN)
		return on_open(m, f, ret, e);
	if (s == NULL)
		return mux_refuse(e, f, "no such stream");
	ret->arg = s->arg;
	given_up = (s->state & GIVEN_UP) != 0;
	if (on_stream(m, s, f, ret, e) < 0)
		return -1;
	if (given_up)
		ret->kind = MUX_ON_NOTHING;
	return 0;
}

int mux_read(struct mux *m, const uint8_t *bytes, size_t len, struct mux_event *ret, struct err *e)
{
	bool message = len >= FRAME_HEAD && bytes[6] == 0 && bytes[7] == 0;
	struct frame f;
	int took = frame_read_stream(bytes, len, message ? m->message_max : MUX_DATA_MAX, &f, e);

	*ret = (struct mux_event){ 0 };
	if (took > 0 && mux_dispatch(m, &f, ret, e) < 0)
		return -1;
	return took;
}
