#include "llm_shape.h"

#include "own.h"

struct member {
	const char *path;
	enum llm_shape what;
};

static const struct member of_request[] = {
	{ "model", MODEL_SHAPE_MODEL },
	{ "stream", MODEL_SHAPE_STREAM },
	{ "messages.[].role", MODEL_SHAPE_ROLE },
	{ "messages.[].content", MODEL_SHAPE_PROMPT },
	{ "messages.[].content.[].text", MODEL_SHAPE_PROMPT },
	{ "system", MODEL_SHAPE_PROMPT },
	{ "system.[].text", MODEL_SHAPE_PROMPT },
	{ "prompt", MODEL_SHAPE_PROMPT },
	{ "prompt.[]", MODEL_SHAPE_PROMPT },
	{ "instructions", MODEL_SHAPE_PROMPT },
	{ "input", MODEL_SHAPE_PROMPT },
	{ "input.[]", MODEL_SHAPE_PROMPT },
	{ "input.[].role", MODEL_SHAPE_ROLE },
	{ "input.[].content", MODEL_SHAPE_PROMPT },
	{ "input.[].content.[].text", MODEL_SHAPE_PROMPT },
};

static const struct member of_answer[] = {
	{ "model", MODEL_SHAPE_MODEL },
	{ "message.model", MODEL_SHAPE_MODEL },
	{ "response.model", MODEL_SHAPE_MODEL },
	{ "usage.prompt_tokens", MODEL_SHAPE_INPUT },
	{ "usage.input_tokens", MODEL_SHAPE_INPUT },
	{ "message.usage.input_tokens", MODEL_SHAPE_INPUT },
	{ "response.usage.input_tokens", MODEL_SHAPE_INPUT },
	{ "input_tokens", MODEL_SHAPE_INPUT }, /* count_tokens */
	{ "usage.completion_tokens", MODEL_SHAPE_OUTPUT },
	{ "usage.output_tokens", MODEL_SHAPE_OUTPUT },
	{ "message.usage.output_tokens", MODEL_SHAPE_OUTPUT },
	{ "response.usage.output_tokens", MODEL_SHAPE_OUTPUT },
	{ "usage.prompt_tokens_details.cached_tokens", MODEL_SHAPE_CACHED },
	{ "usage.input_tokens_details.cached_tokens", MODEL_SHAPE_CACHED },
	{ "response.usage.input_tokens_details.cached_tokens", MODEL_SHAPE_CACHED },
	{ "usage.cache_read_input_tokens", MODEL_SHAPE_CACHED },
	{ "message.usage.cache_read_input_tokens", MODEL_SHAPE_CACHED },
	{ "choices.[].finish_reason", MODEL_SHAPE_STOP },
	{ "stop_reason", MODEL_SHAPE_STOP },
	{ "delta.stop_reason", MODEL_SHAPE_STOP },
	{ "incomplete_details.reason", MODEL_SHAPE_STOP },
	{ "response.incomplete_details.reason", MODEL_SHAPE_STOP },
	{ "choices.[].message.content", MODEL_SHAPE_COMPLETION },
	{ "choices.[].delta.content", MODEL_SHAPE_COMPLETION },
	{ "choices.[].text", MODEL_SHAPE_COMPLETION },
	{ "content.[].text", MODEL_SHAPE_COMPLETION },
	{ "output.[].content.[].text", MODEL_SHAPE_COMPLETION },
	{ "delta.text", MODEL_SHAPE_COMPLETION },
	{ "delta", MODEL_SHAPE_COMPLETION },
	{ "delta.thinking", MODEL_SHAPE_TOKEN },
	{ "delta.partial_json", MODEL_SHAPE_TOKEN },
	{ "choices.[].delta.reasoning_content", MODEL_SHAPE_TOKEN },
	{ "choices.[].delta.refusal", MODEL_SHAPE_TOKEN },
	{ "choices.[].delta.tool_calls.[].function.arguments", MODEL_SHAPE_TOKEN },
};

static enum llm_shape find(const struct json_scan *s, const struct member *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (json_scan_is(s, table[i].path))
			return table[i].what;
	return MODEL_SHAPE_NOTHING;
}

enum llm_shape llm_shape_request(const struct json_scan *s)
{
	return find(s, of_request, COUNT(of_request));
}

enum llm_shape llm_shape_answer(const struct json_scan *s)
{
	return find(s, of_answer, COUNT(of_answer));
}
