#include "llm_frames.h"

#include <string.h>

#define PIECE_MAX 1024

void llm_frames_init(struct llm_frames *f, bool masked)
{
	*f = (struct llm_frames){ .masked = masked };
}

static bool is_control(const struct llm_frames *f)
{
	return f->now.opcode >= WS_CLOSE;
}

static void end_frame(struct llm_frames *f, const struct llm_frames_calls *calls, void *arg)
{
	f->nhead = 0;
	if (f->text && f->now.fin && !is_control(f))
		calls->on_end(arg);
}

/* True: a head is complete. */
static bool take_byte(struct llm_frames *f, uint8_t byte)
{
	int n;

	f->head[f->nhead++] = byte;
	n = ws_head_read(f->head, f->nhead, f->masked, &f->now);
	f->broken = n < 0 || (n == 0 && f->nhead == sizeof(f->head));
	if (f->broken || n == 0)
		return false;
	f->left = f->now.length;
	f->offset = 0;
	if (f->now.opcode == WS_TEXT || f->now.opcode == WS_BINARY)
		f->text = f->now.opcode == WS_TEXT;
	return true;
}

static size_t take_payload(struct llm_frames *f, const uint8_t *data, size_t n,
			   const struct llm_frames_calls *calls, void *arg)
{
	uint8_t piece[PIECE_MAX];
	size_t most = n < sizeof(piece) ? n : sizeof(piece);

	if (most > f->left)
		most = (size_t)f->left;
	if (f->text && !is_control(f)) {
		memcpy(piece, data, most);
		if (f->masked)
			ws_mask(piece, most, f->now.mask, f->offset);
		calls->on_text(arg, piece, most);
		explicit_bzero(piece, most);
	}
	f->offset += most;
	f->left -= most;
	return most;
}

void llm_frames_feed(struct llm_frames *f, const uint8_t *data, size_t n,
		     const struct llm_frames_calls *calls, void *arg)
{
	for (size_t i = 0; i < n && !f->broken;) {
		if (f->left > 0) {
			i += take_payload(f, data + i, n - i, calls, arg);
			if (f->left == 0)
				end_frame(f, calls, arg);
		} else if (take_byte(f, data[i++]) && f->left == 0) {
			end_frame(f, calls, arg);
		}
	}
}
