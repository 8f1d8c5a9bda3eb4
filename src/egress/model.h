/* model.h - calls of model APIs (OpenAI's and Anthropic's shapes), read as they pass: which model,
 * how many tokens, when the first came. Bounded; what is not understood is left out. Pure. */
#pragma once

#include "http1.h"
#include "json.h"
#include "mask.h"
#include "policy.h"

struct model;

/* NULL if the path is none of a model API's. prompts: keep them, too. */
struct model *model_new(const char *path, bool prompts);
void model_free(struct model *m);
size_t model_memory(const struct model *m); /* bytes that it has allocated; m may be NULL */
void model_request(struct model *m, const uint8_t *data, size_t len); /* body as it passes */
void model_response(struct model *m, int status, struct http1_span content_type);
/* Body as it passes, not compressed. since_ns: since the request began. */
void model_answer(struct model *m, const uint8_t *data, size_t len, uint64_t since_ns);
/* Members "provider", "model", "operation", "stream", "input_tokens", "output_tokens",
 * "cached_tokens", "first_token_ms", "stop", and, only if asked, "prompt" and "completion". Values
 * of the mask (NULL: none) are covered in each text. */
void model_write(struct model *m, const struct mask *mask, struct json *j);
