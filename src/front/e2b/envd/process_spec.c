#include "front/e2b/envd/process_spec.h"

#include <stdio.h>
#include <string.h>

#define STRINGS_MAX (4U << 20) /* what a cell's PID 1 takes */
#define DEFAULTS_MAX 4096U     /* of it, for process_spec_default() */
#define ARGS_MAX 32768
#define ENVS_MAX 4096
#define CWD_MAX 4096
#define TAG_MAX 1024

/* The command is the first argument. */
static int read_args(const json_t *process, struct process_spec *s, struct err *e)
{
	const char *cmd = "";
	const json_t *args = rpc_member(process, "args");

	if (rpc_text(process, "cmd", &cmd, e) < 0)
		return -1;
	if (*cmd == '\0')
		return err_set(e, ERR_INVALID, "cmd: is missing");
	if (args != NULL && (!json_is_array(args) || json_array_size(args) > ARGS_MAX))
		return err_set(e, ERR_INVALID, "args: must be an array of at most %d strings",
			       ARGS_MAX);
	buf_put(&s->strings, cmd, strlen(cmd) + 1);
	s->argc = 1;
	for (size_t i = 0; i < json_array_size(args); i++) {
		const json_t *word = json_array_get(args, i);

		if (!json_is_string(word))
			return err_set(e, ERR_INVALID, "args: must be an array of strings");
		buf_put(&s->strings, json_string_value(word), json_string_length(word) + 1);
		s->argc++;
	}
	return 0;
}

/* Each becomes NAME=value behind the arguments. */
static int read_envs(const json_t *process, struct process_spec *s, struct err *e)
{
	json_t *envs = NULL, *value;
	const char *name;

	if (rpc_object(process, "envs", &envs, e) < 0)
		return -1;
	if (json_object_size(envs) > ENVS_MAX)
		return err_set(e, ERR_INVALID, "envs: more than %d", ENVS_MAX);
	json_object_foreach(envs, name, value)
	{
		if (*name == '\0' || strchr(name, '=') != NULL)
			return err_set(e, ERR_INVALID, "envs: a name is empty or has a '='");
		if (!json_is_string(value))
			return err_set(e, ERR_INVALID, "envs: a value is not a string");
		buf_put(&s->strings, name, strlen(name));
		buf_put(&s->strings, "=", 1);
		buf_put(&s->strings, json_string_value(value), json_string_length(value) + 1);
		s->envc++;
	}
	return 0;
}

/* Sizes beyond a terminal's bounds are cut, as E2B does it. */
static int read_pty(const json_t *message, struct process_spec *s, struct err *e)
{
	json_t *pty = NULL, *size = NULL;
	uint32_t rows = 0, cols = 0;

	if (rpc_object(message, "pty", &pty, e) < 0)
		return -1;
	s->pty = pty != NULL;
	if (pty == NULL)
		return 0;
	if (rpc_object(pty, "size", &size, e) < 0 || rpc_uint32(size, "rows", &rows, e) < 0 ||
	    rpc_uint32(size, "cols", &cols, e) < 0)
		return -1;
	s->rows = rows > UINT16_MAX ? UINT16_MAX : (uint16_t)rows;
	s->cols = cols > UINT16_MAX ? UINT16_MAX : (uint16_t)cols;
	return 0;
}

/* Out of memory leaves the member out. */
static void write_value(struct json *j, const char *name, const json_t *value)
{
	OWN_MEM char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT);

	if (text != NULL)
		json_raw(j, name, text);
}

/* The kept form of a process: {"tag":TAG,"config":CONFIG}, the tag null if missing. So both are
 * found without parsing. */
#define KEPT_TAG "{\"tag\":"
#define KEPT_CONFIG ",\"config\":"

/* A spec that does not fit is kept without its arguments and environment. */
static int process_spec_keep(struct process_spec *s, const json_t *process, const char *tag,
			     struct err *e)
{
	const char *cmd = (const char *)s->strings.data;
	struct json j;

	/* JSON is never shorter than the strings: what cannot fit is not even written. */
	for (bool whole = s->strings.len <= PROCESS_SPEC_CLIENT_MAX;; whole = false) {
		json_init_heap(&j, PROCESS_SPEC_CLIENT_MAX);
		json_open(&j, NULL, '{');
		json_text(&j, "tag", tag);
		json_open(&j, "config", '{');
		json_bytes(&j, "cmd", cmd, whole || strlen(cmd) < CWD_MAX ? strlen(cmd) : CWD_MAX);
		if (whole) {
			write_value(&j, "args", rpc_member(process, "args"));
			write_value(&j, "envs", rpc_member(process, "envs"));
		}
		if (s->cwd != NULL)
			json_text(&j, "cwd", s->cwd);
		json_close(&j, '}');
		json_close(&j, '}');
		if (json_ok(&j) || !whole)
			break;
		json_release(&j);
	}
	s->client = json_ok(&j) ? strdup(j.text) : NULL;
	json_release(&j);
	return s->client == NULL ? err_sys(e, "allocate") : 0;
}

/* Room for the defaults is left in strings. */
int process_spec_read(const json_t *message, struct process_spec *ret, struct err *e)
{
	const char *cwd = NULL, *tag = NULL;
	json_t *process = NULL;
	struct err full;

	memset(ret, 0, sizeof(*ret));
	buf_init(&ret->strings, STRINGS_MAX);
	ret->stdin_open = true;
	if (rpc_object(message, "process", &process, e) < 0 ||
	    rpc_text(message, "tag", &tag, e) < 0 ||
	    rpc_bool(message, "stdin", &ret->stdin_open, e) < 0 || read_pty(message, ret, e) < 0 ||
	    rpc_text(process, "cwd", &cwd, e) < 0 || read_args(process, ret, e) < 0 ||
	    read_envs(process, ret, e) < 0)
		return -1;
	if (buf_check(&ret->strings, &full) < 0 || ret->strings.len > STRINGS_MAX - DEFAULTS_MAX)
		return err_set(e, ERR_INVALID, "args and envs: more than %u bytes",
			       STRINGS_MAX - DEFAULTS_MAX);
	if ((cwd != NULL && strlen(cwd) >= CWD_MAX) || (tag != NULL && strlen(tag) > TAG_MAX))
		return err_set(e, ERR_INVALID, "%s: is too long",
			       tag != NULL && strlen(tag) > TAG_MAX ? "tag" : "cwd");
	if (cwd != NULL && *cwd != '\0') {
		ret->cwd = strdup(cwd);
		if (ret->cwd == NULL)
			return err_sys(e, "allocate");
	}
	return process_spec_keep(ret, process, tag, e);
}

void process_spec_release(struct process_spec *s)
{
	buf_release(&s->strings);
	free(s->cwd);
	free(s->client);
	s->cwd = s->client = NULL;
}

/* Behind its arguments. */
static const char *first_env(const struct process_spec *s)
{
	const char *at = (const char *)s->strings.data;

	for (uint32_t i = 0; i < s->argc; i++)
		at += strlen(at) + 1;
	return at;
}

/* The arguments with a space between two. */
char *process_spec_text(const struct process_spec *s)
{
	size_t len = (size_t)(first_env(s) - (const char *)s->strings.data);
	char *text = malloc(len);

	if (text == NULL)
		return NULL;
	memcpy(text, s->strings.data, len);
	for (size_t i = 0; i + 1 < len; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	return text;
}

/* Is there an assignment of the name in [at, end)? */
static bool process_spec_assigns(const char *at, const char *end, const char *name)
{
	size_t n = strlen(name);

	for (; at < end; at += strlen(at) + 1)
		if (strncmp(at, name, n) == 0 && at[n] == '=')
			return true;
	return false;
}

void process_spec_default(struct process_spec *s, const char *others, size_t len, const char *name,
			  const char *value)
{
	const char *end = (const char *)s->strings.data + s->strings.len;

	if (process_spec_assigns(first_env(s), end, name) ||
	    (len > 0 && process_spec_assigns(others, others + len, name)))
		return;
	buf_printf(&s->strings, "%s=%s", name, value);
	buf_put(&s->strings, "", 1);
	s->envc++;
}

/* How long the kept tag is, as JSON, behind KEPT_TAG. */
static size_t tag_length(const char *at)
{
	size_t n = 1;

	if (*at != '"')
		return strncmp(at, "null", 4) == 0 ? 4 : 0;
	while (at[n] != '"' && at[n] != '\0')
		n += at[n] == '\\' && at[n + 1] != '\0' ? 2 : 1;
	return at[n] == '"' ? n + 1 : n;
}

/* The tag, as JSON. NULL: an earlier version wrote the row, in another form. */
static const char *kept_tag(const char *client, size_t *ret_len)
{
	const char *at = client + strlen(KEPT_TAG);

	if (strncmp(client, KEPT_TAG, strlen(KEPT_TAG)) != 0)
		return NULL;
	*ret_len = tag_length(at);
	return strncmp(at + *ret_len, KEPT_CONFIG, strlen(KEPT_CONFIG)) == 0 ? at : NULL;
}

/* As earlier versions kept it: the members of both in one object. */
static void show_parsed(struct json *j, const char *client, const char *command)
{
	struct err e;
	json_t *kept = *client == '\0' ? NULL : rpc_parse(client, strlen(client), &e);
	const char *cmd = command, *cwd = NULL, *tag = NULL;

	/* This server wrote it: missing members were not given. */
	IGNORED(rpc_text(kept, "cmd", &cmd, &e), "the command is as good");
	IGNORED(rpc_text(kept, "cwd", &cwd, &e), "none is shown");
	IGNORED(rpc_text(kept, "tag", &tag, &e), "none is shown");
	json_open(j, "config", '{');
	json_text(j, "cmd", cmd);
	write_value(j, "args", rpc_member(kept, "args"));
	write_value(j, "envs", rpc_member(kept, "envs"));
	if (cwd != NULL)
		json_text(j, "cwd", cwd);
	json_close(j, '}');
	if (tag != NULL)
		json_text(j, "tag", tag);
	json_decref(kept);
}

void process_spec_show(struct json *j, const char *client, const char *command)
{
	size_t n = 0;
	const char *tag = kept_tag(client, &n), *config;

	if (tag == NULL) {
		show_parsed(j, client, command);
		return;
	}
	config = tag + n + strlen(KEPT_CONFIG);
	json_raw_bytes(j, "config", config, strlen(config) - 1); /* without the outer bracket */
	if (*tag == '"')
		json_raw_bytes(j, "tag", tag, n);
}

static bool has_parsed_tag(const char *client, const char *tag)
{
	const char *own = NULL;
	struct err e;
	json_t *kept;
	bool same;

	if (strstr(client, "\"tag\"") == NULL) /* most have none: not parsed */
		return false;
	kept = rpc_parse(client, strlen(client), &e);
	same = kept != NULL && rpc_text(kept, "tag", &own, &e) == 0 && own != NULL &&
	       strcmp(own, tag) == 0;
	json_decref(kept);
	return same;
}

/* The tags are compared as JSON, without parsing the row. */
bool process_spec_has_tag(const char *client, const char *tag)
{
	size_t n = 0;
	const char *own = kept_tag(client, &n);
	char text[6 * TAG_MAX + 3];
	struct json j;

	if (own == NULL)
		return has_parsed_tag(client, tag);
	json_init(&j, text, sizeof(text));
	json_text(&j, NULL, tag);
	return json_ok(&j) && *own == '"' && j.len == n && memcmp(own, text, n) == 0;
}

/* Exactly one of pid and tag. */
int process_selector_read(const json_t *message, struct process_selector *ret, struct err *e)
{
	json_t *process = NULL;
	const char *tag = NULL;

	*ret = (struct process_selector){ 0 };
	if (rpc_object(message, "process", &process, e) < 0 ||
	    rpc_text(process, "tag", &tag, e) < 0 || rpc_uint32(process, "pid", &ret->pid, e) < 0)
		return -1;
	if (tag == NULL && rpc_member(process, "pid") == NULL)
		return err_set(e, ERR_UNSUPPORTED, "process: neither pid nor tag");
	if (tag != NULL && rpc_member(process, "pid") != NULL)
		return err_set(e, ERR_INVALID, "process: either pid or tag, not both");
	if (tag == NULL)
		return 0;
	if (strlen(tag) > TAG_MAX)
		return err_set(e, ERR_INVALID, "tag: is too long");
	ret->tag = strdup(tag);
	return ret->tag == NULL ? err_sys(e, "allocate") : 0;
}

void process_selector_release(struct process_selector *s)
{
	free(s->tag);
	s->tag = NULL;
}
