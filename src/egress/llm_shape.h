/* llm_shape.h - which member of a model API's bodies means what. */
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
	MODEL_SHAPE_TOKEN, /* something the model made that is not shown: it began */
};

/* Of the value that is being read, in a request and in an answer (or an event of one). */
enum llm_shape llm_shape_request(const struct json_scan *s);
enum llm_shape llm_shape_answer(const struct json_scan *s);
