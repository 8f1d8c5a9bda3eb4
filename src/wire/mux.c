/* mux.c - theory of operation
 *
 * The streams are a table by number. A stream that has something to send is in one or both of two
 * queues: frames without bytes (OPEN, CREDIT, RESET) go first, so that they never wait for the
 * bytes of other streams; DATA and EOF go in turn, one frame for each stream. A stream is in each
 * queue once at most, so the queues are links in the table.
 *
 * A stream leaves the table when both ends have sent RESET. One that was reset by this end stays
 * until the other's RESET arrives; its frames are still checked. */
#include "mux_private.h"

#include <assert.h>
#include <string.h>

#include "codec.h"

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

struct mux_stream *mux_find_(struct mux *m, uint16_t number)
{
	struct mux_stream *s = number == 0 || number >= MUX_NUMBERS ? NULL : &m->streams[number];

	return s != NULL && (s->state & USED) != 0 ? s : NULL;
}

bool mux_is_own_(const struct mux *m, uint16_t number)
{
	return (number & 1) == (uint16_t)m->side;
}

/* ---- queues */

static void push(struct mux *m, uint16_t number, int which)
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

static uint16_t pop(struct mux *m, int which)
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

static bool has_control(const struct mux_stream *s)
{
	if ((s->state & (OPEN_WANTED | RESET_WANTED | ANSWER_WANTED)) != 0)
		return true;
	return s->owed >= s->step && s->owed > 0 && (s->state & EOF_RECEIVED) == 0;
}

static bool may_fill(const struct mux_stream *s)
{
	return (s->state & WANTS) != 0 && s->tx_credit > 0 &&
	       (s->state &
		(EOF_SENT | RESET_WANTED | RESET_SENT | OPEN_WANTED | UNANSWERED | UNDECIDED)) == 0;
}

void mux_requeue_(struct mux *m, uint16_t number)
{
	const struct mux_stream *s = &m->streams[number];

	if (has_control(s))
		push(m, number, CONTROL);
	if (may_fill(s))
		push(m, number, BYTES);
}

/* ---- beginnings and ends */

void mux_release_(struct mux *m, uint16_t number)
{
	struct mux_stream *s = &m->streams[number];
	uint16_t queued = s->state & QUEUED_DATA;
	uint16_t next = s->next[BYTES];

	/* It may still be in the second queue, which finds it without anything to send. */
	*s = (struct mux_stream){ .state = queued, .next = { 0, next } };
	if (!mux_is_own_(m, number))
		return;
	m->used--;
	if (number < m->lowest)
		m->lowest = number;
}

void mux_start_(struct mux_stream *s, enum mux_way way, void *arg)
{
	uint16_t queued = s->state & QUEUED_DATA;
	uint16_t next = s->next[BYTES];

	*s = (struct mux_stream){ .arg = arg, .next = { 0, next } };
	s->state = (uint16_t)(queued | USED | ((way & MUX_IN) != 0 ? CAN_IN : EOF_RECEIVED) |
			      ((way & MUX_OUT) != 0 ? CAN_OUT : EOF_SENT));
}

/* What this end takes at first. */
static void set_window(struct mux_stream *s, uint32_t window)
{
	s->step = window / 2 < MUX_CREDIT_STEP ? (window + 1) / 2 : MUX_CREDIT_STEP;
	s->rx_credit = window;
}

void mux_ask_reset_(struct mux *m, uint16_t number, int sys)
{
	struct mux_stream *s = &m->streams[number];

	if ((s->state & (RESET_WANTED | RESET_SENT)) != 0)
		return;
	assert(sys >= 0 && sys <= 4095);
	s->state |= RESET_WANTED;
	s->reset_sys = (uint16_t)sys;
	push(m, number, CONTROL);
}

void mux_end_if_complete_(struct mux *m, uint16_t number)
{
	const uint16_t both = EOF_SENT | EOF_RECEIVED;

	if ((m->streams[number].state & both) == both)
		mux_ask_reset_(m, number, 0);
}

static uint16_t free_number(struct mux *m)
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
	uint16_t number = free_number(m);

	if (number == 0)
		return 0;
	mux_start_(&m->streams[number], way, arg);
	m->streams[number].tx_credit = (way & MUX_OUT) != 0 ? MUX_WINDOW : 0;
	set_window(&m->streams[number], (way & MUX_IN) != 0 ? MUX_WINDOW : 0);
	return number;
}

int mux_accept(struct mux *m, uint16_t number, enum mux_way way, void *arg, struct err *e)
{
	if (number == 0 || number >= MUX_NUMBERS || mux_is_own_(m, number))
		return err_set(e, ERR_INVALID, "stream %u: not a number of the other end", number);
	if (mux_find_(m, number) != NULL)
		return err_set(e, ERR_INVALID, "stream %u: is in use", number);
	mux_start_(&m->streams[number], way, arg);
	m->streams[number].tx_credit = (way & MUX_OUT) != 0 ? MUX_WINDOW : 0;
	set_window(&m->streams[number], (way & MUX_IN) != 0 ? MUX_WINDOW : 0);
	return 0;
}

uint16_t mux_open(struct mux *m, const struct mux_open *open, void *arg)
{
	uint16_t number = free_number(m);

	if (number == 0)
		return 0;
	assert(open->credit > 0 && open->credit <= MUX_CREDIT_MAX);
	mux_start_(&m->streams[number], MUX_BOTH, arg);
	m->streams[number].open = *open;
	set_window(&m->streams[number], open->credit);
	m->streams[number].state |= OPEN_WANTED | UNANSWERED;
	push(m, number, CONTROL);
	return number;
}

void mux_set_arg(struct mux *m, uint16_t number, void *arg)
{
	struct mux_stream *s = mux_find_(m, number);

	if (s != NULL)
		s->arg = arg;
}

void mux_answer(struct mux *m, uint16_t number, uint32_t credit)
{
	struct mux_stream *s = mux_find_(m, number);

	assert(s != NULL && (s->state & UNDECIDED) != 0);
	assert(credit > 0 && credit <= MUX_CREDIT_MAX);
	s->state = (uint16_t)((s->state & ~UNDECIDED) | ANSWER_WANTED);
	set_window(s, credit);
	s->rx_credit = 0; /* until CREDIT is sent */
	s->owed = credit;
	mux_requeue_(m, number);
}

void mux_want(struct mux *m, uint16_t number)
{
	struct mux_stream *s = mux_find_(m, number);

	if (s == NULL)
		return;
	s->state |= WANTS;
	mux_requeue_(m, number);
}

void mux_consumed(struct mux *m, uint16_t number, size_t n)
{
	struct mux_stream *s = mux_find_(m, number);

	if (s == NULL || (s->state & (EOF_RECEIVED | RESET_RECEIVED)) != 0)
		return;
	assert(n <= MUX_CREDIT_MAX - s->owed);
	s->owed += (uint32_t)n;
	mux_requeue_(m, number);
}

void mux_reset(struct mux *m, uint16_t number, int sys)
{
	struct mux_stream *s = mux_find_(m, number);

	if (s == NULL)
		return;
	s->state |= GIVEN_UP;
	s->arg = NULL;
	mux_ask_reset_(m, number, sys);
}

/* ---- writing */

static size_t put_number(uint8_t *to, enum mux_type type, uint16_t number, uint32_t value)
{
	struct codec_writer w = { to + FRAME_HEAD, 4, false };

	frame_head_stream(to, (uint16_t)type, number, 4);
	codec_put(&w, 4, value);
	return FRAME_HEAD + 4;
}

static size_t put_open(uint8_t *to, uint16_t number, const struct mux_open *o)
{
	struct codec_writer w = { to + FRAME_HEAD, MUX_OPEN_SIZE, false };

	frame_head_stream(to, MUX_OPEN, number, MUX_OPEN_SIZE);
	codec_put(&w, 1, o->kind);
	codec_put(&w, 1, o->family);
	codec_put(&w, 2, o->port);
	codec_put(&w, 4, o->credit);
	codec_put(&w, 8, o->mark);
	for (size_t i = 0; i < sizeof(o->address); i++)
		codec_put(&w, 1, o->address[i]);
	codec_put(&w, 8, 0);
	assert(!w.bad && w.n == 0);
	return MUX_CONTROL_MAX;
}

static size_t put_reset(struct mux *m, uint16_t number, uint8_t *to)
{
	struct mux_stream *s = &m->streams[number];
	size_t n = put_number(to, MUX_RESET, number, s->reset_sys);

	s->state = (uint16_t)((s->state & ~(RESET_WANTED | ANSWER_WANTED)) | RESET_SENT);
	if ((s->state & RESET_RECEIVED) != 0)
		mux_release_(m, number);
	return n;
}

static size_t put_credit(struct mux *m, uint16_t number, uint8_t *to)
{
	struct mux_stream *s = &m->streams[number];
	uint32_t n = s->owed;

	s->rx_credit += n;
	s->owed = 0;
	s->state &= (uint16_t)~ANSWER_WANTED;
	mux_requeue_(m, number);
	return put_number(to, MUX_CREDIT, number, n);
}

static size_t write_control(struct mux *m, uint8_t *to)
{
	uint16_t number;

	while ((number = pop(m, CONTROL)) != 0) {
		struct mux_stream *s = &m->streams[number];

		if ((s->state & OPEN_WANTED) != 0) {
			s->state &= (uint16_t)~OPEN_WANTED;
			mux_requeue_(m, number);
			return put_open(to, number, &s->open);
		}
		if ((s->state & ANSWER_WANTED) != 0 && (s->state & GIVEN_UP) == 0)
			return put_credit(m, number, to);
		if ((s->state & RESET_WANTED) != 0)
			return put_reset(m, number, to);
		if (has_control(s))
			return put_credit(m, number, to);
	}
	return 0;
}

static size_t put_eof(struct mux *m, uint16_t number, uint8_t *to)
{
	m->streams[number].state |= EOF_SENT;
	frame_head_stream(to, MUX_EOF, number, 0);
	mux_end_if_complete_(m, number);
	return FRAME_HEAD;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The bytes of a DATA frame: beside the buffer, or behind its head. */
static ssize_t take_bytes(struct mux *m, uint16_t number, uint8_t *to)
{
	const struct mux_stream *s = &m->streams[number];
	size_t max = smaller(s->tx_credit, MUX_DATA_MAX);

	if (m->claim != NULL)
		m->claimed = m->claim(m->arg, number, s->arg, max);
	assert(m->claimed <= max);
	if (m->claimed > 0)
		return (ssize_t)m->claimed;
	return m->fill(m->arg, number, s->arg, to, smaller(max, MUX_FILL_MAX));
}

static size_t write_bytes(struct mux *m, uint8_t *to)
{
	uint16_t number;

	while ((number = pop(m, BYTES)) != 0) {
		struct mux_stream *s = &m->streams[number];
		ssize_t n;

		if ((s->state & USED) == 0 || !may_fill(s))
			continue;
		n = take_bytes(m, number, to + FRAME_HEAD);
		if ((s->state & RESET_WANTED) != 0)
			continue;
		if (n < 0)
			return put_eof(m, number, to);
		if (n == 0) {
			s->state &= (uint16_t)~WANTS;
			continue;
		}
		assert((size_t)n <= s->tx_credit);
		s->tx_credit -= (uint32_t)n;
		frame_head_stream(to, MUX_DATA, number, (uint32_t)n);
		mux_requeue_(m, number);
		return FRAME_HEAD + (size_t)n - m->claimed;
	}
	return 0;
}

size_t mux_write(struct mux *m, uint8_t *to, size_t cap)
{
	size_t n = cap < MUX_CONTROL_MAX ? 0 : write_control(m, to);

	m->claimed = 0;
	return n > 0 || cap < MUX_FRAME_MAX ? n : write_bytes(m, to);
}

bool mux_has_output(const struct mux *m)
{
	return m->queue[CONTROL].head != 0 || m->queue[BYTES].head != 0;
}
