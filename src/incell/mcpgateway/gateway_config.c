#include "incell/mcpgateway/gateway_config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"

/* Bounds of one server's texts, and of the nesting. */
#define COMMAND_MAX (32U << 10)
#define ENV_MAX (128U << 10)
#define DEPTH_MAX 16
#define GITHUB "github/"

/* A text without NUL. */
static int read_text(struct json_value v, const char *what, struct buf *ret, struct err *e)
{
	if (v.kind != JSON_READ_TEXT)
		return err_set(e, ERR_INVALID, "%s must be a string", what);
	if (json_read_text(v, ret, e) < 0)
		return err_wrap(e, "%s", what);
	if (ret->len > 0 && memchr(ret->data, '\0', ret->len) != NULL)
		return err_set(e, ERR_INVALID, "%s must not have a NUL", what);
	return 0;
}

/* One word for the shell. Single quotes, so the shell changes nothing within. */
static void put_quoted(struct buf *to, const char *word)
{
	buf_put(to, "'", 1);
	for (; *word != '\0'; word++) {
		if (*word == '\'')
			buf_put_text(to, "'\\''");
		else
			buf_put(to, word, 1);
	}
	buf_put(to, "'", 1);
}

/* Each word is quoted for the shell, with a space in front. */
static int read_words(struct json_value array, struct buf *ret, struct err *e)
{
	struct json_value none, v;
	const char *at = NULL;

	while (json_read_next(array, &at, &none, &v)) {
		struct buf word = BUF_INIT(COMMAND_MAX);
		int got = read_text(v, "command", &word, e);

		if (got == 0) {
			buf_put_text(ret, ret->len > 0 ? " " : "");
			put_quoted(ret, buf_text(&word));
		}
		buf_release(&word);
		if (got < 0)
			return -1;
	}
	return buf_check(ret, e);
}

/* "command", with "args" as other clients of MCP write it, or runCmd. */
static int read_run(struct json_value v, struct gateway_entry *entry, struct err *e)
{
	struct json_value command = json_read_member(v, "command");
	struct json_value args = json_read_member(v, "args");

	if (command.kind == JSON_READ_NONE)
		command = json_read_member(v, "runCmd");
	if (command.kind == JSON_READ_ARRAY) {
		buf_put_text(&entry->run, "exec"); /* without the shell between */
		return read_words(command, &entry->run, e);
	}
	if (read_text(command, entry->repository[0] != '\0' ? "runCmd" : "command", &entry->run,
		      e) < 0)
		return -1;
	return args.kind == JSON_READ_ARRAY ? read_words(args, &entry->run, e) : 0;
}

/* Every other byte is allowed, as execve() allows it. */
static bool is_env_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (name[i] == '=' || name[i] == '\0')
			return false;
	}
	return n > 0;
}

/* Appends "NAME=value" and a NUL for each. */
static int read_env(struct json_value object, struct buf *ret, struct err *e)
{
	struct json_value name, v;
	const char *at = NULL;
	size_t from;

	while (json_read_next(object, &at, &name, &v)) {
		from = ret->len;
		if (json_read_text(name, ret, e) < 0)
			return err_wrap(e, "envs");
		if (!is_env_name((const char *)ret->data + from, ret->len - from))
			return err_set(e, ERR_INVALID, "envs has a bad name");
		if (buf_add(ret, "=", 1, e) < 0 || read_text(v, "a value of envs", ret, e) < 0 ||
		    buf_add(ret, "", 1, e) < 0)
			return -1;
	}
	return 0;
}

/* Members that are unknown here are ignored. */
static int read_settings(struct json_value v, struct gateway_entry *entry, struct err *e)
{
	struct json_value install = json_read_member(v, "installCmd");
	struct json_value cwd = json_read_member(v, "cwd"), env = json_read_member(v, "envs");

	if (env.kind == JSON_READ_NONE)
		env = json_read_member(v, "env");
	if (env.kind != JSON_READ_NONE && env.kind != JSON_READ_OBJECT)
		return err_set(e, ERR_INVALID, "envs must be an object");
	if (read_run(v, entry, e) < 0 || read_env(env, &entry->env, e) < 0)
		return -1;
	if (entry->run.len == 0)
		return err_set(e, ERR_INVALID, "its command is empty");
	if (install.kind != JSON_READ_NONE &&
	    read_text(install, "installCmd", &entry->install, e) < 0)
		return -1;
	return cwd.kind == JSON_READ_NONE ? 0 : read_text(cwd, "cwd", &entry->cwd, e);
}

/* Two names with one slash. Neither can be an option or a hidden folder. */
static bool is_repository(const char *text)
{
	const char *slash = strchr(text, '/');
	size_t n = strlen(text);

	if (slash == NULL || slash == text || slash[1] == '\0' || strchr(slash + 1, '/') != NULL)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (text + i != slash && !tool_name_is_valid(text + i, 1))
			return false;
	}
	return text[0] != '.' && text[0] != '-' && slash[1] != '.' && slash[1] != '-';
}

/* The name of its tools: characters that a server's name may not have become '-'. */
static void set_name(struct gateway_entry *entry, const char *text)
{
	size_t n = strlen(text);

	n = n < JOIN_SERVER_MAX ? n : JOIN_SERVER_MAX;
	for (size_t i = 0; i < n; i++) {
		entry->name[i] = text[i];
		if (!join_server_name_is_valid(text + i, 1))
			entry->name[i] = i == 0 || i == n - 1 ? 'x' : '-';
	}
	entry->name[n] = '\0';
}

/* The name says which of the two forms the server has. */
static int read_name(const char *name, struct json_value v, struct gateway_entry *entry,
		     struct err *e)
{
	const char *repository = name + sizeof(GITHUB) - 1;

	if (strncmp(name, GITHUB, sizeof(GITHUB) - 1) == 0) {
		if (!is_repository(repository) || strlen(repository) >= sizeof(entry->repository))
			return err_set(e, ERR_INVALID, "its name must be github/OWNER/REPO");
		str_copy(entry->repository, repository);
		set_name(entry, strchr(repository, '/') + 1);
		return 0;
	}
	if (v.kind != JSON_READ_OBJECT || json_read_member(v, "command").kind == JSON_READ_NONE)
		return err_set(e, ERR_UNSUPPORTED,
			       "servers of the catalogue are container images, which are not "
			       "supported here; give {\"command\": ...}, or github/OWNER/REPO "
			       "with runCmd");
	if (!join_server_name_is_valid(name, strlen(name)))
		return err_set(e, ERR_INVALID,
			       "its name must be 1 to %u letters, digits, '-' and single '_'",
			       JOIN_SERVER_MAX);
	str_copy(entry->name, name);
	return 0;
}

/* The entry counts at once, so that gateway_config_release() frees it after a failure as well. */
static int read_entry(struct json_value name, struct json_value v, struct gateway_config *c,
		      struct err *e)
{
	struct gateway_entry *entry = &c->entries[c->n++];
	struct buf text = BUF_INIT(200);
	int done = -1;

	buf_init(&entry->install, COMMAND_MAX);
	buf_init(&entry->run, COMMAND_MAX);
	buf_init(&entry->cwd, 4096);
	buf_init(&entry->env, ENV_MAX);
	if (read_text(name, "the name of a server", &text, e) == 0) {
		if (read_name(buf_text(&text), v, entry, e) == 0 && read_settings(v, entry, e) == 0)
			done = 0;
		else
			(void)err_wrap(e, "server %.100s", buf_text(&text));
	}
	err_sanitize(e);
	buf_release(&text);
	for (size_t i = 0; done == 0 && i + 1 < c->n; i++) {
		if (strcmp(c->entries[i].name, entry->name) == 0)
			return err_set(e, ERR_INVALID, "two servers are named %s", entry->name);
	}
	return done;
}

/* The first mistake ends the reading. */
int gateway_config_read(const char *text, size_t len, struct gateway_config *ret, struct err *e)
{
	struct json_value all, name, v;
	const char *at = NULL;

	*ret = (struct gateway_config){ 0 };
	if (len > GATEWAY_CONFIG_MAX)
		return err_set(e, ERR_LIMIT, "the configuration has more than %u bytes",
			       GATEWAY_CONFIG_MAX);
	if (json_read(text, len, DEPTH_MAX, &all, e) < 0)
		return err_wrap(e, "the configuration is no JSON");
	if (all.kind != JSON_READ_OBJECT)
		return err_set(e, ERR_INVALID, "the configuration is no object");
	ret->entries = calloc(GATEWAY_SERVERS_MAX, sizeof(*ret->entries));
	if (ret->entries == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	while (json_read_next(all, &at, &name, &v)) {
		if (ret->n == GATEWAY_SERVERS_MAX)
			return err_set(e, ERR_LIMIT, "more than %u servers", GATEWAY_SERVERS_MAX);
		if (read_entry(name, v, ret, e) < 0)
			return -1;
	}
	return 0;
}

/* Safe after a failure at any place. */
void gateway_config_release(struct gateway_config *c)
{
	for (size_t i = 0; i < c->n; i++) {
		buf_release(&c->entries[i].install);
		buf_release(&c->entries[i].run);
		buf_release(&c->entries[i].cwd);
		buf_release(&c->entries[i].env);
	}
	free(c->entries);
	*c = (struct gateway_config){ 0 };
}
