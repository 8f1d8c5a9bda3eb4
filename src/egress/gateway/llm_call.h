/* llm_call.h - calls of model APIs (OpenAI, Anthropic, Gemini), read as they pass: which model, how
 * many tokens, when the first came. Bounded. Unknown members are left out. Pure. Called by
 * gateway*.c. */
#pragma once

#include "lib/http/http1.h"
#include "lib/http/ws.h"
#include "lib/json/json.h"
#include "lib/json/json_scan.h"
#include "lib/mask/mask.h"
#include "lib/policy/policy.h"

struct llm_call;

/* NULL: the path is not of a model API. prompts: keep prompt and completion, too. */
struct llm_call *llm_call_new(const char *path, bool prompts);
void llm_call_free(struct llm_call *m);
size_t llm_call_memory(const struct llm_call *m); /* bytes that it has allocated. m may be NULL */
/* the body, as it passes */
void llm_call_request(struct llm_call *m, const uint8_t *data, size_t len);
/* status 101: what follows, on both sides, are the frames of a WebSocket, heads included. */
void llm_call_response(struct llm_call *m, int status, struct http1_span content_type);
/* The body, as it passes, not compressed. since_ns: since the request began. */
void llm_call_answer(struct llm_call *m, const uint8_t *data, size_t len, uint64_t since_ns);
/* Members "provider", "model", "operation", "stream", "input_tokens", "output_tokens",
 * "cached_tokens", "first_token_ms", "stop", and, only if asked for, "prompt" and "completion".
 * Secrets of the mask (NULL: none) are masked in each text. */
void llm_call_write(struct llm_call *m, const struct mask *mask, struct json *j);

/* ---- the text messages in WebSocket frames, as they pass. Pure, keeps no payload. The
 * frames are well-formed (ws.h has checked them). Any other frame ends the reading. For
 * llm_call.c. */

struct llm_frames {
	bool masked; /* frames of a client */
	bool broken; /* nothing more is read */
	bool text;   /* the message is one of text */
	uint8_t head[WS_HEAD_MAX];
	size_t nhead; /* bytes of an incomplete head */
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

/* ---- the meaning of members in bodies of model APIs. For llm_call.c. */

enum llm_shape {
	LLM_SHAPE_NOTHING,
	LLM_SHAPE_MODEL,
	LLM_SHAPE_STREAM,
	LLM_SHAPE_INPUT,
	LLM_SHAPE_OUTPUT,
	LLM_SHAPE_CACHED,
	LLM_SHAPE_THOUGHTS, /* output that the API does not count as such */
	LLM_SHAPE_STOP,
	LLM_SHAPE_PROMPT,
	LLM_SHAPE_ROLE,
	LLM_SHAPE_COMPLETION,
	LLM_SHAPE_TOKEN, /* hidden output that marks the first token */
};

/* The meaning of the value being read, in a request and in an answer (or one of its events). */
enum llm_shape llm_shape_request(const struct json_scan *s);
enum llm_shape llm_shape_answer(const struct json_scan *s);
