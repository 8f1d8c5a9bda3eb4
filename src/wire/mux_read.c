/* mux_read.c - what arrives: each frame is checked against the state of its stream, and changes it.
 * Nothing of it is trusted. */
#include <string.h>

#include "codec.h"
#include "mux_private.h"

static int refuse(struct err *e, const struct frame *f, const char *why)
{
	return err_set(e, ERR_INVALID, "stream %u, frame %u: %s", f->stream, f->type, why);
}

static bool open_fits(const struct mux *m, const struct mux_open *o)
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
	struct codec_reader r = { f->body, f->len, false };
	struct mux_open o = { 0 };
	struct mux_stream *s;
	uint64_t zero;

	o.kind = (uint8_t)codec_get(&r, 1);
	o.family = (uint8_t)codec_get(&r, 1);
	o.port = (uint16_t)codec_get(&r, 2);
	o.credit = (uint32_t)codec_get(&r, 4);
	o.mark = codec_get(&r, 8);
	for (size_t i = 0; i < sizeof(o.address); i++)
		o.address[i] = (uint8_t)codec_get(&r, 1);
	zero = codec_get(&r, 8);
	if (r.bad || r.n != 0 || zero != 0 || !open_fits(m, &o))
		return refuse(e, f, "malformed");
	if (f->stream >= MUX_NUMBERS || mux_is_own_(m, f->stream))
		return refuse(e, f, "not a number of the sender");
	if (mux_find_(m, f->stream) != NULL)
		return refuse(e, f, "the number is in use");
	s = &m->streams[f->stream];
	mux_start_(s, MUX_BOTH, NULL);
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
		return refuse(e, f, "no bytes");
	if ((s->state & EOF_RECEIVED) != 0)
		return refuse(e, f, "bytes after the end");
	if (f->len > s->rx_credit)
		return refuse(e, f, "more bytes than there was credit for");
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
		return refuse(e, f, "a second end");
	s->state |= EOF_RECEIVED;
	s->owed = (s->state & ANSWER_WANTED) != 0 ? s->owed : 0;
	mux_end_if_complete_(m, f->stream);
	ret->kind = MUX_ON_EOF;
	return 0;
}

static int read_number(const struct frame *f, uint32_t max, uint32_t *ret, struct err *e)
{
	struct codec_reader r = { f->body, f->len, false };

	*ret = (uint32_t)codec_get(&r, 4);
	return r.bad || r.n != 0 || *ret > max ? refuse(e, f, "malformed") : 0;
}

static int on_credit(struct mux *m, struct mux_stream *s, const struct frame *f,
		     struct mux_event *ret, struct err *e)
{
	uint32_t n;

	if (read_number(f, MUX_CREDIT_MAX, &n, e) < 0)
		return -1;
	if (n == 0 || (s->state & CAN_OUT) == 0 || n > MUX_CREDIT_MAX - s->tx_credit)
		return refuse(e, f, "credit out of range");
	s->tx_credit += n;
	if ((s->state & UNANSWERED) != 0)
		ret->kind = MUX_ON_OPENED;
	s->state &= (uint16_t)~UNANSWERED;
	mux_requeue_(m, f->stream);
	return 0;
}

static int on_reset(struct mux *m, struct mux_stream *s, const struct frame *f,
		    struct mux_event *ret, struct err *e)
{
	const uint16_t both = EOF_SENT | EOF_RECEIVED;
	uint32_t sys;

	if (read_number(f, 4095, &sys, e) < 0)
		return -1;
	ret->kind = MUX_ON_RESET;
	ret->was_clean = (s->state & both) == both;
	ret->sys = (int)sys;
	s->state |= RESET_RECEIVED;
	if ((s->state & RESET_SENT) != 0)
		mux_release_(m, f->stream);
	else
		mux_ask_reset_(m, f->stream, 0);
	return 0;
}

static int on_stream(struct mux *m, struct mux_stream *s, const struct frame *f,
		     struct mux_event *ret, struct err *e)
{
	if ((s->state & RESET_RECEIVED) != 0)
		return refuse(e, f, "after RESET");
	if ((s->state & OPEN_WANTED) != 0)
		return refuse(e, f, "not open yet");
	if ((s->state & UNANSWERED) != 0 && f->type != MUX_CREDIT && f->type != MUX_RESET)
		return refuse(e, f, "before the answer to OPEN");
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
		return refuse(e, f, "of unknown type");
	}
}

static int dispatch(struct mux *m, const struct frame *f, struct mux_event *ret, struct err *e)
{
	struct mux_stream *s = mux_find_(m, f->stream);
	bool given_up;

	ret->number = f->stream;
	if (f->stream == 0) {
		if (f->type >= MUX_DATA && f->type < MUX_TYPES_END)
			return refuse(e, f, "bytes among messages");
		ret->kind = MUX_ON_MESSAGE;
		ret->message = *f;
		return 0;
	}
	if (f->type == MUX_OPEN)
		return on_open(m, f, ret, e);
	if (s == NULL)
		return refuse(e, f, "no such stream");
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
	if (took > 0 && dispatch(m, &f, ret, e) < 0)
		return -1;
	return took;
}
