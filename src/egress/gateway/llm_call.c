/* llm_call.c - theory of operation
 *
 * Bodies are read by json_scan.h as they pass, and not kept. A table (llm_call.c) says which
 * member of which API means what. An event stream is split into its "data" lines, each a JSON text
 * of its own, read by the same table. The APIs of the providers have no member in common that means
 * different things, so one table serves all.
 *
 * Over a WebSocket (OpenAI's Responses) each message of either side is a JSON text of its own, and
 * one connection has many calls: their tokens are added up. */
#include "egress/gateway/llm_call.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "egress/secrets/masked_text.h"
#include "lib/base/buf.h"
#include "lib/base/own.h"
#include "lib/json/json_scan.h"

#define PIECE_MAX 1024

void llm_frames_init(struct llm_frames *f, bool masked)
{
	*f = (struct llm_frames){ .masked = masked };
}

static bool llm_frames_is_control(const struct llm_frames *f)
{
	return f->now.opcode >= WS_CLOSE;
}

static void llm_frames_end_frame(struct llm_frames *f, const struct llm_frames_calls *calls,
				 void *arg)
{
	f->nhead = 0;
	if (f->text && f->now.fin && !llm_frames_is_control(f))
		calls->on_end(arg);
}

/* True: a head is complete. */
static bool llm_frames_take_byte(struct llm_frames *f, uint8_t byte)
{
	int n;

	f->head[f->nhead++] = byte;
	n = ws_head_read(f->head, f->nhead, f->masked, &f->now);
	f->broken = n < 0 || (n == 0 && f->nhead == sizeof(f->head));
	if (f->broken || n == 0)
		return false;
	f->left = f->now.length;
	f->offset = 0;
	if (f->now.opcode == WS_TEXT || f->now.opcode == WS_BINARY)
		f->text = f->now.opcode == WS_TEXT;
	return true;
}

static size_t llm_frames_take_payload(struct llm_frames *f, const uint8_t *data, size_t n,
				      const struct llm_frames_calls *calls, void *arg)
{
	uint8_t piece[PIECE_MAX];
	size_t most = n < sizeof(piece) ? n : sizeof(piece);

	if (most > f->left)
		most = (size_t)f->left;
	if (f->text && !llm_frames_is_control(f)) {
		memcpy(piece, data, most);
		if (f->masked)
			ws_mask(piece, most, f->now.mask, f->offset);
		calls->on_text(arg, piece, most);
		explicit_bzero(piece, most);
	}
	f->offset += most;
	f->left -= most;
	return most;
}

void llm_frames_feed(struct llm_frames *f, const uint8_t *data, size_t n,
		     const struct llm_frames_calls *calls, void *arg)
{
	for (size_t i = 0; i < n && !f->broken;) {
		if (f->left > 0) {
			i += llm_frames_take_payload(f, data + i, n - i, calls, arg);
			if (f->left == 0)
				llm_frames_end_frame(f, calls, arg);
		} else if (llm_frames_take_byte(f, data[i++]) && f->left == 0) {
			llm_frames_end_frame(f, calls, arg);
		}
	}
}

struct llm_call_member {
	const char *path;
	enum llm_shape what;
};

static const struct llm_call_member of_request[] = {
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

static const struct llm_call_member of_answer[] = {
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
	/* Gemini: one object, or a list of them for a stream other than one of events */
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

static enum llm_shape llm_shape_find(const struct json_scan *s, const struct llm_call_member *table,
				     size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (json_scan_is(s, table[i].path))
			return table[i].what;
	return LLM_SHAPE_NOTHING;
}

enum llm_shape llm_shape_request(const struct json_scan *s)
{
	return llm_shape_find(s, of_request, COUNT(of_request));
}

enum llm_shape llm_shape_answer(const struct json_scan *s)
{
	return llm_shape_find(s, of_answer, COUNT(of_answer));
}

#define LOOK_MAX (16U << 20) /* bytes read of a body, or of one event */
#define KEEP_MAX (256U << 10)
#define WORD_MAX 96
#define TOKENS_MAX INT64_C(1000000000000000) /* of all calls of a connection */

struct operation {
	const char *suffix, *provider, *name;
};

/* Longer paths first. */
static const struct operation operations[] = {
	{ "/chat/completions", "openai", "chat" },
	{ "/completions", "openai", "completion" },
	{ "/responses", "openai", "response" },
	{ "/embeddings", "openai", "embedding" },
	{ "/v1/messages/count_tokens", "anthropic", "count_tokens" },
	{ "/v1/messages", "anthropic", "chat" },
	/* "/v1beta/models/MODEL:generateContent" */
	{ ":generateContent", "google", "chat" },
	{ ":streamGenerateContent", "google", "chat" },
	{ ":countTokens", "google", "count_tokens" },
	{ ":embedContent", "google", "embedding" },
	{ ":batchEmbedContents", "google", "embedding" },
};

/* A kept text, up to its bound. */
struct llm_call_kept {
	struct buf text;
	bool cut;
};

/* The place in an event stream. */
enum llm_call_line { FIELD, VALUE_START, DATA, OTHER };

struct llm_call {
	const struct operation *op;
	bool prompts;
	bool reads_json, reads_events; /* of the answer */
	struct json_scan request, answer;
	uint64_t asked, answered; /* bytes read */
	char model[WORD_MAX], stop[WORD_MAX];
	bool model_cut, stop_cut;
	size_t nword;
	bool streams, stream_known;
	bool in_frames; /* of a WebSocket */
	struct llm_frames frames_out, frames_in;
	/* LLM_SHAPE_INPUT to LLM_SHAPE_THOUGHTS. -1: unknown. sums: of messages before this one */
	int64_t tokens[LLM_SHAPE_THOUGHTS + 1], sums[LLM_SHAPE_THOUGHTS + 1];
	uint64_t since_ns; /* when the bytes being read arrived */
	int64_t first_ms;
	enum llm_shape now; /* the meaning of the string being read */
	struct llm_call_kept prompt, completion;
	enum llm_call_line line;
	char field[8];
	size_t nfield;
};

/* ---- texts */

/* Cut between two characters, never inside one. */
static void llm_call_keep(struct llm_call_kept *k, const char *bytes, size_t n)
{
	size_t room = KEEP_MAX - k->text.len, take = n < room ? n : room;

	if (k->cut)
		return;
	k->cut = take < n;
	while (take < n && take > 0 && ((unsigned char)bytes[take] & 0xc0) == 0x80)
		take--;
	buf_put(&k->text, bytes, take);
}

static void llm_call_add_word(struct llm_call *m, char word[WORD_MAX], bool *cut, const char *bytes,
			      size_t n)
{
	size_t room = WORD_MAX - 1 - m->nword, take = n < room ? n : room;

	*cut |= take < n;
	memcpy(word + m->nword, bytes, take);
	m->nword += take;
	word[m->nword] = '\0';
}

static void llm_call_first_token(struct llm_call *m)
{
	if (m->first_ms < 0 && m->reads_events)
		m->first_ms = (int64_t)(m->since_ns / 1000000);
}

static void on_text(struct json_scan *s, const char *bytes, size_t n)
{
	struct llm_call *m = s->arg;

	switch (m->now) {
	case LLM_SHAPE_MODEL:
		llm_call_add_word(m, m->model, &m->model_cut, bytes, n);
		return;
	case LLM_SHAPE_STOP:
		llm_call_add_word(m, m->stop, &m->stop_cut, bytes, n);
		return;
	case LLM_SHAPE_ROLE:
	case LLM_SHAPE_PROMPT:
		llm_call_keep(&m->prompt, bytes, n);
		return;
	case LLM_SHAPE_COMPLETION:
		llm_call_first_token(m);
		if (m->prompts)
			llm_call_keep(&m->completion, bytes, n);
		return;
	case LLM_SHAPE_TOKEN:
		llm_call_first_token(m);
		return;
	case LLM_SHAPE_NOTHING:
	case LLM_SHAPE_STREAM:
	case LLM_SHAPE_INPUT:
	case LLM_SHAPE_OUTPUT:
	case LLM_SHAPE_CACHED:
	case LLM_SHAPE_THOUGHTS:
		return;
	}
}

static bool llm_call_begin_text(struct llm_call *m, enum llm_shape what)
{
	m->now = what;
	m->nword = 0;
	m->model_cut &= what != LLM_SHAPE_MODEL;
	m->stop_cut &= what != LLM_SHAPE_STOP;
	if (what == LLM_SHAPE_PROMPT || what == LLM_SHAPE_ROLE)
		return m->prompts;
	return what == LLM_SHAPE_MODEL || what == LLM_SHAPE_STOP || what == LLM_SHAPE_COMPLETION ||
	       what == LLM_SHAPE_TOKEN;
}

/* ---- the request */

static bool on_request_string(struct json_scan *s)
{
	return llm_call_begin_text(s->arg, llm_shape_request(s));
}

static void on_request_string_end(struct json_scan *s)
{
	struct llm_call *m = s->arg;

	if (m->prompts && m->now == LLM_SHAPE_ROLE)
		llm_call_keep(&m->prompt, ": ", 2);
	else if (m->prompts && m->now == LLM_SHAPE_PROMPT)
		llm_call_keep(&m->prompt, "\n", 1);
}

static void on_request_scalar(struct json_scan *s, const char *word)
{
	struct llm_call *m = s->arg;

	if (llm_shape_request(s) == LLM_SHAPE_STREAM) {
		m->streams = strcmp(word, "true") == 0;
		m->stream_known = true;
	}
}

static const struct json_scan_calls request_calls = { .on_string = on_request_string,
						      .on_text = on_text,
						      .on_string_end = on_request_string_end,
						      .on_scalar = on_request_scalar };

/* ---- the answer */

static bool on_answer_string(struct json_scan *s)
{
	return llm_call_begin_text(s->arg, llm_shape_answer(s));
}

static void on_answer_scalar(struct json_scan *s, const char *word)
{
	struct llm_call *m = s->arg;
	enum llm_shape what = llm_shape_answer(s);
	int64_t n = 0;

	if (what < LLM_SHAPE_INPUT || what > LLM_SHAPE_THOUGHTS)
		return;
	if (strspn(word, "0123456789") != strlen(word) || strlen(word) > 15)
		return; /* null, or not a count */
	for (const char *p = word; *p != '\0'; p++)
		n = n * 10 + (*p - '0');
	m->tokens[what] = n;
}

static const struct json_scan_calls answer_calls = { .on_string = on_answer_string,
						     .on_text = on_text,
						     .on_scalar = on_answer_scalar };

/* A kept text ends with the bytes read. */
static void llm_call_look(struct json_scan *s, uint64_t *looked, struct llm_call_kept *k,
			  const uint8_t *data, size_t n)
{
	uint64_t room = LOOK_MAX > *looked ? LOOK_MAX - *looked : 0;

	*looked += n;
	k->cut |= n > room && k->text.len > 0;
	json_scan_feed(s, data, n < room ? n : (size_t)room);
}

static void llm_call_end_line(struct llm_call *m)
{
	if (m->line == FIELD && m->nfield == 0) { /* an empty line ends the event */
		json_scan_init(&m->answer, &answer_calls, m);
		m->answered = 0;
	} else if (m->line == DATA) {
		llm_call_look(&m->answer, &m->answered, &m->completion, (const uint8_t *)"\n", 1);
	}
	m->line = FIELD;
	m->nfield = 0;
}

static void llm_call_in_field(struct llm_call *m, char c)
{
	if (c == ':') {
		m->line = m->nfield == 4 && memcmp(m->field, "data", 4) == 0 ? VALUE_START : OTHER;
		return;
	}
	if (m->nfield == sizeof(m->field))
		m->line = OTHER;
	else
		m->field[m->nfield++] = c;
}

static void llm_call_read_events(struct llm_call *m, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n;) {
		const uint8_t *end;
		size_t run;

		if (data[i] == '\n') {
			llm_call_end_line(m);
			i++;
			continue;
		}
		if (m->line == FIELD) {
			if (data[i] != '\r')
				llm_call_in_field(m, (char)data[i]);
			i++;
			continue;
		}
		if (m->line == VALUE_START) {
			m->line = DATA;
			if (data[i] == ' ') {
				i++;
				continue;
			}
		}
		end = memchr(data + i, '\n', n - i);
		run = end == NULL ? n - i : (size_t)(end - (data + i));
		if (m->line == DATA)
			llm_call_look(&m->answer, &m->answered, &m->completion, data + i, run);
		i += run;
	}
}

/* ---- messages of a WebSocket */

static void on_asked(void *arg, const uint8_t *data, size_t n)
{
	struct llm_call *m = arg;

	llm_call_look(&m->request, &m->asked, &m->prompt, data, n);
}

static void on_asked_end(void *arg)
{
	struct llm_call *m = arg;

	json_scan_init(&m->request, &request_calls, m);
	m->asked = 0;
}

static void on_said(void *arg, const uint8_t *data, size_t n)
{
	struct llm_call *m = arg;

	llm_call_look(&m->answer, &m->answered, &m->completion, data, n);
}

static void on_said_end(void *arg)
{
	struct llm_call *m = arg;

	for (size_t i = LLM_SHAPE_INPUT; i <= LLM_SHAPE_THOUGHTS; i++) {
		if (m->tokens[i] >= 0)
			m->sums[i] = (m->sums[i] < 0 ? 0 : m->sums[i]) + m->tokens[i];
		if (m->sums[i] > TOKENS_MAX)
			m->sums[i] = TOKENS_MAX;
		m->tokens[i] = -1;
	}
	json_scan_init(&m->answer, &answer_calls, m);
	m->answered = 0;
}

static const struct llm_frames_calls out_calls = { on_asked, on_asked_end };
static const struct llm_frames_calls in_calls = { on_said, on_said_end };

/* ---- interface */

/* The name of the model stands in the path, before the operation. */
static void llm_call_read_path(struct llm_call *m, const char *path, size_t len)
{
	size_t end = len - strlen(m->op->suffix), start = end;

	if (m->op->suffix[0] != ':')
		return;
	while (start > 0 && path[start - 1] != '/')
		start--;
	llm_call_add_word(m, m->model, &m->model_cut, path + start, end - start);
	m->streams = strcmp(m->op->suffix, ":streamGenerateContent") == 0;
	m->stream_known = true;
}

struct llm_call *llm_call_new(const char *path, bool prompts)
{
	size_t len = strlen(path);
	struct llm_call *m;

	for (size_t i = 0; i < COUNT(operations); i++) {
		size_t n = strlen(operations[i].suffix);

		if (len < n || strcmp(path + len - n, operations[i].suffix) != 0)
			continue;
		m = calloc(1, sizeof(*m));
		if (m == NULL)
			return NULL;
		m->op = &operations[i];
		m->prompts = prompts;
		m->first_ms = -1;
		for (size_t k = 0; k < COUNT(m->tokens); k++)
			m->tokens[k] = m->sums[k] = -1;
		llm_call_read_path(m, path, len);
		buf_init(&m->prompt.text, KEEP_MAX);
		buf_init(&m->completion.text, KEEP_MAX);
		json_scan_init(&m->request, &request_calls, m);
		json_scan_init(&m->answer, &answer_calls, m);
		return m;
	}
	return NULL;
}

void llm_call_free(struct llm_call *m)
{
	if (m == NULL)
		return;
	buf_release(&m->prompt.text);
	buf_release(&m->completion.text);
	free(m);
}

size_t llm_call_memory(const struct llm_call *m)
{
	return m == NULL ? 0 : sizeof(*m) + m->prompt.text.size + m->completion.text.size;
}

void llm_call_request(struct llm_call *m, const uint8_t *data, size_t len)
{
	if (m->in_frames)
		llm_frames_feed(&m->frames_out, data, len, &out_calls, m);
	else
		llm_call_look(&m->request, &m->asked, &m->prompt, data, len);
}

void llm_call_response(struct llm_call *m, int status, struct http1_span content_type)
{
	struct http1_span type = http1_media_type(content_type);

	/* The body of an error has none of the members. */
	m->in_frames = status == 101;
	llm_frames_init(&m->frames_out, true);
	llm_frames_init(&m->frames_in, false);
	m->reads_events = http1_span_is_nocase(type, "text/event-stream");
	m->reads_json = http1_span_is_nocase(type, "application/json");
}

void llm_call_answer(struct llm_call *m, const uint8_t *data, size_t len, uint64_t since_ns)
{
	m->since_ns = since_ns;
	if (m->in_frames)
		llm_frames_feed(&m->frames_in, data, len, &in_calls, m);
	else if (m->reads_events)
		llm_call_read_events(m, data, len);
	else if (m->reads_json)
		llm_call_look(&m->answer, &m->answered, &m->completion, data, len);
}

/* -1: unknown. */
static int64_t llm_call_tokens_of(const struct llm_call *m, enum llm_shape what)
{
	return m->in_frames ? m->sums[what] : m->tokens[what];
}

/* Tokens that a model thinks with are output, too, where they are told apart. */
static int64_t llm_call_output_of(const struct llm_call *m)
{
	int64_t n = llm_call_tokens_of(m, LLM_SHAPE_OUTPUT),
		more = llm_call_tokens_of(m, LLM_SHAPE_THOUGHTS);

	if (more < 0)
		return n;
	return n < 0 ? more : n + more;
}

static void llm_call_write_count(struct json *j, const char *name, int64_t n)
{
	if (n < 0)
		json_none(j, name);
	else
		json_int(j, name, n);
}

static void llm_call_write_kept(struct json *j, const struct mask *mask, const char *name,
				const char *cut, struct llm_call_kept *k)
{
	(k->cut ? masked_text_head : masked_text_bytes)(j, mask, name, buf_text(&k->text),
							k->text.len);
	if (k->cut)
		json_bool(j, cut, true);
}

static void llm_call_write_word(struct json *j, const struct mask *mask, const char *name,
				const char *word, bool cut)
{
	if (cut)
		masked_text_head(j, mask, name, word, strlen(word));
	else
		masked_text(j, mask, name, word[0] == '\0' ? NULL : word);
}

void llm_call_write(struct llm_call *m, const struct mask *mask, struct json *j)
{
	json_text(j, "provider", m->op->provider);
	json_text(j, "operation", m->op->name);
	llm_call_write_word(j, mask, "model", m->model, m->model_cut);
	json_bool(j, "stream", m->stream_known ? m->streams : m->reads_events || m->in_frames);
	llm_call_write_count(j, "input_tokens", llm_call_tokens_of(m, LLM_SHAPE_INPUT));
	llm_call_write_count(j, "output_tokens", llm_call_output_of(m));
	llm_call_write_count(j, "cached_tokens", llm_call_tokens_of(m, LLM_SHAPE_CACHED));
	llm_call_write_count(j, "first_token_ms", m->first_ms);
	llm_call_write_word(j, mask, "stop", m->stop, m->stop_cut);
	if (m->prompts) {
		llm_call_write_kept(j, mask, "prompt", "prompt_cut", &m->prompt);
		llm_call_write_kept(j, mask, "completion", "completion_cut", &m->completion);
	}
}
