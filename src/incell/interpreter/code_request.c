#include "incell/interpreter/code_request.h"

#include <string.h>

#define DEPTH_MAX 32

/* Copy a text without the white space around it. A missing member and null are "". */
static int read_word(struct json_value v, const char *name, char *ret, size_t cap, struct err *e)
{
	struct buf b = BUF_INIT(CODE_REQUEST_PATH_MAX);
	const char *text;
	size_t n;
	int result = 0;

	ret[0] = '\0';
	if (v.kind == JSON_READ_NONE || v.kind == JSON_READ_NULL)
		return 0;
	if (json_read_text(v, &b, e) < 0) {
		buf_release(&b);
		return err_set(e, ERR_INVALID, "%s must be a text of at most %zu bytes", name,
			       cap - 1);
	}
	text = buf_text(&b);
	text += strspn(text, " \t\n\r");
	n = strlen(text);
	while (n > 0 && strchr(" \t\n\r", text[n - 1]) != NULL)
		n--;
	if (n >= cap || memchr(b.data == NULL ? (const void *)"x" : b.data, '\0', b.len) != NULL)
		result = err_set(e, ERR_INVALID, "%s must be a text of at most %zu bytes", name,
				 cap - 1);
	else
		memcpy(ret, text, n);
	if (result == 0)
		ret[n] = '\0';
	buf_release(&b);
	return result;
}

/* v is checked JSON, so an escape is whole. */
static bool has_nul(struct json_value v)
{
	for (size_t i = 0; i + 5 < v.n; i++) {
		if (v.p[i] != '\\')
			continue;
		if (memcmp(v.p + i, "\\u0000", 6) == 0)
			return true;
		i++;
	}
	return false;
}

/* Names and values that no environment can hold are refused. */
bool code_request_is_env(struct json_value v)
{
	struct json_value name, value;
	const char *at = NULL;

	if (v.kind != JSON_READ_OBJECT || v.n > CODE_REQUEST_ENV_MAX)
		return false;
	while (json_read_next(v, &at, &name, &value))
		if (value.kind != JSON_READ_TEXT || name.n == 2 || has_nul(name) ||
		    has_nul(value) || memchr(name.p, '=', name.n) != NULL)
			return false;
	return true;
}

/* The members of a request. One walk over it, because the code may be long. */
enum code_request_member { CODE, ENV, CONTEXT_ID, CONTEXT_NAME, LANGUAGE, CWD, MEMBERS };

static const char *const names[MEMBERS] = { "code",	    "env_vars", "context_id",
					    "context_name", "language", "cwd" };

/* The first one counts if a member comes twice. Unknown members are ignored. */
static int find_members(const char *text, size_t len, struct json_value ret[MEMBERS], struct err *e)
{
	struct json_value v, name, value;
	const char *at = NULL;

	if (json_read(text, len, DEPTH_MAX, &v, e) < 0)
		return err_wrap(e, "the body");
	if (v.kind != JSON_READ_OBJECT)
		return err_set(e, ERR_INVALID, "the body must be a JSON object");
	while (json_read_next(v, &at, &name, &value))
		for (size_t i = 0; i < MEMBERS; i++)
			if (ret[i].kind == JSON_READ_NONE && json_read_is(name, names[i]))
				ret[i] = value;
	return 0;
}

/* Members of both requests. */
static int read_common(const struct json_value *m, struct code_request *ret, struct err *e)
{
	if (read_word(m[LANGUAGE], "language", ret->language, sizeof(ret->language), e) < 0 ||
	    read_word(m[CWD], "cwd", ret->cwd, sizeof(ret->cwd), e) < 0)
		return -1;
	for (char *p = ret->language; *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p | 0x20);
	if (ret->cwd[0] != '\0' && ret->cwd[0] != '/')
		return err_set(e, ERR_INVALID, "cwd must be an absolute path");
	return 0;
}

/* code and env are borrowed from text. */
int code_request_execute(const char *text, size_t len, struct code_request *ret, struct err *e)
{
	struct json_value m[MEMBERS] = { 0 };

	memset(ret, 0, sizeof(*ret));
	if (find_members(text, len, m, e) < 0 || read_common(m, ret, e) < 0 ||
	    read_word(m[CONTEXT_ID], "context_id", ret->context_id, sizeof(ret->context_id), e) <
		    0 ||
	    read_word(m[CONTEXT_NAME], "context_name", ret->context_name, sizeof(ret->context_name),
		      e) < 0)
		return -1;
	ret->code = m[CODE];
	if (m[ENV].kind != JSON_READ_NULL)
		ret->env = m[ENV];
	if (ret->code.kind != JSON_READ_TEXT || ret->code.n > CODE_REQUEST_CODE_MAX)
		return err_set(e, ERR_INVALID, "code must be a text of at most 16 MiB");
	if (ret->env.kind != JSON_READ_NONE && !code_request_is_env(ret->env))
		return err_set(e, ERR_INVALID,
			       "env_vars must be an object of texts, of at most 1 MiB");
	if (ret->context_id[0] != '\0' &&
	    (ret->language[0] != '\0' || ret->context_name[0] != '\0'))
		return err_set(e, ERR_INVALID,
			       "Only one of context_id or language can be provided");
	return 0;
}

/* An empty body asks for the defaults. */
int code_request_context(const char *text, size_t len, struct code_request *ret, struct err *e)
{
	struct json_value m[MEMBERS] = { 0 };

	memset(ret, 0, sizeof(*ret));
	if (len == 0)
		return 0;
	return find_members(text, len, m, e) < 0 ? -1 : read_common(m, ret, e);
}
