#include "lib/wire/pull_msg.h"

#include <string.h>

#include "lib/wire/codec.h"

static bool pull_is_type(unsigned type)
{
	return (type >= PULL_START && type < PULL_REQUESTS_END) ||
	       (type >= PULL_DOCUMENT && type < PULL_EVENTS_END);
}

static void pull_start(struct codec *c, struct pull_start *s)
{
	codec_string(c, PULL_HOST_MAX, &s->host);
	codec_string(c, PULL_PATH_MAX, &s->path);
	codec_string(c, PULL_REFERENCE_MAX, &s->reference);
	codec_string(c, PULL_USER_MAX, &s->user);
	codec_string(c, PULL_PASSWORD_MAX, &s->password);
	codec_string(c, PULL_URL_MAX, &s->mirror);
	codec_string(c, PULL_HOSTS_MAX, &s->open_hosts);
	codec_int(c, 8, s->deadline_ms);
	codec_int(c, 8, s->patience_ms);
	codec_flag(c, &s->aws);
}

/* Values that a START must have. The other side may be taken over, so its reader asks. */
static bool pull_is_whole(const struct pull_start *s)
{
	return s->host[0] != '\0' && s->path[0] != '\0' && s->reference[0] != '\0' &&
	       s->deadline_ms != 0 && s->deadline_ms <= UINT32_MAX && s->patience_ms != 0 &&
	       s->patience_ms <= UINT32_MAX;
}

/* An unknown code counts as ERR_SYSTEM: the pull has failed all the same. */
static void pull_failed(struct codec *c, struct pull_msg *m)
{
	uint64_t code = codec_number(c, 1, m->code);

	m->code = code > ERR_NONE && code < ERR_CODES ? (enum err_code)code : ERR_SYSTEM;
	codec_string(c, PULL_WORD_MAX, &m->word);
	codec_string(c, PULL_TEXT_MAX, &m->text);
}

/* The layout of a message, by its type. */
static void pull_fields(struct codec *c, struct pull_msg *m)
{
	if (m->type == PULL_START)
		pull_start(c, &m->start);
	if (m->type == PULL_BLOB)
		codec_bytes(c, m->sha256, sizeof(m->sha256));
	if (m->type == PULL_BLOB || m->type == PULL_PROGRESS)
		codec_int(c, 8, m->bytes);
	if (m->type == PULL_DOCUMENT) {
		codec_int(c, 1, m->document);
		codec_rest(c, &m->data, &m->len);
	}
	if (m->type == PULL_FAILED)
		pull_failed(c, m);
}

static bool pull_values_fit(const struct pull_msg *m)
{
	if (m->type == PULL_START)
		return pull_is_whole(&m->start);
	return m->type != PULL_DOCUMENT ||
	       (m->document < PULL_DOCUMENTS && m->len > 0 && m->len <= PULL_DOCUMENT_MAX);
}

/* The numbers that a message must have. */
static bool pull_has_numbers(const struct pull_msg *m)
{
	bool of_pull = m->type != PULL_PING && m->type != PULL_PONG;
	bool of_blob =
		m->type == PULL_BLOB || m->type == PULL_PROGRESS || m->type == PULL_BLOB_DONE;

	if (m->type == PULL_FAILED)
		return m->pull != 0;
	return (m->pull != 0) == of_pull && (m->blob != 0) == of_blob;
}

int pull_msg_read(const struct frame *f, struct pull_msg *ret, struct err *e)
{
	struct codec c = codec_reader(f->body, f->len);

	if (!pull_is_type(f->type))
		return err_set(e, ERR_INVALID, "cordon-pull: unknown message type %u", f->type);
	*ret = (struct pull_msg){ .type = (enum pull_type)f->type };
	codec_int(&c, 4, ret->pull);
	codec_int(&c, 4, ret->blob);
	pull_fields(&c, ret);
	if (c.bad || c.n != 0 || !pull_has_numbers(ret) || !pull_values_fit(ret))
		return err_set(e, ERR_INVALID, "cordon-pull: malformed message %u", f->type);
	return 0;
}

int pull_msg_write(const struct pull_msg *m, uint8_t *ret, size_t cap)
{
	struct codec c = codec_writer(ret + FRAME_HEAD, cap < FRAME_HEAD ? 0 : cap - FRAME_HEAD);
	struct pull_msg copy = *m;

	codec_int(&c, 4, copy.pull);
	codec_int(&c, 4, copy.blob);
	pull_fields(&c, &copy);
	if (c.bad || cap < FRAME_HEAD)
		return -1;
	frame_head(ret, (uint16_t)m->type, (uint32_t)(c.to - ret) - FRAME_HEAD);
	return (int)(c.to - ret);
}
