/* fixture_inputs.c - tools, and a prompt, that need input of the user: the modern way, by a result
 * of kind input_required and a second call. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fixture.h"

#define WHO "tester"
#define VALID_S 60

#define FORM(message, name, type)                                             \
	"{\"mode\":\"form\",\"message\":\"" message                           \
	"\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"" name \
	"\":{\"type\":\"" type "\"}},\"required\":[\"" name "\"]}}"
#define SAMPLE(text, tokens)                                                                \
	"{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"" text \
	"\"}}],\"maxTokens\":" tokens "}"

static const struct mcp_question user_name = { "user_name", "elicitation/create",
					       FORM("What is your name?", "name", "string") };
static const struct mcp_question capital = { "capital_question", "sampling/createMessage",
					     SAMPLE("What is the capital of France?", "100") };
static const struct mcp_question greeting = { "greeting", "sampling/createMessage",
					      SAMPLE("Generate a greeting", "50") };
static const struct mcp_question client_roots = { "client_roots", "roots/list", "{}" };
static const struct mcp_question confirm = { "confirm", "elicitation/create",
					     FORM("Please confirm", "ok", "boolean") };
static const struct mcp_question step1 = { "step1", "elicitation/create",
					   FORM("Step 1: What is your name?", "name", "string") };
static const struct mcp_question step2 = { "step2", "elicitation/create",
					   FORM("Step 2: What is your favorite color?", "color",
						"string") };
static const struct mcp_question context = { "user_context", "elicitation/create",
					     FORM("What context should the prompt use?", "context",
						  "string") };

/* Asks, with a state that says which step follows (NULL: without one). */
static void ask(struct call *call, const struct mcp_question *questions, size_t n,
		const char *state)
{
	OWN_MEM char *sealed = NULL;
	struct mcp_fault f;
	struct err e;
	struct json j;

	if (state != NULL) {
		sealed =
			mcp_state_seal(&the_sealer, &call->r, WHO, time(NULL) + VALID_S, state, &e);
		if (sealed == NULL) {
			(void)mcp_fault_set(&f, MCP_INTERNAL_ERROR, "%s", e.msg);
			call_refuse(call, &f);
			return;
		}
	}
	json_init_heap(&j, 1U << 16);
	mcp_write_input_required(&j, &the_server, &call->r, questions, n, sealed);
	call_finish(call, &j);
}

/* The text that a form's member has, if the user has accepted. */
static struct json_span form_text(const struct call *call, const char *key, const char *member)
{
	const struct json_node *input = mcp_input(&call->r, key);

	if (!json_span_is(json_tree_get_text(input, "action"), "accept"))
		return (struct json_span){ 0 };
	return json_tree_get_text(json_tree_get(input, "content"), member);
}

static void finish_with(struct call *call, const char *before, struct json_span value,
			const char *after)
{
	char text[256];
	size_t n = value.n < 100 ? value.n : 100;

	(void)snprintf(text, sizeof(text), "%s%.*s%s", before, (int)n, value.p, after);
	finish_text(call, text);
}

void ask_elicitation(struct call *call)
{
	struct json_span name = form_text(call, "user_name", "name");

	if (name.p != NULL)
		finish_with(call, "Hello, ", name, "!");
	else
		ask(call, &user_name, 1, NULL);
}

void ask_sampling(struct call *call)
{
	const struct json_node *input = mcp_input(&call->r, "capital_question");
	struct json_span text = json_tree_get_text(json_tree_get(input, "content"), "text");

	if (text.p != NULL)
		finish_with(call, "", text, "");
	else
		ask(call, &capital, 1, NULL);
}

void ask_roots(struct call *call)
{
	const struct json_node *roots = json_tree_get(mcp_input(&call->r, "client_roots"), "roots");

	if (roots != NULL)
		finish_with(call, "Roots: ", roots->raw, "");
	else
		ask(call, &client_roots, 1, NULL);
}

/* Opens the state; false: the call is answered. "" if there is none. */
static bool open_state(struct call *call, char **ret)
{
	struct mcp_fault f;

	if (mcp_state_open(&the_sealer, &call->r, WHO, time(NULL), ret, &f) == 0)
		return true;
	call_refuse(call, &f);
	return false;
}

void ask_state(struct call *call)
{
	OWN_MEM char *state = NULL;

	if (!open_state(call, &state))
		return;
	if (state != NULL && mcp_input(&call->r, "confirm") != NULL)
		finish_text(call, "state-ok");
	else
		ask(call, &confirm, 1, "confirm");
}

void ask_tampered(struct call *call)
{
	ask_state(call);
}

void ask_several(struct call *call)
{
	const struct mcp_question all[] = { user_name, greeting, client_roots };
	OWN_MEM char *state = NULL;

	if (!open_state(call, &state))
		return;
	if (state != NULL && mcp_input(&call->r, "user_name") != NULL &&
	    mcp_input(&call->r, "greeting") != NULL && mcp_input(&call->r, "client_roots") != NULL)
		finish_text(call, "All inputs received");
	else
		ask(call, all, COUNT(all), "several");
}

void ask_rounds(struct call *call)
{
	OWN_MEM char *state = NULL;

	if (!open_state(call, &state))
		return;
	if (state != NULL && strcmp(state, "round 2") == 0 && mcp_input(&call->r, "step2") != NULL)
		finish_text(call, "Both steps are done");
	else if (state != NULL && mcp_input(&call->r, "step1") != NULL)
		ask(call, &step2, 1, "round 2");
	else
		ask(call, &step1, 1, "round 1");
}

/* Asks only what the client can answer. */
void ask_capabilities(struct call *call)
{
	struct mcp_question some[2];
	size_t n = 0;

	if (mcp_client_has(&call->r, "elicitation", "form"))
		some[n++] = user_name;
	if (mcp_client_has(&call->r, "sampling", NULL))
		some[n++] = greeting;
	if (n == 0)
		finish_text(call, "nothing to ask");
	else
		ask(call, some, n, NULL);
}

void ask_prompt(struct call *call)
{
	ask(call, &context, 1, NULL);
}
