#include "lib/wire/frame.h"

#include <assert.h>
#include <limits.h>

static uint32_t frame_get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int frame_read_stream(const uint8_t *bytes, size_t len, size_t max, struct frame *ret,
		      struct err *e)
{
	uint32_t body;

	assert(max <= INT_MAX - FRAME_HEAD);
	if (len < FRAME_HEAD)
		return 0;
	body = frame_get32(bytes);
	if (body > max)
		return err_set(e, ERR_LIMIT, "frame of %u bytes, at most %zu", body, max);
	if (len - FRAME_HEAD < body)
		return 0;
	*ret = (struct frame){ .type = (uint16_t)(bytes[4] | bytes[5] << 8),
			       .stream = (uint16_t)(bytes[6] | bytes[7] << 8),
			       .len = body,
			       .body = bytes + FRAME_HEAD };
	return (int)(FRAME_HEAD + body);
}

int frame_read(const uint8_t *bytes, size_t len, size_t max, struct frame *ret, struct err *e)
{
	if (len >= FRAME_HEAD && frame_get32(bytes) <= max && (bytes[6] != 0 || bytes[7] != 0))
		return err_set(e, ERR_INVALID, "frame head is malformed");
	return frame_read_stream(bytes, len, max, ret, e);
}

void frame_head_stream(uint8_t head[FRAME_HEAD], uint16_t type, uint16_t stream, uint32_t len)
{
	for (unsigned i = 0; i < 4; i++)
		head[i] = (uint8_t)(len >> (8 * i));
	head[4] = (uint8_t)type;
	head[5] = (uint8_t)(type >> 8);
	head[6] = (uint8_t)stream;
	head[7] = (uint8_t)(stream >> 8);
}

void frame_head(uint8_t head[FRAME_HEAD], uint16_t type, uint32_t len)
{
	frame_head_stream(head, type, 0, len);
}
