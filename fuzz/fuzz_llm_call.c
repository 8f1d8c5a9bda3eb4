/* A model call in any bytes: cut anywhere it is understood alike, and what is written of it is
 * JSON.
 *
 * Bytes: which operation, whether a stream of events (1) or frames of a WebSocket (2), where each
 * is cut, length of the request (two), request, answer. */
#include "fuzz.h"

#include "json_check.h"
#include "egress/gateway/llm_call.h"

unsigned long fuzz_accepted;

struct call {
	const char *path;
	bool events, frames;
	const uint8_t *request, *answer;
	size_t nrequest, nanswer;
};

static struct json read_call(const struct call *c, size_t cut_request, size_t cut_answer)
{
	static const char events[] = "text/event-stream", plain[] = "application/json";
	struct llm_call *m = llm_call_new(c->path, true);
	const char *type = c->events ? events : plain;
	struct json j;

	assert(m != NULL && cut_request <= c->nrequest && cut_answer <= c->nanswer);
	if (c->frames)
		llm_call_response(m, 101, (struct http1_span){ NULL, 0 });
	llm_call_request(m, c->request, cut_request);
	llm_call_request(m, c->request + cut_request, c->nrequest - cut_request);
	if (!c->frames)
		llm_call_response(m, 200, (struct http1_span){ type, strlen(type) });
	llm_call_answer(m, c->answer, cut_answer, 1000000);
	llm_call_answer(m, c->answer + cut_answer, c->nanswer - cut_answer, 1000000);
	json_init_heap(&j, 4U << 20);
	json_open(&j, NULL, '{');
	llm_call_write(m, NULL, &j);
	json_close(&j, '}');
	assert(json_ok(&j) && json_check_valid(j.text, j.len));
	llm_call_free(m);
	return j;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const paths[] = { "/v1/chat/completions",
					     "/v1/completions",
					     "/v1/responses",
					     "/v1/embeddings",
					     "/v1/messages",
					     "/v1/messages/count_tokens",
					     "/v1beta/models/g:generateContent",
					     "/v1beta/models/g:streamGenerateContent" };
	struct call c;
	struct json whole, cut;
	uint8_t *request, *answer;

	if (size < 6)
		return 0;
	c.path = paths[data[0] % (sizeof(paths) / sizeof(paths[0]))];
	c.events = (data[1] & 1) != 0;
	c.frames = (data[1] & 2) != 0;
	c.nrequest = ((size_t)data[4] << 8 | data[5]) % (size - 5);
	c.nanswer = size - 6 - c.nrequest;
	c.request = request = fuzz_copy(data + 6, c.nrequest);
	c.answer = answer = fuzz_copy(data + 6 + c.nrequest, c.nanswer);
	whole = read_call(&c, 0, 0);
	cut = read_call(&c, c.nrequest * data[2] / 256, c.nanswer * data[3] / 256);
	assert(whole.len == cut.len && memcmp(whole.text, cut.text, whole.len) == 0);
	fuzz_accepted += strstr(whole.text, "\"model\":null") == NULL;
	json_release(&whole);
	json_release(&cut);
	free(request);
	free(answer);
	return 0;
}
