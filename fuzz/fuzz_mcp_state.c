/* The state that a client brings back. The sealer here encrypts nothing, so that every plaintext is
 * reached: one that is taken has not expired; and what was sealed is opened again, for the same
 * caller and call only. Input: requestState, newline, a state to be sealed. */
#include "fuzz.h"

#include <stdio.h>

#include "sealed_state.h"

unsigned long fuzz_accepted;

#define NOW 1000

/* Puts what the box is about in front of it, with its length. */
static int on_close(void *arg, const char *about, const void *value, size_t len, uint8_t **ret,
		    size_t *ret_len, struct err *e)
{
	size_t n = strlen(about);

	*ret = malloc(n + 1 + len);
	assert(*ret != NULL);
	memcpy(*ret, about, n + 1);
	memcpy(*ret + n + 1, value, len);
	*ret_len = n + 1 + len;
	return 0;
}

static int on_open(void *arg, const char *about, const void *box, size_t len, uint8_t **ret,
		   size_t *ret_len, struct err *e)
{
	size_t n = arg == NULL ? 0 : strlen(about) + 1;

	if (len < n || memcmp(box, about, n) != 0)
		return err_set(e, ERR_INVALID, "another box");
	*ret_len = len - n;
	*ret = malloc(*ret_len + 1);
	assert(*ret != NULL);
	memcpy(*ret, (const uint8_t *)box + n, *ret_len);
	return 0;
}

static void check_round_trip(struct mcp_request *r, const char *state)
{
	int bound;
	struct mcp_sealer s = { on_close, on_open, &bound };
	struct mcp_fault f;
	char *sealed, *back = NULL;
	struct err e;

	sealed = mcp_state_seal(&s, r, "tenant", NOW, state, &e);
	if (sealed == NULL) {
		assert(strlen(state) > MCP_STATE_MAX);
		return;
	}
	r->request_state = (struct json_span){ sealed, strlen(sealed) };
	if (strlen(state) < MCP_STATE_MAX / 2) {
		assert(mcp_state_open(&s, r, "tenant", NOW, &back, &f) == 0);
		assert(strcmp(back, state) == 0);
		free(back);
	}
	assert(mcp_state_open(&s, r, "tenant", NOW + 1, &back, &f) < 0 && back == NULL);
	assert(mcp_state_open(&s, r, "other", NOW, &back, &f) < 0);
	r->name = (struct json_span){ "other", 5 };
	assert(mcp_state_open(&s, r, "tenant", NOW, &back, &f) < 0 && f.code == MCP_INVALID_PARAMS);
	free(sealed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mcp_sealer open = { on_close, on_open, NULL };
	char *text = fuzz_text(data, size), *newline = strchr(text, '\n'), *state = NULL;
	struct mcp_request r = { .method = MCP_TOOLS_CALL, .name = { "run", 3 } };
	struct mcp_fault f;

	if (newline != NULL)
		*newline = '\0';
	r.request_state = (struct json_span){ text, strlen(text) };
	if (mcp_state_open(&open, &r, "tenant", NOW, &state, &f) == 0)
		fuzz_accepted++;
	else
		assert(f.code == MCP_INVALID_PARAMS && state == NULL);
	free(state);
	if (newline != NULL)
		check_round_trip(&r, newline + 1);
	free(text);
	return 0;
}
