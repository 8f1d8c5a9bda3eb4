#include "pull_msg.h"

#include <string.h>

#include "codec.h"

static bool is_type(unsigned type)
{
	return (type >= PULL_START && type < PULL_REQUESTS_END) ||
	       (type >= PULL_DOCUMENT && type < PULL_EVENTS_END);
}

static void get_start(struct codec_reader *r, struct pull_start *s)
{
	uint64_t aws;

	s->host = codec_get_string(r, PULL_HOST_MAX);
	s->path = codec_get_string(r, PULL_PATH_MAX);
	s->reference = codec_get_string(r, PULL_REFERENCE_MAX);
	s->user = codec_get_string(r, PULL_USER_MAX);
	s->password = codec_get_string(r, PULL_PASSWORD_MAX);
	s->mirror = codec_get_string(r, PULL_URL_MAX);
	s->open_hosts = codec_get_string(r, PULL_HOSTS_MAX);
	s->deadline_ms = codec_get(r, 8);
	s->patience_ms = codec_get(r, 8);
	aws = codec_get(r, 1);
	s->aws = aws == 1;
	r->bad = r->bad || aws > 1 || s->host[0] == '\0' || s->path[0] == '\0' ||
		 s->reference[0] == '\0' || s->deadline_ms == 0 || s->deadline_ms > UINT32_MAX ||
		 s->patience_ms == 0 || s->patience_ms > UINT32_MAX;
}

static void put_start(struct codec_writer *w, const struct pull_start *s)
{
	codec_put_string(w, PULL_HOST_MAX, s->host);
	codec_put_string(w, PULL_PATH_MAX, s->path);
	codec_put_string(w, PULL_REFERENCE_MAX, s->reference);
	codec_put_string(w, PULL_USER_MAX, s->user);
	codec_put_string(w, PULL_PASSWORD_MAX, s->password);
	codec_put_string(w, PULL_URL_MAX, s->mirror);
	codec_put_string(w, PULL_HOSTS_MAX, s->open_hosts);
	codec_put(w, 8, s->deadline_ms);
	codec_put(w, 8, s->patience_ms);
	codec_put(w, 1, s->aws ? 1 : 0);
}

static void get_digest(struct codec_reader *r, uint8_t ret[32])
{
	for (unsigned i = 0; i < 32; i++)
		ret[i] = (uint8_t)codec_get(r, 1);
}

static void put_bytes(struct codec_writer *w, const uint8_t *data, size_t n)
{
	w->bad = w->bad || n > w->n;
	if (w->bad || n == 0)
		return;
	memcpy(w->p, data, n);
	w->p += n;
	w->n -= n;
}

static void get_failed(struct codec_reader *r, struct pull_msg *m)
{
	uint64_t code = codec_get(r, 1);

	m->code = code > ERR_NONE && code < ERR_CODES ? (enum err_code)code : ERR_SYSTEM;
	m->word = codec_get_string(r, PULL_WORD_MAX);
	m->text = codec_get_string(r, PULL_TEXT_MAX);
}

static void get_document(struct codec_reader *r, struct pull_msg *m)
{
	uint64_t kind = codec_get(r, 1);

	r->bad = r->bad || kind >= PULL_DOCUMENTS || r->n == 0 || r->n > PULL_DOCUMENT_MAX;
	m->document = r->bad ? PULL_INDEX : (enum pull_document)kind;
	m->data = r->p;
	m->len = r->n;
	r->n = 0;
}

static void get_fields(struct codec_reader *r, struct pull_msg *m)
{
	if (m->type == PULL_START)
		get_start(r, &m->start);
	if (m->type == PULL_BLOB)
		get_digest(r, m->sha256);
	if (m->type == PULL_BLOB || m->type == PULL_PROGRESS)
		m->bytes = codec_get(r, 8);
	if (m->type == PULL_DOCUMENT)
		get_document(r, m);
	if (m->type == PULL_FAILED)
		get_failed(r, m);
}

/* Which numbers a message must have. */
static bool has_numbers(const struct pull_msg *m)
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
	struct codec_reader r = { .p = f->body, .n = f->len };

	if (!is_type(f->type))
		return err_set(e, ERR_INVALID, "cordon-pull: unknown message type %u", f->type);
	*ret = (struct pull_msg){ .type = (enum pull_type)f->type };
	ret->pull = (uint32_t)codec_get(&r, 4);
	ret->blob = (uint32_t)codec_get(&r, 4);
	get_fields(&r, ret);
	if (r.bad || r.n != 0 || !has_numbers(ret))
		return err_set(e, ERR_INVALID, "cordon-pull: malformed message %u", f->type);
	return 0;
}

int pull_msg_write(const struct pull_msg *m, uint8_t *ret, size_t cap)
{
	struct codec_writer w = { .p = ret + FRAME_HEAD,
				  .n = cap < FRAME_HEAD ? 0 : cap - FRAME_HEAD,
				  .bad = cap < FRAME_HEAD };

	codec_put(&w, 4, m->pull);
	codec_put(&w, 4, m->blob);
	if (m->type == PULL_START)
		put_start(&w, &m->start);
	if (m->type == PULL_BLOB)
		put_bytes(&w, m->sha256, sizeof(m->sha256));
	if (m->type == PULL_BLOB || m->type == PULL_PROGRESS)
		codec_put(&w, 8, m->bytes);
	if (m->type == PULL_DOCUMENT) {
		codec_put(&w, 1, m->document);
		put_bytes(&w, m->data, m->len);
	}
	if (m->type == PULL_FAILED) {
		codec_put(&w, 1, m->code);
		codec_put_string(&w, PULL_WORD_MAX, m->word);
		codec_put_string(&w, PULL_TEXT_MAX, m->text);
	}
	if (w.bad)
		return -1;
	frame_head(ret, (uint16_t)m->type, (uint32_t)(w.p - ret) - FRAME_HEAD);
	return (int)(w.p - ret);
}
