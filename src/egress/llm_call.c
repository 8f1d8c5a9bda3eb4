/* llm_call.c - theory of operation
 *
 * Bodies are read by json_scan.h as they pass, and not kept; a table (llm_shape.c) says which
 * member of which API means what. An event stream is split into its "data" lines, each a JSON text
 * of its own, read by the same table. The APIs of the providers have no member in common that means
 * different things, so one table serves all.
 *
 * Over a WebSocket (OpenAI's Responses) each message of either side is a JSON text of its own, and
 * one connection has many calls: their tokens are added up. */
#include "llm_call.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "json_scan.h"
#include "llm_frames.h"
#include "llm_shape.h"
#include "masked_text.h"

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

/* A text that is kept, up to its bound. */
struct kept {
	struct buf text;
	bool cut;
};

/* The place in an event stream. */
enum line { FIELD, VALUE_START, DATA, OTHER };

struct llm_call {
	const struct operation *op;
	bool prompts;
	bool reads_json, reads_events; /* of the answer */
	struct json_scan request, answer;
	uint64_t asked, answered; /* bytes read */
	char model[WORD_MAX], stop[WORD_MAX];
	size_t nword;
	bool streams, stream_known;
	bool in_frames; /* of a WebSocket */
	struct llm_frames frames_out, frames_in;
	/* LLM_SHAPE_INPUT to LLM_SHAPE_THOUGHTS; -1: unknown. sums: of messages before this one */
	int64_t tokens[LLM_SHAPE_THOUGHTS + 1], sums[LLM_SHAPE_THOUGHTS + 1];
	uint64_t since_ns; /* when the bytes that are being read arrived */
	int64_t first_ms;
	enum llm_shape now; /* the meaning of the string that is being read */
	struct kept prompt, completion;
	enum line line;
	char field[8];
	size_t nfield;
};

/* ---- texts */

/* Cuts between two characters, never inside one. */
static void keep(struct kept *k, const char *bytes, size_t n)
{
	size_t room = KEEP_MAX - k->text.len, take = n < room ? n : room;

	if (k->cut)
		return;
	k->cut = take < n;
	while (take < n && take > 0 && ((unsigned char)bytes[take] & 0xc0) == 0x80)
		take--;
	buf_put(&k->text, bytes, take);
}

static void add_word(struct llm_call *m, char word[WORD_MAX], const char *bytes, size_t n)
{
	size_t room = WORD_MAX - 1 - m->nword, take = n < room ? n : room;

	memcpy(word + m->nword, bytes, take);
	m->nword += take;
	word[m->nword] = '\0';
}

static void first_token(struct llm_call *m)
{
	if (m->first_ms < 0 && m->reads_events)
		m->first_ms = (int64_t)(m->since_ns / 1000000);
}

static void on_text(struct json_scan *s, const char *bytes, size_t n)
{
	struct llm_call *m = s->arg;

	switch (m->now) {
	case LLM_SHAPE_MODEL:
		add_word(m, m->model, bytes, n);
		return;
	case LLM_SHAPE_STOP:
		add_word(m, m->stop, bytes, n);
		return;
	case LLM_SHAPE_ROLE:
	case LLM_SHAPE_PROMPT:
		keep(&m->prompt, bytes, n);
		return;
	case LLM_SHAPE_COMPLETION:
		first_token(m);
		if (m->prompts)
			keep(&m->completion, bytes, n);
		return;
	case LLM_SHAPE_TOKEN:
		first_token(m);
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

static bool begin_text(struct llm_call *m, enum llm_shape what)
{
	m->now = what;
	m->nword = 0;
	if (what == LLM_SHAPE_PROMPT || what == LLM_SHAPE_ROLE)
		return m->prompts;
	return what == LLM_SHAPE_MODEL || what == LLM_SHAPE_STOP || what == LLM_SHAPE_COMPLETION ||
	       what == LLM_SHAPE_TOKEN;
}

/* ---- the request */

static bool on_request_string(struct json_scan *s)
{
	return begin_text(s->arg, llm_shape_request(s));
}

static void on_request_string_end(struct json_scan *s)
{
	struct llm_call *m = s->arg;

	if (m->prompts && m->now == LLM_SHAPE_ROLE)
		keep(&m->prompt, ": ", 2);
	else if (m->prompts && m->now == LLM_SHAPE_PROMPT)
		keep(&m->prompt, "\n", 1);
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
	return begin_text(s->arg, llm_shape_answer(s));
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

static void look(struct json_scan *s, uint64_t *looked, const uint8_t *data, size_t n)
{
	uint64_t room = LOOK_MAX > *looked ? LOOK_MAX - *looked : 0;

	*looked += n;
	json_scan_feed(s, data, n < room ? n : (size_t)room);
}

static void end_line(struct llm_call *m)
{
	if (m->line == FIELD && m->nfield == 0) { /* an empty line ends the event */
		json_scan_init(&m->answer, &answer_calls, m);
		m->answered = 0;
	} else if (m->line == DATA) {
		look(&m->answer, &m->answered, (const uint8_t *)"\n", 1);
	}
	m->line = FIELD;
	m->nfield = 0;
}

static void in_field(struct llm_call *m, char c)
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

static void read_events(struct llm_call *m, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n;) {
		const uint8_t *end;
		size_t run;

		if (data[i] == '\n') {
			end_line(m);
			i++;
			continue;
		}
		if (m->line == FIELD) {
			if (data[i] != '\r')
				in_field(m, (char)data[i]);
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
			look(&m->answer, &m->answered, data + i, run);
		i += run;
	}
}

/* ---- messages of a WebSocket */

static void on_asked(void *arg, const uint8_t *data, size_t n)
{
	struct llm_call *m = arg;

	look(&m->request, &m->asked, data, n);
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

	look(&m->answer, &m->answered, data, n);
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
static void read_path(struct llm_call *m, const char *path, size_t len)
{
	size_t end = len - strlen(m->op->suffix), start = end;

	if (m->op->suffix[0] != ':')
		return;
	while (start > 0 && path[start - 1] != '/')
		start--;
	add_word(m, m->model, path + start, end - start);
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
		read_path(m, path, len);
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
		look(&m->request, &m->asked, data, len);
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
		read_events(m, data, len);
	else if (m->reads_json)
		look(&m->answer, &m->answered, data, len);
}

/* -1: unknown. */
static int64_t tokens_of(const struct llm_call *m, enum llm_shape what)
{
	return m->in_frames ? m->sums[what] : m->tokens[what];
}

/* Tokens that a model thinks with are output, too, where they are told apart. */
static int64_t output_of(const struct llm_call *m)
{
	int64_t n = tokens_of(m, LLM_SHAPE_OUTPUT), more = tokens_of(m, LLM_SHAPE_THOUGHTS);

	if (more < 0)
		return n;
	return n < 0 ? more : n + more;
}

static void write_count(struct json *j, const char *name, int64_t n)
{
	if (n < 0)
		json_none(j, name);
	else
		json_int(j, name, n);
}

static void write_kept(struct json *j, const struct mask *mask, const char *name, const char *cut,
		       struct kept *k)
{
	masked_text_bytes(j, mask, name, buf_text(&k->text), k->text.len);
	if (k->cut)
		json_bool(j, cut, true);
}

void llm_call_write(struct llm_call *m, const struct mask *mask, struct json *j)
{
	json_text(j, "provider", m->op->provider);
	json_text(j, "operation", m->op->name);
	masked_text(j, mask, "model", m->model[0] == '\0' ? NULL : m->model);
	json_bool(j, "stream", m->stream_known ? m->streams : m->reads_events || m->in_frames);
	write_count(j, "input_tokens", tokens_of(m, LLM_SHAPE_INPUT));
	write_count(j, "output_tokens", output_of(m));
	write_count(j, "cached_tokens", tokens_of(m, LLM_SHAPE_CACHED));
	write_count(j, "first_token_ms", m->first_ms);
	masked_text(j, mask, "stop", m->stop[0] == '\0' ? NULL : m->stop);
	if (m->prompts) {
		write_kept(j, mask, "prompt", "prompt_cut", &m->prompt);
		write_kept(j, mask, "completion", "completion_cut", &m->completion);
	}
}
