/* ws.c - RFC 6455: section 5.2 for frames, 5.5 for control frames, 7.4 for close codes. */
#include "lib/http/ws.h"

#include <assert.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/sha1.h"
#include "lib/base/utf8.h"

#define KEY_MAX 64
#define FIN 0x80
#define MASKED 0x80
#define LENGTH_16 126
#define LENGTH_64 127

void ws_accept_key(struct http1_span key, char ret[WS_ACCEPT_LEN + 1])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	char text[KEY_MAX + sizeof(guid)];
	uint8_t digest[SHA1_SIZE];

	assert(key.n > 0 && key.n <= KEY_MAX);
	memcpy(text, key.p, key.n);
	memcpy(text + key.n, guid, sizeof(guid) - 1);
	sha1_digest(text, key.n + sizeof(guid) - 1, digest);
	base64_encode(digest, sizeof(digest), ret);
}

static bool ws_is_control(unsigned opcode)
{
	return opcode >= WS_CLOSE;
}

static bool ws_is_opcode(unsigned opcode)
{
	return opcode <= WS_BINARY || (opcode >= WS_CLOSE && opcode <= WS_PONG);
}

static uint64_t ws_read_number(const uint8_t *p, size_t n)
{
	uint64_t value = 0;

	for (size_t i = 0; i < n; i++)
		value = value << 8 | p[i];
	return value;
}

static bool ws_is_minimal(uint8_t code, uint64_t length)
{
	if (code == LENGTH_16)
		return length >= LENGTH_16;
	if (code == LENGTH_64)
		return length > UINT16_MAX && length <= INT64_MAX;
	return true;
}

int ws_head_read(const void *bytes, size_t len, bool masked, struct ws_head *ret)
{
	const uint8_t *p = bytes;
	unsigned opcode, code;
	size_t n = 2, extra;

	if (len < 2)
		return 0;
	opcode = p[0] & 15;
	code = p[1] & 0x7f;
	if ((p[0] & 0x70) != 0 || !ws_is_opcode(opcode) || masked != ((p[1] & MASKED) != 0))
		return -1;
	if (ws_is_control(opcode) && ((p[0] & FIN) == 0 || code > WS_CONTROL_MAX))
		return -1;
	extra = code == LENGTH_16 ? 2 : code == LENGTH_64 ? 8 : 0;
	if (len < n + extra)
		return 0;
	*ret = (struct ws_head){ .fin = (p[0] & FIN) != 0,
				 .masked = masked,
				 .opcode = (enum ws_opcode)opcode,
				 .length = extra > 0 ? ws_read_number(p + n, extra) : code };
	if (!ws_is_minimal((uint8_t)code, ret->length))
		return -1;
	n += extra;
	if (!masked)
		return (int)n;
	if (len < n + sizeof(ret->mask))
		return 0;
	memcpy(ret->mask, p + n, sizeof(ret->mask));
	return (int)(n + sizeof(ret->mask));
}

size_t ws_head_write(const struct ws_head *h, uint8_t ret[WS_HEAD_MAX])
{
	size_t n = 2, extra = 0;

	assert(ws_is_opcode(h->opcode) && h->length <= INT64_MAX);
	assert(!ws_is_control(h->opcode) || (h->fin && h->length <= WS_CONTROL_MAX));
	ret[0] = (uint8_t)((h->fin ? FIN : 0) | h->opcode);
	ret[1] = (uint8_t)h->length;
	if (h->length > UINT16_MAX) {
		ret[1] = LENGTH_64;
		extra = 8;
	} else if (h->length >= LENGTH_16) {
		ret[1] = LENGTH_16;
		extra = 2;
	}
	for (size_t i = 0; i < extra; i++)
		ret[n++] = (uint8_t)(h->length >> (8 * (extra - 1 - i)));
	if (h->masked) {
		ret[1] |= MASKED;
		memcpy(ret + n, h->mask, sizeof(h->mask));
		n += sizeof(h->mask);
	}
	return n;
}

void ws_mask(void *data, size_t n, const uint8_t mask[4], uint64_t offset)
{
	uint8_t *p = data;

	for (size_t i = 0; i < n; i++)
		p[i] ^= mask[(offset + i) & 3];
}

bool ws_order_check(bool *open, const struct ws_head *h)
{
	if (ws_is_control(h->opcode))
		return true; /* control frames may come between fragments */
	if (*open != (h->opcode == WS_CONTINUATION))
		return false;
	*open = !h->fin;
	return true;
}

/* May a close frame have this code: is it defined by the RFC, registered since, or free for use? */
static bool ws_is_code(uint16_t code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

int ws_close_read(const void *payload, size_t n, uint16_t *ret_code, struct http1_span *ret_reason)
{
	const uint8_t *p = payload;
	struct ws_text text = { 0 };
	uint16_t code;

	*ret_code = WS_CODE_NO_STATUS;
	*ret_reason = (struct http1_span){ NULL, 0 };
	if (n == 0)
		return 0;
	if (n == 1 || n > WS_CONTROL_MAX)
		return -1;
	code = (uint16_t)ws_read_number(p, 2);
	if (!ws_is_code(code) || !ws_text_feed(&text, p + 2, n - 2) || !ws_text_ended(&text))
		return -1;
	*ret_code = code;
	*ret_reason = (struct http1_span){ (const char *)p + 2, n - 2 };
	return 0;
}

size_t ws_close_write(uint16_t code, const char *reason, uint8_t ret[WS_CONTROL_MAX])
{
	size_t len = reason == NULL ? 0 : strlen(reason), n = 0;

	assert(ws_is_code(code));
	ret[0] = (uint8_t)(code >> 8);
	ret[1] = (uint8_t)(code & 0xff);
	while (n < len) {
		size_t one = utf8_length((const uint8_t *)reason + n, len - n);

		if (one == 0 || n + one > WS_CONTROL_MAX - 2)
			break;
		n += one;
	}
	if (n > 0)
		memcpy(ret + 2, reason, n);
	return n + 2;
}

/* The bytes that may follow a first byte: RFC 3629, 4. */
static bool ws_begin_character(struct ws_text *t, uint8_t b)
{
	if (b < 0x80)
		return true;
	t->low = 0x80;
	t->high = 0xbf;
	if (b >= 0xc2 && b <= 0xdf) {
		t->need = 1;
	} else if (b >= 0xe0 && b <= 0xef) {
		t->need = 2;
		if (b == 0xe0)
			t->low = 0xa0; /* else overlong */
		if (b == 0xed)
			t->high = 0x9f; /* else a surrogate */
	} else if (b >= 0xf0 && b <= 0xf4) {
		t->need = 3;
		if (b == 0xf0)
			t->low = 0x90;
		if (b == 0xf4)
			t->high = 0x8f; /* else above U+10FFFF */
	} else {
		return false;
	}
	return true;
}

bool ws_text_feed(struct ws_text *t, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++) {
		if (t->need == 0) {
			if (!ws_begin_character(t, p[i]))
				return false;
			continue;
		}
		if (p[i] < t->low || p[i] > t->high)
			return false;
		t->need--;
		t->low = 0x80;
		t->high = 0xbf;
	}
	return true;
}

bool ws_text_ended(const struct ws_text *t)
{
	return t->need == 0;
}

/* ---- frames passed on */

void ws_walk_init(struct ws_walk *w, bool masked, void (*random)(void *ret, size_t n))
{
	*w = (struct ws_walk){ .masked = masked, .random = random };
}

static void ws_walk_new_key(struct ws_walk *w, const struct ws_head *h, uint8_t *key)
{
	w->random(key, sizeof(h->mask));
	for (size_t i = 0; i < sizeof(h->mask); i++)
		w->change[i] = h->mask[i] ^ key[i];
}

/* The length of the head. 0: not complete. -1: malformed. */
static int ws_walk_take_head(struct ws_walk *w, uint8_t *bytes, size_t len)
{
	struct ws_head h;
	int n = ws_head_read(bytes, len, w->masked, &h);

	if (n <= 0)
		return n;
	if (w->closed || !ws_order_check(&w->open, &h))
		return -1;
	w->closed = h.opcode == WS_CLOSE;
	w->left = h.length;
	w->offset = 0;
	w->frames++;
	if (w->masked)
		ws_walk_new_key(w, &h, bytes + n - sizeof(h.mask));
	return n;
}

static size_t ws_walk_take_payload(struct ws_walk *w, uint8_t *bytes, size_t len)
{
	size_t n = len < w->left ? len : (size_t)w->left;

	if (w->masked)
		ws_mask(bytes, n, w->change, w->offset);
	w->offset += n;
	w->left -= n;
	return n;
}

ssize_t ws_walk(struct ws_walk *w, uint8_t *bytes, size_t len)
{
	size_t at = 0;

	while (at < len) {
		int n;

		if (w->left > 0) {
			at += ws_walk_take_payload(w, bytes + at, len - at);
			continue;
		}
		n = ws_walk_take_head(w, bytes + at, len - at);
		if (n < 0 && at == 0)
			return -1;
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	return (ssize_t)at;
}
