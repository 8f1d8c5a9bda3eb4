/* llm_shape.h - which member of the bodies of model APIs means what. For llm_call.c. */
#pragma once

#include "json_scan.h"

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
	LLM_SHAPE_TOKEN, /* output that is not shown, but marks the first token */
};

/* The meaning of the value that is being read, in a request and in an answer (or one of its
 * events). */
enum llm_shape llm_shape_request(const struct json_scan *s);
enum llm_shape llm_shape_answer(const struct json_scan *s);
