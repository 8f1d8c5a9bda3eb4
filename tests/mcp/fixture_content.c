/* fixture_content.c - resources, prompts and completion of the conformance suite. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

#define ANSWER_MAX ((size_t)1 << 20)

const struct mcp_resource fixture_resources[] = {
	{ "test://static-text", "static-text", NULL, "A text", "text/plain" },
	{ "test://static-binary", "static-binary", NULL, "An image", "image/png" },
	{ "test://watched-resource", "watched-resource", NULL, "Can be subscribed to",
	  "text/plain" },
};
const size_t fixture_resources_n = COUNT(fixture_resources);

const struct mcp_resource fixture_templates[] = {
	{ "test://template/{id}/data", "template", NULL, "Data of an id", "application/json" },
};
const size_t fixture_templates_n = COUNT(fixture_templates);

struct prompt_argument {
	const char *name, *description;
};

struct prompt {
	const char *name, *description;
	const struct prompt_argument *arguments; /* all are required */
	size_t n;
};

static const struct prompt_argument two[] = { { "arg1", "First test argument" },
					      { "arg2", "Second test argument" } };
static const struct prompt_argument uri[] = { { "resourceUri", "URI of the resource" } };

static const struct prompt prompts[] = {
	{ "test_simple_prompt", "A simple prompt", NULL, 0 },
	{ "test_prompt_with_arguments", "A prompt with arguments", two, 2 },
	{ "test_prompt_with_embedded_resource", "A prompt with a resource", uri, 1 },
	{ "test_prompt_with_image", "A prompt with an image", NULL, 0 },
	{ "test_input_required_result_prompt", "A prompt that asks", NULL, 0 },
};

/* ---- resources */

static void finish_resource(struct call *call, const char *mime, const char *member,
			    const char *value)
{
	struct json j;

	json_init_heap(&j, ANSWER_MAX);
	mcp_write_result(&j, &the_server, &call->r);
	json_open(&j, "contents", '[');
	json_open(&j, NULL, '{');
	json_bytes(&j, "uri", call->r.name.p, call->r.name.n);
	json_text(&j, "mimeType", mime);
	json_text(&j, member, value);
	json_close(&j, '}');
	json_close(&j, ']');
	mcp_write_cache(&j, &call->r, 0, false);
	mcp_write_result_end(&j);
	call_finish(call, &j);
}

/* The id in test://template/{id}/data. */
static bool template_id(struct json_span name, char ret[64])
{
	static const char head[] = "test://template/", tail[] = "/data";
	size_t h = sizeof(head) - 1, t = sizeof(tail) - 1, n;

	if (name.n <= h + t || name.n - h - t >= 64 || memcmp(name.p, head, h) != 0 ||
	    memcmp(name.p + name.n - t, tail, t) != 0)
		return false;
	n = name.n - h - t;
	memcpy(ret, name.p + h, n);
	ret[n] = '\0';
	return true;
}

void resources_read(struct call *call)
{
	struct mcp_fault f;
	char id[64], text[256];

	if (json_span_is(call->r.name, "test://static-text"))
		finish_resource(call, "text/plain", "text",
				"This is the content of the static text resource.");
	else if (json_span_is(call->r.name, "test://watched-resource"))
		finish_resource(call, "text/plain", "text", "Watched.");
	else if (json_span_is(call->r.name, "test://static-binary"))
		finish_resource(call, "image/png", "blob", fixture_png);
	else if (template_id(call->r.name, id)) {
		(void)snprintf(text, sizeof(text),
			       "{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: %s\"}",
			       id, id);
		finish_resource(call, "application/json", "text", text);
	} else {
		(void)mcp_fault_resource(&f, call->r.name);
		call_refuse(call, &f);
	}
}

/* ---- prompts */

static void open_prompt(struct call *call, struct json *j)
{
	json_init_heap(j, ANSWER_MAX);
	mcp_write_result(j, &the_server, &call->r);
	json_open(j, "messages", '[');
}

static void close_prompt(struct call *call, struct json *j)
{
	json_close(j, ']');
	mcp_write_result_end(j);
	call_finish(call, j);
}

static void open_message(struct json *j, const char *type)
{
	json_open(j, NULL, '{');
	json_text(j, "role", "user");
	json_open(j, "content", '{');
	json_text(j, "type", type);
}

static void close_message(struct json *j)
{
	json_close(j, '}');
	json_close(j, '}');
}

static void write_message(struct json *j, const char *text)
{
	open_message(j, "text");
	json_text(j, "text", text);
	close_message(j);
}

static void finish_prompt(struct call *call, const char *text)
{
	struct json j;

	open_prompt(call, &j);
	write_message(&j, text);
	close_prompt(call, &j);
}

static void with_arguments(struct call *call)
{
	struct json_span a = json_tree_get_text(call->r.arguments, "arg1");
	struct json_span b = json_tree_get_text(call->r.arguments, "arg2");
	char text[256];

	(void)snprintf(text, sizeof(text), "Prompt with arguments: arg1='%.*s', arg2='%.*s'",
		       (int)a.n, a.p, (int)b.n, b.p);
	finish_prompt(call, text);
}

static void with_resource(struct call *call)
{
	struct json_span where = json_tree_get_text(call->r.arguments, "resourceUri");
	struct json j;

	open_prompt(call, &j);
	open_message(&j, "resource");
	json_open(&j, "resource", '{');
	json_bytes(&j, "uri", where.p, where.n);
	json_text(&j, "mimeType", "text/plain");
	json_text(&j, "text", "Embedded resource content for testing.");
	json_close(&j, '}');
	close_message(&j);
	write_message(&j, "Please process the embedded resource above.");
	close_prompt(call, &j);
}

static void with_image(struct call *call)
{
	struct json j;

	open_prompt(call, &j);
	open_message(&j, "image");
	json_text(&j, "data", fixture_png);
	json_text(&j, "mimeType", "image/png");
	close_message(&j);
	write_message(&j, "Please analyze the image above.");
	close_prompt(call, &j);
}

static void write_arguments(struct json *j, const struct prompt *p)
{
	json_open(j, "arguments", '[');
	for (size_t i = 0; i < p->n; i++) {
		json_open(j, NULL, '{');
		json_text(j, "name", p->arguments[i].name);
		json_text(j, "description", p->arguments[i].description);
		json_bool(j, "required", true);
		json_close(j, '}');
	}
	json_close(j, ']');
}

void prompts_list(struct call *call)
{
	struct json j;

	json_init_heap(&j, ANSWER_MAX);
	mcp_write_result(&j, &the_server, &call->r);
	json_open(&j, "prompts", '[');
	for (size_t i = 0; i < COUNT(prompts); i++) {
		json_open(&j, NULL, '{');
		json_text(&j, "name", prompts[i].name);
		json_text(&j, "description", prompts[i].description);
		if (prompts[i].n > 0)
			write_arguments(&j, &prompts[i]);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	mcp_write_cache(&j, &call->r, the_server.list_ttl_ms, the_server.cache_public);
	mcp_write_result_end(&j);
	call_finish(call, &j);
}

void prompts_get(struct call *call)
{
	struct mcp_fault f;

	if (json_span_is(call->r.name, "test_simple_prompt"))
		finish_prompt(call, "This is a simple prompt for testing.");
	else if (json_span_is(call->r.name, "test_prompt_with_arguments"))
		with_arguments(call);
	else if (json_span_is(call->r.name, "test_prompt_with_embedded_resource"))
		with_resource(call);
	else if (json_span_is(call->r.name, "test_prompt_with_image"))
		with_image(call);
	else if (!json_span_is(call->r.name, "test_input_required_result_prompt")) {
		(void)mcp_fault_set(&f, MCP_INVALID_PARAMS, "there is no such prompt");
		call_refuse(call, &f);
	} else if (mcp_input(&call->r, "user_context") != NULL)
		finish_prompt(call, "A prompt with the user's context");
	else
		ask_prompt(call);
}

void complete(struct call *call)
{
	struct json j;

	json_init_heap(&j, ANSWER_MAX);
	mcp_write_result(&j, &the_server, &call->r);
	json_raw(&j, "completion", "{\"values\":[],\"total\":0,\"hasMore\":false}");
	mcp_write_result_end(&j);
	call_finish(call, &j);
}
