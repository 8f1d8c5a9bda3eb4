/* Goal: a state is opened for the same caller, method, tool and arguments only, and not after its
 * time. Encryption is seal's, and tested there; here a box is its text. */
#include "sealed_state.h"

#include "support.h"

static int on_close(void *arg, const char *about, const void *value, size_t len, uint8_t **ret,
		    size_t *ret_len, struct err *e)
{
	size_t n = strlen(about) + 1;

	*ret = malloc(n + len);
	CHECK(*ret != NULL);
	memcpy(*ret, about, n);
	memcpy(*ret + n, value, len);
	*ret_len = n + len;
	return 0;
}

static int on_open(void *arg, const char *about, const void *box, size_t len, uint8_t **ret,
		   size_t *ret_len, struct err *e)
{
	size_t n = strlen(about) + 1;

	if (len < n || memcmp(box, about, n) != 0)
		return err_set(e, ERR_INVALID, "another box");
	*ret_len = len - n;
	*ret = malloc(*ret_len + 1);
	CHECK(*ret != NULL);
	memcpy(*ret, (const uint8_t *)box + n, *ret_len);
	return 0;
}

static const struct mcp_sealer sealer = { .close = on_close, .open = on_open };

/* A call with these arguments; the tree must be released. */
static struct mcp_request call(struct json_tree *t, const char *tool, const char *arguments)
{
	struct mcp_request r = { .method = MCP_TOOLS_CALL, .name = { tool, strlen(tool) } };
	struct err e;

	CHECK(json_tree_read(t, arguments, strlen(arguments), &json_tree_default, &e) == 0);
	r.arguments = json_tree_root(t);
	return r;
}

/* The state of a call, or NULL if it is refused, which is always an error of parameters. */
static char *opened(const char *sealed, enum mcp_method method, const char *tool,
		    const char *arguments, const char *who, int64_t now)
{
	struct json_tree t;
	struct mcp_request r = call(&t, tool, arguments);
	struct mcp_fault f = { 0 };
	char *state = NULL;

	r.method = method;
	r.request_state = (struct json_span){ sealed, strlen(sealed) };
	if (mcp_state_open(&sealer, &r, who, now, &state, &f) < 0)
		CHECK(f.code == MCP_INVALID_PARAMS && f.status == 400 && state == NULL);
	json_tree_release(&t);
	return state;
}

static void a_state_is_bound_to_its_call(void)
{
	static const char arguments[] = "{\"a\":1,\"b\":[true,\"x\"]}";
	static const struct {
		enum mcp_method method;
		const char *tool, *arguments, *who;
		int64_t now;
		bool good;
	} rows[] = {
		{ MCP_TOOLS_CALL, "run", arguments, "tenant key", 1000, true },
		{ MCP_TOOLS_CALL, "run", " {\"b\":[ true,\"\\u0078\"], \"a\":1}", "tenant key", 0,
		  true },
		{ MCP_TOOLS_CALL, "run", arguments, "tenant key", 1001, false },
		{ MCP_TOOLS_CALL, "run", arguments, "tenant key2", 1000, false },
		{ MCP_TOOLS_CALL, "run", arguments, "other key", 1000, false },
		{ MCP_TOOLS_CALL, "run2", arguments, "tenant key", 1000, false },
		{ MCP_PROMPTS_GET, "run", arguments, "tenant key", 1000, false },
		{ MCP_TOOLS_CALL, "run", "{\"a\":2,\"b\":[true,\"x\"]}", "tenant key", 1000,
		  false },
		{ MCP_TOOLS_CALL, "run", "{}", "tenant key", 1000, false },
	};
	struct json_tree t;
	struct mcp_request r = call(&t, "run", arguments);
	struct err e;
	OWN_MEM char *sealed =
		mcp_state_seal(&sealer, &r, "tenant key", 1000, "step 2 \xc3\xa9", &e);

	json_tree_release(&t);
	CHECK(sealed != NULL);
	for (size_t i = 0; i < COUNT(rows); i++) {
		OWN_MEM char *state = opened(sealed, rows[i].method, rows[i].tool,
					     rows[i].arguments, rows[i].who, rows[i].now);

		CHECK((state != NULL) == rows[i].good);
		if (state != NULL)
			CHECK_STR(state, "step 2 \xc3\xa9");
	}
}

static void without_a_state_there_is_none(void)
{
	struct json_tree t;
	struct mcp_request r = call(&t, "run", "{}");
	struct mcp_fault f;
	char *state;

	CHECK(mcp_state_open(&sealer, &r, "w", 0, &state, &f) == 0 && state == NULL);
	json_tree_release(&t);
}

static void a_long_state_is_refused(void)
{
	struct json_tree t;
	struct mcp_request r = call(&t, "run", "{}");
	char text[MCP_STATE_MAX + 2];
	struct err e;

	memset(text, 'x', sizeof(text));
	text[MCP_STATE_MAX + 1] = '\0';
	CHECK(mcp_state_seal(&sealer, &r, "w", 0, text, &e) == NULL && e.code == ERR_LIMIT);
	json_tree_release(&t);
}

TEST_MAIN({ "a_state_is_bound_to_its_call", a_state_is_bound_to_its_call },
	  { "without_a_state_there_is_none", without_a_state_there_is_none },
	  { "a_long_state_is_refused", a_long_state_is_refused })
