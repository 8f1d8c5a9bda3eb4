#include "sealed_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/mcp/server/mcp_digest.h"
#include "lib/mcp/server/mcp_write.h"

#define BOX_MAX ((size_t)MCP_STATE_MAX + 256) /* with what sealing adds */
#define ABOUT_MAX 512

/* What a state is bound to: who, method, name, digest of the arguments. Hashes, so that no
 * separator inside of a name can make two of them alike. */
static int bind_to(const struct mcp_request *r, const char *who, char about[ABOUT_MAX],
		   struct err *e)
{
	char arguments[MCP_DIGEST_MAX], name[MCP_DIGEST_MAX];
	struct json_node text = { .kind = JSON_READ_TEXT, .skip = 1, .text = r->name };
	int n;

	if (r->name.p == NULL)
		text.text = (struct json_span){ "", 0 };
	if (mcp_digest(r->arguments, arguments, e) < 0 || mcp_digest(&text, name, e) < 0)
		return -1;
	n = snprintf(about, ABOUT_MAX, "mcp-state %d %s %s %s", (int)r->method, name, arguments,
		     who);
	if (n < 0 || n >= ABOUT_MAX)
		return err_set(e, ERR_LIMIT, "the name of the caller is too long");
	return 0;
}

static char *encode(const uint8_t *box, size_t n)
{
	char *text = malloc(BASE64_LENGTH(n) + 1);

	if (text != NULL)
		base64_encode(box, n, text);
	return text;
}

char *mcp_state_seal(const struct mcp_sealer *s, const struct mcp_request *r, const char *who,
		     int64_t expires, const char *state, struct err *e)
{
	char plain[MCP_STATE_MAX + 32], about[ABOUT_MAX];
	OWN_MEM uint8_t *box = NULL;
	size_t box_n = 0;
	char *text;
	int n;

	n = snprintf(plain, sizeof(plain), "%" PRId64 " %s", expires, state);
	if (n < 0 || strlen(state) > MCP_STATE_MAX) {
		(void)err_set(e, ERR_LIMIT, "a state of more than %d bytes", MCP_STATE_MAX);
		return NULL;
	}
	if (bind_to(r, who, about, e) < 0 ||
	    s->close(s->arg, about, plain, (size_t)n, &box, &box_n, e) < 0)
		return NULL;
	text = encode(box, box_n);
	if (text == NULL)
		(void)err_sys(e, "cannot seal a state");
	return text;
}

static int refuse(struct mcp_fault *f)
{
	return mcp_fault_set(f, MCP_INVALID_PARAMS,
			     "requestState is not valid here, or no longer: call without it");
}

/* "EXPIRES STATE" */
static int read_plain(const uint8_t *plain, size_t n, int64_t now, char **ret, struct mcp_fault *f)
{
	const uint8_t *space = memchr(plain, ' ', n);
	size_t i = 0;
	int64_t expires = 0;

	if (space == NULL)
		return refuse(f);
	for (; plain + i < space && plain[i] >= '0' && plain[i] <= '9' && i < 18; i++)
		expires = 10 * expires + (plain[i] - '0');
	if (plain + i != space || expires < now)
		return refuse(f);
	*ret = json_span_dup((struct json_span){ (const char *)space + 1, n - i - 1 });
	return *ret == NULL ? refuse(f) : 0;
}

int mcp_state_open(const struct mcp_sealer *s, const struct mcp_request *r, const char *who,
		   int64_t now, char **ret, struct mcp_fault *f)
{
	uint8_t box[BASE64_BYTES(BASE64_LENGTH(BOX_MAX)) + 3];
	char about[ABOUT_MAX];
	OWN_MEM uint8_t *plain = NULL;
	size_t plain_n = 0;
	struct err e;
	ssize_t n;

	*ret = NULL;
	if (r->request_state.p == NULL)
		return 0;
	if (r->request_state.n > BASE64_LENGTH(BOX_MAX))
		return refuse(f);
	n = base64_decode(r->request_state.p, r->request_state.n, box);
	if (n <= 0 || bind_to(r, who, about, &e) < 0 ||
	    s->open(s->arg, about, box, (size_t)n, &plain, &plain_n, &e) < 0)
		return refuse(f);
	return read_plain(plain, plain_n, now, ret, f);
}

void mcp_write_input_required(struct json *j, const struct mcp_server *s,
			      const struct mcp_request *r, const struct mcp_question *questions,
			      size_t n, const char *state)
{
	mcp_write_result_of(j, s, r, "input_required");
	if (n > 0)
		json_open(j, "inputRequests", '{');
	for (size_t i = 0; i < n; i++) {
		json_open(j, questions[i].key, '{');
		json_text(j, "method", questions[i].method);
		json_raw(j, "params", questions[i].params);
		json_close(j, '}');
	}
	if (n > 0)
		json_close(j, '}');
	if (state != NULL)
		json_text(j, "requestState", state);
	mcp_write_result_end(j);
}

const struct json_node *mcp_input(const struct mcp_request *r, const char *key)
{
	return json_tree_get(r->input_responses, key);
}
