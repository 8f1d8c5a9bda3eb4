/* Goal: what a model call was, from bodies as the two providers send them, cut at every byte. */
#include "egress/gateway/llm_call.h"

#include "support.h"
#include "lib/http/ws.h"

static struct http1_span span(const char *text)
{
	return (struct http1_span){ text, strlen(text) };
}

/* In pieces of n bytes: all of one call, and what is written of it. */
static void run(const char *path, const char *request, const char *type, const char *answer,
		bool prompts, size_t n, char *ret, size_t cap)
{
	struct llm_call *m = llm_call_new(path, prompts);
	size_t len = strlen(answer);
	struct json j;

	CHECK(m != NULL);
	for (size_t i = 0, left = strlen(request); i < strlen(request); i += n, left -= n) {
		char *piece = exact_copy(request + i, left < n ? left : n);

		llm_call_request(m, (const uint8_t *)piece, left < n ? left : n);
		free(piece);
		if (left < n)
			break;
	}
	llm_call_response(m, 200, span(type));
	for (size_t i = 0; i < len; i += n) {
		size_t piece_n = len - i < n ? len - i : n;
		char *piece = exact_copy(answer + i, piece_n);

		llm_call_answer(m, (const uint8_t *)piece, piece_n, 42000000);
		free(piece);
	}
	json_init(&j, ret, cap);
	json_open(&j, NULL, '{');
	llm_call_write(m, NULL, &j);
	json_close(&j, '}');
	CHECK(json_ok(&j));
	llm_call_free(m);
}

static void check(const char *path, const char *request, const char *type, const char *answer,
		  bool prompts, const char *want)
{
	char got[4096];

	for (size_t n = 1; n <= strlen(answer) + 1; n++) {
		run(path, request, type, answer, prompts, n, got, sizeof(got));
		CHECK_STR(got, want);
	}
}

static const char chat_request[] =
	"{\"model\": \"gpt-4o-mini\", \"messages\": [{\"role\": \"system\", \"content\": \"Be "
	"\\\"brief\\\".\"},"
	" {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"H\\u00e9llo "
	"\\ud83d\\ude00\"}]}],"
	" \"temperature\": 0.2, \"tools\": [{\"function\": {\"name\": \"model\"}}]}";

static void openai_chat(void)
{
	static const char answer[] =
		"{\n \"id\": \"chatcmpl-1\", \"object\": \"chat.completion\", \"model\": "
		"\"gpt-4o-mini-2024\","
		" \"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\", \"content\": "
		"\"Hi \\n there\"},"
		" \"logprobs\": null, \"finish_reason\": \"stop\"}], \"usage\": "
		"{\"prompt_tokens\": 19,"
		" \"completion_tokens\": 10, \"total_tokens\": 29, \"prompt_tokens_details\":"
		" {\"cached_tokens\": 7}}}\n";

	check("/v1/chat/completions", chat_request, "application/json", answer, false,
	      "{\"provider\":\"openai\",\"operation\":\"chat\",\"model\":\"gpt-4o-mini-2024\","
	      "\"stream\":false,"
	      "\"input_tokens\":19,\"output_tokens\":10,\"cached_tokens\":7,\"first_token_ms\":"
	      "null,"
	      "\"stop\":\"stop\"}");
	check("/openai/deployments/d/chat/completions", chat_request,
	      "application/json; charset=utf-8", answer, true,
	      "{\"provider\":\"openai\",\"operation\":\"chat\",\"model\":\"gpt-4o-mini-2024\","
	      "\"stream\":false,"
	      "\"input_tokens\":19,\"output_tokens\":10,\"cached_tokens\":7,\"first_token_ms\":"
	      "null,"
	      "\"stop\":\"stop\",\"prompt\":\"system: Be \\\"brief\\\".\\nuser: H\xc3\xa9llo "
	      "\xf0\x9f\x98\x80\\n\",\"completion\":\"Hi \\n there\"}");
}

static const char stream_request[] = "{\"model\":\"gpt-4o\",\"stream\":true,\"messages\":[]}";
#define CHUNK "data: {\"model\":\"gpt-4o\",\"choices\":[{\"delta\":{\"content\":"
#define CHUNKS                                                                                \
	"data: "                                                                              \
	"{\"model\":\"gpt-4o\",\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n" CHUNK \
	"\"Hel\"},\"finish_reason\":null}],\"usage\":null}\r\n\r\n" CHUNK "\"lo\"}}]}\n\n"    \
	"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"

static void openai_stream(void)
{
	check("/v1/chat/completions", stream_request, "text/event-stream",
	      ": hello\n" CHUNKS
	      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n"
	      "data: [DONE]\n\n",
	      true,
	      "{\"provider\":\"openai\",\"operation\":\"chat\",\"model\":\"gpt-4o\",\"stream\":"
	      "true,"
	      "\"input_tokens\":5,\"output_tokens\":2,\"cached_tokens\":null,\"first_token_ms\":42,"
	      "\"stop\":\"length\",\"prompt\":\"\",\"completion\":\"Hello\"}");
	check("/v1/chat/completions", stream_request, "text/event-stream",
	      CHUNKS "data: [DONE]\n\n", false,
	      "{\"provider\":\"openai\",\"operation\":\"chat\",\"model\":\"gpt-4o\",\"stream\":"
	      "true,"
	      "\"input_tokens\":null,\"output_tokens\":null,\"cached_tokens\":null,\"first_token_"
	      "ms\":42,"
	      "\"stop\":\"length\"}");
}

static void openai_others(void)
{
	check("/v1/responses", "{\"model\":\"o4\",\"stream\":true,\"input\":\"Say it\"}",
	      "text/event-stream",
	      "event: response.created\ndata: "
	      "{\"type\":\"response.created\",\"response\":{\"model\":\"o4-x\","
	      "\"usage\":null}}\n\nevent: response.output_text.delta\ndata: {\"delta\":\"It\"}\n\n"
	      "event: response.completed\ndata: {\"response\":{\"status\":\"completed\",\"usage\":"
	      "{\"input_tokens\":3,\"input_tokens_details\":{\"cached_tokens\":0},\"output_"
	      "tokens\":1}}}\n\n",
	      true,
	      "{\"provider\":\"openai\",\"operation\":\"response\",\"model\":\"o4-x\",\"stream\":"
	      "true,"
	      "\"input_tokens\":3,\"output_tokens\":1,\"cached_tokens\":0,\"first_token_ms\":42,"
	      "\"stop\":null,"
	      "\"prompt\":\"Say it\\n\",\"completion\":\"It\"}");
	check("/v1/embeddings", "{\"model\":\"emb\",\"input\":[\"a\",\"b\"]}", "application/json",
	      "{\"data\":[{\"embedding\":[0.1,-2e-3],\"index\":0}],\"model\":\"emb\",\"usage\":{"
	      "\"prompt_tokens\":8,"
	      "\"total_tokens\":8}}",
	      true,
	      "{\"provider\":\"openai\",\"operation\":\"embedding\",\"model\":\"emb\",\"stream\":"
	      "false,"
	      "\"input_tokens\":8,\"output_tokens\":null,\"cached_tokens\":null,\"first_token_ms\":"
	      "null,"
	      "\"stop\":null,\"prompt\":\"a\\nb\\n\",\"completion\":\"\"}");
	check("/v1/completions", "{\"model\":\"d\",\"prompt\":\"p\"}", "application/json",
	      "{\"model\":\"d\",\"choices\":[{\"text\":\"t\",\"finish_reason\":\"stop\"}],"
	      "\"usage\":"
	      "{\"prompt_tokens\":1,\"completion_tokens\":1}}",
	      true,
	      "{\"provider\":\"openai\",\"operation\":\"completion\",\"model\":\"d\",\"stream\":"
	      "false,"
	      "\"input_tokens\":1,\"output_tokens\":1,\"cached_tokens\":null,\"first_token_ms\":"
	      "null,"
	      "\"stop\":\"stop\",\"prompt\":\"p\\n\",\"completion\":\"t\"}");
}

static void anthropic(void)
{
	check("/v1/messages",
	      "{\"model\":\"claude-x\",\"max_tokens\":9,\"system\":\"S\",\"messages\":[{\"role\":"
	      "\"user\","
	      "\"content\":\"Q\"}]}",
	      "application/json",
	      "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-x-"
	      "1\",\"content\":"
	      "[{\"type\":\"text\",\"text\":\"A\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":"
	      "null,"
	      "\"usage\":{\"input_tokens\":12,\"cache_read_input_tokens\":4,\"output_tokens\":6}}",
	      true,
	      "{\"provider\":\"anthropic\",\"operation\":\"chat\",\"model\":\"claude-x-1\","
	      "\"stream\":false,"
	      "\"input_tokens\":12,\"output_tokens\":6,\"cached_tokens\":4,\"first_token_ms\":null,"
	      "\"stop\":\"end_turn\",\"prompt\":\"S\\nuser: Q\\n\",\"completion\":\"A\"}");
	check("/v1/messages", "{\"model\":\"claude-x\",\"stream\":true,\"messages\":[]}",
	      "text/event-stream",
	      "event: message_start\ndata: "
	      "{\"type\":\"message_start\",\"message\":{\"model\":\"claude-x-1\","
	      "\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":25,\"output_"
	      "tokens\":1}}}\n\n"
	      "event: content_block_start\ndata: "
	      "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":"
	      "{\"type\":\"text\",\"text\":\"\"}}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n"
	      "event: content_block_delta\ndata: "
	      "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
	      "{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\nevent: message_delta\ndata: "
	      "{\"type\":\"message_delta\","
	      "\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":{\"output_tokens\":15}}\n\n"
	      "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	      true,
	      "{\"provider\":\"anthropic\",\"operation\":\"chat\",\"model\":\"claude-x-1\","
	      "\"stream\":true,"
	      "\"input_tokens\":25,\"output_tokens\":15,\"cached_tokens\":null,\"first_token_ms\":"
	      "42,"
	      "\"stop\":\"max_tokens\",\"prompt\":\"\",\"completion\":\"Hi\"}");
}

static void not_understood(void)
{
	CHECK(llm_call_new("/v1/models", false) == NULL && llm_call_new("", false) == NULL);
	CHECK(llm_call_new("/v1/messages/batches", false) == NULL);
	check("/v1/messages", "no json", "text/html", "<html>", false,
	      "{\"provider\":\"anthropic\",\"operation\":\"chat\",\"model\":null,\"stream\":false,"
	      "\"input_tokens\":null,\"output_tokens\":null,\"cached_tokens\":null,\"first_token_"
	      "ms\":null,"
	      "\"stop\":null}");
	check("/v1/messages", "{\"model\":\"m\"}", "application/json",
	      "{\"usage\":{\"input_tokens\":-1,\"output_tokens\":12345678901234567890}} trailing",
	      false,
	      "{\"provider\":\"anthropic\",\"operation\":\"chat\",\"model\":\"m\",\"stream\":false,"
	      "\"input_tokens\":null,\"output_tokens\":null,\"cached_tokens\":null,\"first_token_"
	      "ms\":null,"
	      "\"stop\":null}");
}

static void a_long_text_is_cut_and_marked(void)
{
	struct llm_call *m = llm_call_new("/v1/completions", true);
	const char *begin = "{\"prompt\":\"";
	struct json j;

	CHECK(m != NULL);
	llm_call_request(m, (const uint8_t *)begin, strlen(begin));
	for (size_t i = 0; i < 300000; i++)
		llm_call_request(m, (const uint8_t *)"\xc3\xa9", 2);
	json_init_heap(&j, 1 << 20);
	json_open(&j, NULL, '{');
	llm_call_write(m, NULL, &j);
	json_close(&j, '}');
	CHECK(json_ok(&j) && strstr(j.text, "\"prompt_cut\":true") != NULL);
	CHECK(j.len > 262000 && j.len < 263000 && strstr(j.text, "\xef\xbf\xbd") == NULL);
	json_release(&j);
	llm_call_free(m);
}

static void reads_gemini(void)
{
	static const char request[] =
		"{\"systemInstruction\":{\"parts\":[{\"text\":\"Be brief.\"}]},"
		"\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"Hello\"}]}]}";
	static const char one[] =
		"{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hi\"}]},"
		"\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":10,"
		"\"candidatesTokenCount\":2,\"thoughtsTokenCount\":30,\"cachedContentTokenCount\":"
		"4,"
		"\"totalTokenCount\":42}}";
	char list[1024], events[1024];

	check("/v1beta/models/gemini-2.5-pro:generateContent", request, "application/json", one,
	      true,
	      "{\"provider\":\"google\",\"operation\":\"chat\",\"model\":\"gemini-2.5-pro\","
	      "\"stream\":false,\"input_tokens\":10,\"output_tokens\":32,\"cached_tokens\":4,"
	      "\"first_token_ms\":null,\"stop\":\"STOP\",\"prompt\":\"Be brief.\\nuser: Hello\\n\","
	      "\"completion\":\"Hi\"}");
	(void)snprintf(list, sizeof(list), "[%s,\n%s]", one, one);
	check("/v1beta/models/g:streamGenerateContent", request, "application/json", list, false,
	      "{\"provider\":\"google\",\"operation\":\"chat\",\"model\":\"g\",\"stream\":true,"
	      "\"input_tokens\":10,\"output_tokens\":32,\"cached_tokens\":4,"
	      "\"first_token_ms\":null,\"stop\":\"STOP\"}");
	(void)snprintf(events, sizeof(events), "data: %s\r\n\r\n", one);
	check("/v1beta/models/g:streamGenerateContent", request, "text/event-stream", events, false,
	      "{\"provider\":\"google\",\"operation\":\"chat\",\"model\":\"g\",\"stream\":true,"
	      "\"input_tokens\":10,\"output_tokens\":32,\"cached_tokens\":4,"
	      "\"first_token_ms\":42,\"stop\":\"STOP\"}");
	check("/v1beta/models/g:countTokens", request, "application/json", "{\"totalTokens\":7}",
	      false,
	      "{\"provider\":\"google\",\"operation\":\"count_tokens\",\"model\":\"g\","
	      "\"stream\":false,\"input_tokens\":7,\"output_tokens\":null,\"cached_tokens\":null,"
	      "\"first_token_ms\":null,\"stop\":null}");
}

/* A frame of this text behind those that are there already. */
static void put_frame(char *to, size_t *n, enum ws_opcode opcode, bool fin, bool masked,
		      const char *text)
{
	struct ws_head h = { .fin = fin,
			     .masked = masked,
			     .opcode = opcode,
			     .mask = { 7, 0x80, 3, 99 },
			     .length = strlen(text) };
	uint8_t head[WS_HEAD_MAX];
	size_t nhead = ws_head_write(&h, head);

	memcpy(to + *n, head, nhead);
	memcpy(to + *n + nhead, text, strlen(text));
	if (masked)
		ws_mask(to + *n + nhead, strlen(text), h.mask, 0);
	*n += nhead + strlen(text);
}

static void feed(struct llm_call *m, const char *bytes, size_t len, size_t n, bool out)
{
	for (size_t i = 0; i < len; i += n) {
		size_t piece_n = len - i < n ? len - i : n;
		uint8_t *piece = (uint8_t *)exact_copy(bytes + i, piece_n);

		if (out)
			llm_call_request(m, piece, piece_n);
		else
			llm_call_answer(m, piece, piece_n, 42000000);
		free(piece);
	}
}

/* Two calls over one WebSocket, with fragments, a ping inside of one, and bytes that are no text.
 */
static void reads_websockets(void)
{
	static const char done[] =
		"{\"type\":\"response.completed\",\"response\":{\"model\":\"gpt-x\",\"usage\":"
		"{\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":64},"
		"\"output_tokens\":20}}}";
	char out[1024], in[2048], got[1024];
	size_t nout = 0, nin = 0;

	put_frame(out, &nout, WS_TEXT, false, true, "{\"type\":\"response.create\",\"mod");
	put_frame(out, &nout, WS_PING, true, true, "{\"model\":\"no\"}");
	put_frame(out, &nout, WS_CONTINUATION, true, true,
		  "el\":\"gpt-x\",\"input\":[{\"role\":\"user\",\"content\":\"a\"}]}");
	put_frame(out, &nout, WS_TEXT, true, true,
		  "{\"type\":\"response.create\",\"input\":\"b\"}");
	put_frame(in, &nin, WS_TEXT, true, false,
		  "{\"type\":\"response.created\",\"response\":{\"usage\":null}}");
	put_frame(in, &nin, WS_TEXT, true, false,
		  "{\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}");
	put_frame(in, &nin, WS_TEXT, true, false, done);
	put_frame(in, &nin, WS_BINARY, true, false, done);
	put_frame(in, &nin, WS_TEXT, true, false, "");
	put_frame(in, &nin, WS_TEXT, true, false, done);
	for (size_t n = 1; n < nin; n++) {
		struct llm_call *m = llm_call_new("/v1/responses", true);
		struct json j;

		CHECK(m != NULL);
		llm_call_response(m, 101, span(""));
		feed(m, out, nout, n, true);
		feed(m, in, nin, n, false);
		json_init(&j, got, sizeof(got));
		json_open(&j, NULL, '{');
		llm_call_write(m, NULL, &j);
		json_close(&j, '}');
		llm_call_free(m);
		CHECK_STR(got,
			  "{\"provider\":\"openai\",\"operation\":\"response\",\"model\":"
			  "\"gpt-x\",\"stream\":true,\"input_tokens\":200,\"output_tokens\":40,"
			  "\"cached_tokens\":128,\"first_token_ms\":null,\"stop\":null,"
			  "\"prompt\":\"user: a\\nb\\n\",\"completion\":\"Hi\"}");
	}
}

TEST_MAIN({ "openai chat", openai_chat }, { "openai stream", openai_stream },
	  { "openai others", openai_others }, { "anthropic", anthropic },
	  { "what is not understood", not_understood },
	  { "a long text is cut and marked", a_long_text_is_cut_and_marked },
	  { "reads_gemini", reads_gemini }, { "reads_websockets", reads_websockets })
