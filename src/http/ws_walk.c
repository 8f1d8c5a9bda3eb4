#include "ws_walk.h"

#include <string.h>

void ws_walk_init(struct ws_walk *w, bool masked, void (*random)(void *ret, size_t n))
{
	*w = (struct ws_walk){ .masked = masked, .random = random };
}

static void new_key(struct ws_walk *w, const struct ws_head *h, uint8_t *key)
{
	w->random(key, sizeof(h->mask));
	for (size_t i = 0; i < sizeof(h->mask); i++)
		w->change[i] = h->mask[i] ^ key[i];
}

/* The length of the head; 0: not complete; -1: malformed. */
static int take_head(struct ws_walk *w, uint8_t *bytes, size_t len)
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
		new_key(w, &h, bytes + n - sizeof(h.mask));
	return n;
}

static size_t take_payload(struct ws_walk *w, uint8_t *bytes, size_t len)
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
			at += take_payload(w, bytes + at, len - at);
			continue;
		}
		n = take_head(w, bytes + at, len - at);
		if (n < 0 && at == 0)
			return -1;
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	return (ssize_t)at;
}
