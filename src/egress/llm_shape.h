/* llm_shape.h - which member of the bodies of model APIs means what. For llm_call.c. */
#pragma once

#include "json_scan.h"

enum llm_shape {
	MODEL_SHAPE_NOTHING,
	MODEL_SHAPE_MODEL,
	MODEL_SHAPE_STREAM,
	MODEL_SHAPE_INPUT,
	MODEL_SHAPE_OUTPUT,
	MODEL_SHAPE_CACHED,
	MODEL_SHAPE_STOP,
	MODEL_SHAPE_PROMPT,
	MODEL_SHAPE_ROLE,
	MODEL_SHAPE_COMPLETION,
	MODEL_SHAPE_TOKEN, /* output that is not shown, but marks the first token */
};

/* The meaning of the value that is being read, in a request and in an answer (or one of its
 * events). */
enum llm_shape llm_shape_request(const struct json_scan *s);
enum llm_shape llm_shape_answer(const struct json_scan *s);
