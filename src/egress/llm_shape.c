#include "llm_shape.h"

#include "own.h"

struct member {
	const char *path;
	enum llm_shape what;
};

static const struct member of_request[] = {
	{ "model", LLM_SHAPE_MODEL },
	{ "stream", LLM_SHAPE_STREAM },
	{ "messages.[].role", LLM_SHAPE_ROLE },
	{ "messages.[].content", LLM_SHAPE_PROMPT },
	{ "messages.[].content.[].text", LLM_SHAPE_PROMPT },
	{ "system", LLM_SHAPE_PROMPT },
	{ "system.[].text", LLM_SHAPE_PROMPT },
	{ "prompt", LLM_SHAPE_PROMPT },
	{ "prompt.[]", LLM_SHAPE_PROMPT },
	{ "instructions", LLM_SHAPE_PROMPT },
	{ "input", LLM_SHAPE_PROMPT },
	{ "input.[]", LLM_SHAPE_PROMPT },
	{ "input.[].role", LLM_SHAPE_ROLE },
	{ "input.[].content", LLM_SHAPE_PROMPT },
	{ "input.[].content.[].text", LLM_SHAPE_PROMPT },
	/* a message response.create that wraps it */
	{ "response.model", LLM_SHAPE_MODEL },
	{ "response.instructions", LLM_SHAPE_PROMPT },
	{ "response.input", LLM_SHAPE_PROMPT },
	{ "response.input.[].role", LLM_SHAPE_ROLE },
	{ "response.input.[].content", LLM_SHAPE_PROMPT },
	{ "response.input.[].content.[].text", LLM_SHAPE_PROMPT },
	/* Gemini */
	{ "contents.[].role", LLM_SHAPE_ROLE },
	{ "contents.[].parts.[].text", LLM_SHAPE_PROMPT },
	{ "systemInstruction.parts.[].text", LLM_SHAPE_PROMPT },
	{ "system_instruction.parts.[].text", LLM_SHAPE_PROMPT },
	{ "content.parts.[].text", LLM_SHAPE_PROMPT },
	{ "requests.[].content.parts.[].text", LLM_SHAPE_PROMPT },
};

static const struct member of_answer[] = {
	{ "model", LLM_SHAPE_MODEL },
	{ "message.model", LLM_SHAPE_MODEL },
	{ "response.model", LLM_SHAPE_MODEL },
	{ "usage.prompt_tokens", LLM_SHAPE_INPUT },
	{ "usage.input_tokens", LLM_SHAPE_INPUT },
	{ "message.usage.input_tokens", LLM_SHAPE_INPUT },
	{ "response.usage.input_tokens", LLM_SHAPE_INPUT },
	{ "input_tokens", LLM_SHAPE_INPUT }, /* count_tokens */
	{ "usage.completion_tokens", LLM_SHAPE_OUTPUT },
	{ "usage.output_tokens", LLM_SHAPE_OUTPUT },
	{ "message.usage.output_tokens", LLM_SHAPE_OUTPUT },
	{ "response.usage.output_tokens", LLM_SHAPE_OUTPUT },
	{ "usage.prompt_tokens_details.cached_tokens", LLM_SHAPE_CACHED },
	{ "usage.input_tokens_details.cached_tokens", LLM_SHAPE_CACHED },
	{ "response.usage.input_tokens_details.cached_tokens", LLM_SHAPE_CACHED },
	{ "usage.cache_read_input_tokens", LLM_SHAPE_CACHED },
	{ "message.usage.cache_read_input_tokens", LLM_SHAPE_CACHED },
	{ "choices.[].finish_reason", LLM_SHAPE_STOP },
	{ "stop_reason", LLM_SHAPE_STOP },
	{ "delta.stop_reason", LLM_SHAPE_STOP },
	{ "incomplete_details.reason", LLM_SHAPE_STOP },
	{ "response.incomplete_details.reason", LLM_SHAPE_STOP },
	{ "choices.[].message.content", LLM_SHAPE_COMPLETION },
	{ "choices.[].delta.content", LLM_SHAPE_COMPLETION },
	{ "choices.[].text", LLM_SHAPE_COMPLETION },
	{ "content.[].text", LLM_SHAPE_COMPLETION },
	{ "output.[].content.[].text", LLM_SHAPE_COMPLETION },
	{ "delta.text", LLM_SHAPE_COMPLETION },
	{ "delta", LLM_SHAPE_COMPLETION },
	{ "delta.thinking", LLM_SHAPE_TOKEN },
	{ "delta.partial_json", LLM_SHAPE_TOKEN },
	{ "choices.[].delta.reasoning_content", LLM_SHAPE_TOKEN },
	{ "choices.[].delta.refusal", LLM_SHAPE_TOKEN },
	{ "choices.[].delta.tool_calls.[].function.arguments", LLM_SHAPE_TOKEN },
	/* Gemini: one object, or a list of them for a stream that is not one of events */
	{ "modelVersion", LLM_SHAPE_MODEL },
	{ "usageMetadata.promptTokenCount", LLM_SHAPE_INPUT },
	{ "usageMetadata.candidatesTokenCount", LLM_SHAPE_OUTPUT },
	{ "usageMetadata.thoughtsTokenCount", LLM_SHAPE_THOUGHTS },
	{ "usageMetadata.cachedContentTokenCount", LLM_SHAPE_CACHED },
	{ "candidates.[].finishReason", LLM_SHAPE_STOP },
	{ "candidates.[].content.parts.[].text", LLM_SHAPE_COMPLETION },
	{ "totalTokens", LLM_SHAPE_INPUT }, /* countTokens */
	{ "[].modelVersion", LLM_SHAPE_MODEL },
	{ "[].usageMetadata.promptTokenCount", LLM_SHAPE_INPUT },
	{ "[].usageMetadata.candidatesTokenCount", LLM_SHAPE_OUTPUT },
	{ "[].usageMetadata.thoughtsTokenCount", LLM_SHAPE_THOUGHTS },
	{ "[].usageMetadata.cachedContentTokenCount", LLM_SHAPE_CACHED },
	{ "[].candidates.[].finishReason", LLM_SHAPE_STOP },
	{ "[].candidates.[].content.parts.[].text", LLM_SHAPE_COMPLETION },
};

static enum llm_shape find(const struct json_scan *s, const struct member *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (json_scan_is(s, table[i].path))
			return table[i].what;
	return LLM_SHAPE_NOTHING;
}

enum llm_shape llm_shape_request(const struct json_scan *s)
{
	return find(s, of_request, COUNT(of_request));
}

enum llm_shape llm_shape_answer(const struct json_scan *s)
{
	return find(s, of_answer, COUNT(of_answer));
}
