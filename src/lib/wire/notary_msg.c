#include "lib/wire/notary_msg.h"

#include <string.h>

#include "lib/wire/codec.h"

static bool notary_is_type(unsigned type)
{
	return (type >= NOTARY_SIGN && type < NOTARY_REQUESTS_END) ||
	       (type >= NOTARY_SIGNED && type < NOTARY_ANSWERS_END);
}

const char *notary_reason_name(enum notary_reason reason)
{
	static const char *const names[NOTARY_REASONS] = {
		[NOTARY_STALE] = "stale",     [NOTARY_ROLLBACK] = "rollback",
		[NOTARY_FORK] = "fork",	      [NOTARY_ORIGIN] = "origin",
		[NOTARY_FULL] = "full",	      [NOTARY_DISK] = "disk",
		[NOTARY_DAMAGED] = "damaged",
	};

	return reason < NOTARY_REASONS && names[reason] != NULL ? names[reason] : "unknown";
}

const char *notary_payload_name(enum notary_payload payload)
{
	static const char *const names[NOTARY_PAYLOADS] = {
		[NOTARY_PAYLOAD_IN_TOTO] = "application/vnd.in-toto+json",
		[NOTARY_PAYLOAD_REPORT] = "application/vnd.cordon.report+json",
		[NOTARY_PAYLOAD_BUNDLE] = "application/vnd.cordon.bundle+json",
	};

	return payload < NOTARY_PAYLOADS && names[payload] != NULL ? names[payload] : "unknown";
}

/* ---- fields */

static void notary_sign(struct codec *c, struct notary_msg *m)
{
	codec_string(c, NOTARY_ORIGIN_MAX, &m->origin);
	codec_int(c, 8, m->old_size);
	codec_int(c, 8, m->size);
	codec_bytes(c, m->root, sizeof(m->root));
	codec_int(c, 1, m->nproof);
	codec_expect(c, m->nproof <= NOTARY_PROOF_MAX);
	codec_span(c, &m->proof, c->bad ? 0 : (size_t)m->nproof * NOTARY_HASH);
}

static void notary_attest(struct codec *c, struct notary_msg *m)
{
	codec_int(c, 1, m->payload);
	codec_expect(c, m->payload > 0 && m->payload < NOTARY_PAYLOADS);
	codec_rest(c, &m->body, &m->body_len);
	codec_expect(c, m->body_len <= NOTARY_BODY_MAX);
}

static void notary_key_is(struct codec *c, struct notary_msg *m)
{
	codec_string(c, NOTARY_NAME_MAX, &m->name);
	codec_string(c, NOTARY_VKEY_MAX, &m->vkey);
	codec_string(c, NOTARY_VKEY_MAX, &m->former_vkey);
	codec_string(c, NOTARY_VKEY_MAX, &m->attest_vkey);
	codec_int(c, 4, m->logs);
	codec_bytes(c, m->sig, sizeof(m->sig));
}

static void notary_refused(struct codec *c, struct notary_msg *m)
{
	codec_int(c, 1, m->reason);
	codec_expect(c, m->reason > 0 && m->reason < NOTARY_REASONS);
	codec_int(c, 8, m->size);
	codec_bytes(c, m->root, sizeof(m->root));
	codec_string(c, NOTARY_TEXT_MAX, &m->text);
}

/* The layout of a message, by its type. */
static void notary_fields(struct codec *c, struct notary_msg *m)
{
	enum notary_type t = m->type;

	if (t == NOTARY_SIGN)
		notary_sign(c, m);
	if (t == NOTARY_ATTEST)
		notary_attest(c, m);
	if (t == NOTARY_SIGNED)
		codec_string(c, NOTARY_LINES_MAX, &m->lines);
	if (t == NOTARY_KEY_IS)
		notary_key_is(c, m);
	if (t == NOTARY_ATTESTED) {
		codec_string(c, NOTARY_VKEY_MAX, &m->keyid);
		codec_bytes(c, m->sig, sizeof(m->sig));
	}
	if (t == NOTARY_REFUSED)
		notary_refused(c, m);
}

int notary_msg_read(const struct frame *f, struct notary_msg *ret, struct err *e)
{
	struct codec c = codec_reader(f->body, f->len);

	if (f->len > NOTARY_FRAME_MAX || !notary_is_type(f->type))
		return err_set(e, ERR_INVALID, "cordon-notary: unknown message type %u", f->type);
	*ret = (struct notary_msg){ .type = (enum notary_type)f->type };
	codec_int(&c, 4, ret->id);
	notary_fields(&c, ret);
	if (c.bad || c.n != 0 || ret->id == 0)
		return err_set(e, ERR_INVALID, "cordon-notary: malformed message %u", f->type);
	return 0;
}

int notary_msg_write(const struct notary_msg *m, uint8_t *ret, size_t cap)
{
	struct notary_msg copy = *m;
	struct codec c;

	if (cap < FRAME_HEAD)
		return -1;
	cap -= FRAME_HEAD;
	c = codec_writer(ret + FRAME_HEAD, cap < NOTARY_FRAME_MAX ? cap : NOTARY_FRAME_MAX);
	codec_int(&c, 4, copy.id);
	notary_fields(&c, &copy);
	if (c.bad)
		return -1;
	frame_head(ret, (uint16_t)m->type, (uint32_t)(c.to - ret) - FRAME_HEAD);
	return (int)(c.to - ret);
}
