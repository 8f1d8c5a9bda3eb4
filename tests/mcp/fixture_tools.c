/* fixture_tools.c - the tools of the conformance suite, except those of fixture_inputs.c. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "lib/mcp/server/mcp_arguments.h"

/* A pixel and an empty sound. */
const char fixture_png[] =
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5Erk"
	"Jggg==";
const char fixture_wav[] = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

#define NOTHING "{\"type\":\"object\",\"properties\":{}}"
#define ANSWER_MAX ((size_t)1 << 20)

/* ---- content */

static void write_media(struct json *j, const char *type, const char *data, const char *mime)
{
	json_open(j, NULL, '{');
	json_text(j, "type", type);
	json_text(j, "data", data);
	json_text(j, "mimeType", mime);
	json_close(j, '}');
}

static void write_resource(struct json *j, const char *uri, const char *mime, const char *text)
{
	json_open(j, NULL, '{');
	json_text(j, "type", "resource");
	json_open(j, "resource", '{');
	json_text(j, "uri", uri);
	json_text(j, "mimeType", mime);
	json_text(j, "text", text);
	json_close(j, '}');
	json_close(j, '}');
}

static void open_content(struct call *call, struct json *j)
{
	json_init_heap(j, ANSWER_MAX);
	mcp_write_result(j, &the_server, &call->r);
	json_open(j, "content", '[');
}

static void close_content(struct call *call, struct json *j)
{
	json_close(j, ']');
	mcp_write_result_end(j);
	call_finish(call, j);
}

static void simple_text(struct call *call)
{
	finish_text(call, "This is a simple text response for testing.");
}

static void image(struct call *call)
{
	struct json j;

	open_content(call, &j);
	write_media(&j, "image", fixture_png, "image/png");
	close_content(call, &j);
}

static void audio(struct call *call)
{
	struct json j;

	open_content(call, &j);
	write_media(&j, "audio", fixture_wav, "audio/wav");
	close_content(call, &j);
}

static void embedded(struct call *call)
{
	struct json j;

	open_content(call, &j);
	write_resource(&j, "test://embedded-resource", "text/plain",
		       "This is an embedded resource content.");
	close_content(call, &j);
}

static void mixed(struct call *call)
{
	static const char text[] = "Multiple content types test:";
	struct json j;

	open_content(call, &j);
	mcp_write_text(&j, text, sizeof(text) - 1, true);
	write_media(&j, "image", fixture_png, "image/png");
	write_resource(&j, "test://mixed-content-resource", "application/json",
		       "{\"test\":\"data\",\"value\":123}");
	close_content(call, &j);
}

static void finish_error(struct call *call, const char *text)
{
	struct json j;

	json_init_heap(&j, ANSWER_MAX);
	mcp_write_tool_error(&j, &the_server, &call->r, text);
	call_finish(call, &j);
}

static void failing(struct call *call)
{
	finish_error(call, "This tool intentionally returns an error for testing");
}

/* ---- what takes time */

static void notify(struct call *call, bool wanted, struct json *j)
{
	if (wanted)
		call_send(call, j);
	else
		json_release(j);
}

static void log_step(struct call *call)
{
	static const char *const lines[] = { "\"Tool execution started\"",
					     "\"Tool processing data\"",
					     "\"Tool execution completed\"" };
	struct json j;

	json_init_heap(&j, ANSWER_MAX);
	notify(call,
	       mcp_write_message(&j, &call->r, MCP_INFO, "fixture", lines[call->step], MCP_DEBUG),
	       &j);
	if (call->step + 1 < COUNT(lines))
		call_step_after(call, 50, log_step);
	else
		finish_text(call, "Tool with logging executed successfully");
}

static void progress_step(struct call *call)
{
	struct json j;

	json_init_heap(&j, ANSWER_MAX);
	notify(call, mcp_write_progress(&j, &call->r, 50 * call->step, 100, "at work"), &j);
	if (call->step < 2)
		call_step_after(call, 50, progress_step);
	else
		finish_text(call, "Tool with progress executed successfully");
}

/* ---- requests to a legacy client */

static void on_asked(struct call *call, const struct mcp_request *answer)
{
	const struct json_node *content = json_tree_get(answer->result, "content");
	struct json_span action = json_tree_get_text(answer->result, "action");
	struct json_span said = json_tree_get_text(content, "text");
	char text[512];

	if (answer->error != NULL)
		finish_error(call, "the client has refused");
	else if (action.p == NULL) {
		(void)snprintf(text, sizeof(text), "LLM response: %.*s", (int)said.n, said.p);
		finish_text(call, text);
	} else {
		(void)snprintf(text, sizeof(text),
			       "User response: Elicitation completed: action=%.*s, content=%.*s",
			       (int)action.n, action.p, content == NULL ? 2 : (int)content->raw.n,
			       content == NULL ? "{}" : content->raw.p);
		finish_text(call, text);
	}
}

static void sampling(struct call *call)
{
	struct json_span prompt = json_tree_get_text(call->r.arguments, "prompt");
	char params[1024];
	struct json j;

	json_init(&j, params, sizeof(params));
	json_open(&j, NULL, '{');
	json_open(&j, "messages", '[');
	json_open(&j, NULL, '{');
	json_text(&j, "role", "user");
	json_open(&j, "content", '{');
	json_text(&j, "type", "text");
	json_bytes(&j, "text", prompt.p, prompt.n);
	json_close(&j, '}');
	json_close(&j, '}');
	json_close(&j, ']');
	json_int(&j, "maxTokens", 100);
	json_close(&j, '}');
	call_ask(call, "sampling/createMessage", params, on_asked);
}

static void elicit(struct call *call, const char *message, size_t n, const char *schema)
{
	char params[4096];
	struct json j;

	json_init(&j, params, sizeof(params));
	json_open(&j, NULL, '{');
	json_bytes(&j, "message", message, n);
	json_raw(&j, "requestedSchema", schema);
	json_close(&j, '}');
	call_ask(call, "elicitation/create", params, on_asked);
}

static void elicitation(struct call *call)
{
	struct json_span message = json_tree_get_text(call->r.arguments, "message");

	elicit(call, message.p, message.n,
	       "{\"type\":\"object\",\"properties\":{\"username\":{\"type\":\"string\","
	       "\"description\":\"User's response\"},\"email\":{\"type\":\"string\","
	       "\"description\":\"User's email address\"}},\"required\":[\"username\",\"email\"]}");
}

static void defaults(struct call *call)
{
	elicit(call, "Defaults", 8,
	       "{\"type\":\"object\",\"properties\":{"
	       "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
	       "\"age\":{\"type\":\"integer\",\"default\":30},"
	       "\"score\":{\"type\":\"number\",\"default\":95.5},"
	       "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],"
	       "\"default\":\"active\"},"
	       "\"verified\":{\"type\":\"boolean\",\"default\":true}},\"required\":[]}");
}

#define TITLED(a, b, c)                                \
	"[{\"const\":\"value1\",\"title\":\"" a "\"}," \
	"{\"const\":\"value2\",\"title\":\"" b "\"},"  \
	"{\"const\":\"value3\",\"title\":\"" c "\"}]"
#define OPTIONS "[\"option1\",\"option2\",\"option3\"]"

static void enums(struct call *call)
{
	elicit(call, "Enums", 5,
	       "{\"type\":\"object\",\"properties\":{"
	       "\"untitledSingle\":{\"type\":\"string\",\"enum\":" OPTIONS "},"
	       "\"titledSingle\":{\"type\":\"string\",\"oneOf\":" TITLED(
		       "First Option", "Second Option",
		       "Third Option") "},"
				       "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\","
				       "\"opt2\",\"opt3\"],"
				       "\"enumNames\":[\"Option One\",\"Option Two\",\"Option "
				       "Three\"]},"
				       "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":"
				       "\"string\","
				       "\"enum\":" OPTIONS "}},"
				       "\"titledMulti\":{\"type\":\"array\",\"items\":{"
				       "\"anyOf\":" TITLED("First Choice", "Second Choice",
							   "Third Choice") "}}},\"required\":[]}");
}

/* ---- the others */

static void missing_capability(struct call *call)
{
	struct mcp_fault f;

	if (call->r.era == MCP_LEGACY || mcp_client_has(&call->r, "sampling", NULL)) {
		finish_text(call, "the client can sample");
		return;
	}
	(void)mcp_fault_capability(&f, "sampling");
	call_refuse(call, &f);
}

static void tool_change(struct call *call)
{
	fixture_changed = !fixture_changed;
	announce(MCP_TOOLS_CHANGED);
	finish_text(call, "changed");
}

static void prompt_change(struct call *call)
{
	announce(MCP_PROMPTS_CHANGED);
	finish_text(call, "changed");
}

/* The arguments as they came, for tests of them. */
static void echo(struct call *call)
{
	struct json_span text = json_tree_get_text(call->r.arguments, "text");
	struct json j;

	open_content(call, &j);
	mcp_write_text(&j, text.p, text.n, false);
	close_content(call, &j);
}

struct row {
	const char *name, *schema;
	void (*run)(struct call *call);
};

#define TEXT_ARGUMENT(name)                                                                      \
	"{\"type\":\"object\",\"properties\":{\"" name "\":{\"type\":\"string\"}},\"required\":" \
	"[\"" name "\"]}"

static const char wide_schema[] =
	"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
	"\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{"
	"\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{"
	"\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
	"\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"
	"\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},"
	"\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"
	"\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},"
	"\"required\":[\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},"
	"\"else\":{\"required\":[\"email\"]},\"additionalProperties\":false}";

#define ROWS                                                                      \
	R("test_simple_text", NOTHING, simple_text)                               \
	R("test_image_content", NOTHING, image)                                   \
	R("test_audio_content", NOTHING, audio)                                   \
	R("test_embedded_resource", NOTHING, embedded)                            \
	R("test_multiple_content_types", NOTHING, mixed)                          \
	R("test_error_handling", NOTHING, failing)                                \
	R("test_tool_with_logging", NOTHING, log_step)                            \
	R("test_logging_tool", NOTHING, log_step)                                 \
	R("test_tool_with_progress", NOTHING, progress_step)                      \
	R("test_sampling", TEXT_ARGUMENT("prompt"), sampling)                     \
	R("test_elicitation", TEXT_ARGUMENT("message"), elicitation)              \
	R("test_elicitation_sep1034_defaults", NOTHING, defaults)                 \
	R("test_elicitation_sep1330_enums", NOTHING, enums)                       \
	R("test_missing_capability", NOTHING, missing_capability)                 \
	R("test_trigger_tool_change", NOTHING, tool_change)                       \
	R("test_trigger_prompt_change", NOTHING, prompt_change)                   \
	R("test_streaming_elicitation", NOTHING, ask_elicitation)                 \
	R("test_input_required_result_elicitation", NOTHING, ask_elicitation)     \
	R("test_input_required_result_sampling", NOTHING, ask_sampling)           \
	R("test_input_required_result_list_roots", NOTHING, ask_roots)            \
	R("test_input_required_result_request_state", NOTHING, ask_state)         \
	R("test_input_required_result_multiple_inputs", NOTHING, ask_several)     \
	R("test_input_required_result_multi_round", NOTHING, ask_rounds)          \
	R("test_input_required_result_tampered_state", NOTHING, ask_tampered)     \
	R("test_input_required_result_capabilities", NOTHING, ask_capabilities)   \
	R("json_schema_2020_12_tool", wide_schema, simple_text)                   \
	R("test_custom_headers",                                                  \
	  "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\"," \
	  "\"x-mcp-header\":\"Region\"},\"text\":{\"type\":\"string\"}}}",        \
	  simple_text)                                                            \
	R("echo", TEXT_ARGUMENT("text"), echo)                                    \
	R("test_added_tool", NOTHING, simple_text)

#define R(n, s, f) { n, s, f },
static const struct row rows[] = { ROWS };
#undef R

#define R(n, s, f)                                       \
	{ .name = n,                                     \
	  .description = "A tool for conformance tests", \
	  .input_schema = s,                             \
	  .no_annotations = true },
const struct mcp_tool fixture_tools[] = { ROWS };
#undef R
const size_t fixture_tools_n = COUNT(fixture_tools);

void tools_call(struct call *call)
{
	const struct http1_request *q = exchange_request(call->x);
	struct mcp_http h = { q->method, q->headers, q->headers_n };
	const struct mcp_tool *tool;
	struct mcp_fault f;
	struct err e;

	tool = mcp_server_tool(&the_server, &call->r, &f);
	if (tool == NULL ||
	    mcp_check_param_headers(
		    (struct json_span){ tool->input_schema, strlen(tool->input_schema) }, &h,
		    &call->r, &f) < 0) {
		call_refuse(call, &f);
		return;
	}
	if (tool->input_schema != wide_schema &&
	    mcp_arguments_check(tool->input_schema, call->r.arguments, &e) < 0) {
		finish_error(call, e.msg);
		return;
	}
	rows[tool - fixture_tools].run(call);
}
