/* llm_frames.h - the text messages in WebSocket frames, as they pass. Pure, keeps no payload. The
 * frames are well-formed (ws_walk.h has checked them); what is not ends the reading. For
 * llm_call.c. */
#pragma once

#include "ws.h"

struct llm_frames {
	bool masked; /* frames of a client */
	bool broken; /* nothing more is read */
	bool text;   /* the message is one of text */
	uint8_t head[WS_HEAD_MAX];
	size_t nhead; /* bytes of a head that is not complete */
	struct ws_head now;
	uint64_t left, offset; /* of the payload of this frame */
};

struct llm_frames_calls {
	void (*on_text)(void *arg, const uint8_t *data, size_t n);
	void (*on_end)(void *arg); /* of a message of text */
};

void llm_frames_init(struct llm_frames *f, bool masked);
void llm_frames_feed(struct llm_frames *f, const uint8_t *data, size_t n,
		     const struct llm_frames_calls *calls, void *arg);
