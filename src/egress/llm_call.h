/* llm_call.h - calls of model APIs (OpenAI, Anthropic, Gemini), read as they pass: which model, how
 * many tokens, when the first came. Bounded; what is not understood is left out. Pure. Called by
 * gateway*.c. */
#pragma once

#include "http1.h"
#include "json.h"
#include "mask.h"
#include "policy.h"

struct llm_call;

/* NULL: the path is not of a model API. prompts: keep prompt and completion, too. */
struct llm_call *llm_call_new(const char *path, bool prompts);
void llm_call_free(struct llm_call *m);
size_t llm_call_memory(const struct llm_call *m); /* bytes that it has allocated; m may be NULL */
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
