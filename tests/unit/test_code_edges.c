/* Goal: each bound of requests to cordon-interpreter is taken at its value, and refused one beyond.
 */
#include "edge.h"
#include "incell/interpreter/code_request.h"

static bool execute(const char *text, size_t len, struct err *e)
{
	struct code_request r;

	return code_request_execute(text, len, &r, e) == 0;
}

#define CODE "{\"code\":\"1\","

static void requests(void)
{
	static const struct edge rows[] = {
		{ execute, "{\"code\":\"", "c", CODE_REQUEST_CODE_MAX - 2, "\"}",
		  "code must be a text of at most 16 MiB" },
		{ execute, CODE "\"env_vars\":{\"V\":\"", "v", CODE_REQUEST_ENV_MAX - 8, "\"}}",
		  "env_vars must be an object of texts, of at most 1 MiB" },
		{ execute, CODE "\"language\":\"", "l", CODE_REQUEST_WORD_MAX - 1, "\"}",
		  "language must be a text of at most 63 bytes" },
		{ execute, CODE "\"context_id\":\"", "i", CODE_REQUEST_WORD_MAX - 1, "\"}",
		  "context_id must be a text of at most 63 bytes" },
		{ execute, CODE "\"context_name\":\"", "n", CODE_REQUEST_WORD_MAX - 1, "\"}",
		  "context_name must be a text of at most 63 bytes" },
		{ execute, CODE "\"cwd\":\"/", "d", CODE_REQUEST_PATH_MAX - 2, "\"}",
		  "cwd must be a text of at most 4095 bytes" },
	};
	struct edge_text t = { 0 };

	edge_try(rows, COUNT(rows));
	for (unsigned more = 0; more < 2; more++) {
		t.len = 0;
		edge_put(&t, CODE "\"a\":");
		edge_put_times(&t, "[", 31 + more);
		edge_put_times(&t, "]", 31 + more);
		edge_put(&t, "}");
		edge_expect(execute, &t, more > 0, NULL);
	}
	free(t.p);
}

TEST_MAIN({ "requests", requests })
