/* config.c - reads the settings from their sources. See config.h.
 *
 * The struct is filled with defaults; then file, environment and flags are read into it, each value
 * by config_value_set(), with its source in front of the error. Values that depend on other
 * settings (the directory of the Unix socket) are completed when all are known (finish()), and
 * config_check() compares them. The text of config_print() is an ordinary configuration file: with
 * it the supervisor passes the settings to cordond, which reads neither environment nor flags. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "config_table.h"
#include "config_value.h"
#include "io.h"

#define ENV_PREFIX "CORDON_"

static const char *env_get(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; env != NULL && *env != NULL; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* Relative paths are ignored, as the XDG specification says. */
static const char *env_dir(char *const *env, const char *name)
{
	const char *value = env_get(env, name);

	return value != NULL && value[0] == '/' ? value : NULL;
}

void config_starter_find(struct config_starter *ret, char *const *env)
{
	*ret = (struct config_starter){
		.root = geteuid() == 0,
		.home = env_dir(env, "HOME"),
		.runtime_dir = env_dir(env, "XDG_RUNTIME_DIR"),
		.state_home = env_dir(env, "XDG_STATE_HOME"),
		.config_home = env_dir(env, "XDG_CONFIG_HOME"),
	};
}

/* Sets a default directory, unless the path is invalid: then finish() reports the setting as
 * missing.
 */
static void default_dir(const char *name, struct config *c, const char *head, const char *tail)
{
	const struct config_setting *s = config_table_find(name, strlen(name));
	char path[2 * CONFIG_PATH_MAX];
	struct err e;

	(void)snprintf(path, sizeof(path), "%s%s", head, tail);
	IGNORED(config_value_set(s, path, c, &e), "finish() reports it");
}

static void default_dirs(struct config *c, const struct config_starter *starter)
{
	if (starter->root) {
		default_dir("state_dir", c, "/var/lib", "/cordon");
		default_dir("run_dir", c, "/run", "/cordon-server");
		return;
	}
	if (starter->state_home != NULL)
		default_dir("state_dir", c, starter->state_home, "/cordon");
	else if (starter->home != NULL)
		default_dir("state_dir", c, starter->home, "/.local/state/cordon");
	if (starter->runtime_dir != NULL)
		default_dir("run_dir", c, starter->runtime_dir, "/cordon");
	else if (c->state_dir[0] != '\0')
		default_dir("run_dir", c, c->state_dir, "/run");
}

/* All but the two directories. */
static void default_values(struct config *c)
{
	struct err e;

	memset(c, 0, sizeof(*c));
	for (size_t i = 0; i < config_table_size; i++) {
		const struct config_setting *s = &config_table[i];

		if (s->value == NULL)
			continue;
		if (config_value_set(s, s->value, c, &e) < 0)
			assert(false && "a default that is out of its own range");
	}
}

void config_defaults(struct config *ret, const struct config_starter *starter)
{
	default_values(ret);
	default_dirs(ret, starter);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void trim(char **start, char *end)
{
	while (end > *start && is_blank(end[-1]))
		end--;
	*end = '\0';
	while (is_blank(**start))
		(*start)++;
}

/* One line, without its newline: blank, a comment, or name = value and perhaps a comment. */
static int parse_line(struct config *c, char *line, bool *seen, struct err *e)
{
	const struct config_setting *s;
	char *equals, *value;

	for (char *p = line; *p != '\0'; p++)
		if (*p == '#' && (p == line || is_blank(p[-1])))
			*p = '\0';
	trim(&line, line + strlen(line));
	if (*line == '\0')
		return 0;
	equals = strchr(line, '=');
	if (equals == NULL)
		return err_set(e, ERR_INVALID, "'%.40s' is not NAME = VALUE", line);
	value = equals + 1;
	trim(&value, value + strlen(value));
	trim(&line, equals);
	s = config_table_find(line, strlen(line));
	if (s == NULL)
		return err_set(e, ERR_INVALID, "'%.40s' is not a setting", line);
	if (seen[s - config_table])
		return err_set(e, ERR_INVALID, "%s: is set twice", s->name);
	seen[s - config_table] = true;
	if (config_value_set(s, value, c, e) < 0)
		return err_wrap(e, "%s", s->name);
	return 0;
}

int config_parse(struct config *c, const char *name, const char *text, size_t len, struct err *e)
{
	bool seen[CONFIG_SETTINGS_MAX] = { false };
	char line[CONFIG_VALUE_MAX + 256];
	unsigned number = 0;

	for (size_t at = 0; at < len;) {
		const char *newline = memchr(text + at, '\n', len - at);
		size_t n = newline == NULL ? len - at : (size_t)(newline - (text + at));

		number++;
		if (n >= sizeof(line) || memchr(text + at, '\0', n) != NULL)
			return err_set(e, ERR_INVALID, "%s:%u: the line is too long or has a NUL",
				       name, number);
		memcpy(line, text + at, n);
		line[n] = '\0';
		if (parse_line(c, line, seen, e) < 0)
			return err_wrap(e, "%s:%u", name, number);
		at += n + 1;
	}
	return 0;
}

static int parse_file(struct config *c, const char *path, bool must_exist, struct err *e)
{
	OWN_MEM char *text = malloc(CONFIG_FILE_MAX);
	ssize_t n;

	if (text == NULL)
		return err_sys(e, "%s", path);
	n = io_read_file(AT_FDCWD, path, text, CONFIG_FILE_MAX, e);
	if (n < 0)
		return e->sys == ENOENT && !must_exist ? 0 : -1;
	return config_parse(c, path, text, (size_t)n, e);
}

static int parse_any_file(struct config *c, const char *path, const struct config_starter *starter,
			  char *const *env, struct err *e)
{
	char place[2 * CONFIG_PATH_MAX];

	if (path == NULL)
		path = env_get(env, ENV_PREFIX "CONFIG");
	if (path != NULL)
		return parse_file(c, path, true, e);
	if (starter->root)
		return parse_file(c, "/etc/cordon/cordon.conf", false, e);
	if (starter->config_home != NULL)
		(void)snprintf(place, sizeof(place), "%s/cordon/cordon.conf", starter->config_home);
	else if (starter->home != NULL)
		(void)snprintf(place, sizeof(place), "%s/.config/cordon/cordon.conf",
			       starter->home);
	else
		return 0;
	return parse_file(c, place, false, e);
}

/* The setting of a variable CORDON_NAME=value, or NULL. */
static const struct config_setting *env_setting(const char *variable, const char **ret_value)
{
	const char *equals = strchr(variable, '=');
	char name[48];
	size_t n;

	if (equals == NULL || strncmp(variable, ENV_PREFIX, strlen(ENV_PREFIX)) != 0)
		return NULL;
	variable += strlen(ENV_PREFIX);
	n = (size_t)(equals - variable);
	if (n >= sizeof(name))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (variable[i] >= 'a' && variable[i] <= 'z')
			return NULL;
		name[i] = (char)(variable[i] >= 'A' && variable[i] <= 'Z' ? variable[i] - 'A' + 'a'
									  : variable[i]);
	}
	*ret_value = equals + 1;
	return config_table_find(name, n);
}

static int parse_env(struct config *c, char *const *env, struct err *e)
{
	for (; env != NULL && *env != NULL; env++) {
		const char *value;
		const struct config_setting *s = env_setting(*env, &value);

		if (s != NULL && config_value_set(s, value, c, e) < 0)
			return err_wrap(e, "environment %.*s: %s", (int)strcspn(*env, "="), *env,
					s->name);
	}
	return 0;
}

static const struct config_setting *flag_setting(const char *word, const char **ret_value)
{
	size_t n;

	if (strncmp(word, "--", 2) != 0)
		return NULL;
	word += 2;
	n = strcspn(word, "=");
	*ret_value = word[n] == '=' ? word + n + 1 : NULL;
	return config_table_find_flag(word, n);
}

static bool is_yes_or_no(const char *word)
{
	return word != NULL && (strcmp(word, "yes") == 0 || strcmp(word, "no") == 0);
}

int config_flag_words(const char *word, const char *next)
{
	const char *value;
	const struct config_setting *s = flag_setting(word, &value);

	if (s == NULL)
		return 0;
	if (value != NULL)
		return 1;
	return s->kind != CONFIG_BOOL || is_yes_or_no(next) ? 2 : 1;
}

static int parse_flags(struct config *c, int argc, char *const *argv, struct err *e)
{
	for (int i = 0; i < argc; i++) {
		const char *value;
		const struct config_setting *s = flag_setting(argv[i], &value);

		if (s == NULL)
			return err_set(e, ERR_INVALID, "'%.40s' is not a setting", argv[i]);
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;

		if (value == NULL && s->kind == CONFIG_BOOL && !is_yes_or_no(next))
			value = "yes";
		else if (value == NULL && next != NULL)
			value = argv[++i];
		if (value == NULL)
			return err_set(e, ERR_INVALID, "--%s needs a value: %s", s->name,
				       s->argument);
		if (config_value_set(s, value, c, e) < 0)
			return err_wrap(e, "--%s", s->name);
	}
	return 0;
}

/* Completes values that depend on other settings, and checks all. */
static int finish(struct config *c, struct err *e)
{
	char path[sizeof(c->run_dir) + sizeof(c->unix_socket)];

	if (c->state_dir[0] == '\0' || c->run_dir[0] == '\0')
		return err_set(e, ERR_INVALID, "%s: must be set: this user has no default",
			       c->state_dir[0] == '\0' ? "state_dir" : "run_dir");
	if (c->unix_socket[0] != '\0' && c->unix_socket[0] != '/') {
		(void)snprintf(path, sizeof(path), "%s/%s", c->run_dir, c->unix_socket);
		if (strlen(path) >= sizeof(c->unix_socket))
			return err_set(e, ERR_INVALID, "unix_socket: '%.60s...' is too long", path);
		memcpy(c->unix_socket, path, strlen(path) + 1);
	}
	return config_check(c, e);
}

int config_load(struct config *ret, const char *path, int argc, char *const *argv, char *const *env,
		struct err *e)
{
	struct config_starter starter;
	struct config c;

	config_starter_find(&starter, env);
	config_defaults(&c, &starter);
	if (parse_any_file(&c, path, &starter, env, e) < 0 || parse_env(&c, env, e) < 0 ||
	    parse_flags(&c, argc, argv, e) < 0 || finish(&c, e) < 0)
		return -1;
	*ret = c;
	return 0;
}

const char *config_unknown_env(char *const *env, const char *const *known)
{
	for (; env != NULL && *env != NULL; env++) {
		const char *value;
		size_t n = strcspn(*env, "=");
		const char *const *k = known;

		if (strncmp(*env, ENV_PREFIX, strlen(ENV_PREFIX)) != 0 ||
		    strncmp(*env, ENV_PREFIX "CONFIG=", strlen(ENV_PREFIX "CONFIG=")) == 0 ||
		    env_setting(*env, &value) != NULL)
			continue;
		while (k != NULL && *k != NULL && (strlen(*k) != n || memcmp(*k, *env, n) != 0))
			k++;
		if (k == NULL || *k == NULL)
			return *env;
	}
	return NULL;
}

int config_print(const struct config *c, char *ret_text, size_t cap, struct err *e)
{
	char value[CONFIG_VALUE_MAX];
	size_t n = 0;

	for (size_t i = 0; i < config_table_size; i++) {
		config_value_format(&config_table[i], c, value, sizeof(value));
		n += (size_t)snprintf(ret_text + n, cap - n, "%s = %s\n", config_table[i].name,
				      value);
		if (n >= cap)
			return err_set(e, ERR_LIMIT, "the configuration is longer than %zu bytes",
				       cap - 1);
	}
	return (int)n;
}

int config_write(const struct config *c, int fd, struct err *e)
{
	char text[CONFIG_TEXT_MAX];
	int n = config_print(c, text, sizeof(text), e);

	return n < 0 ? -1 : io_write_all(fd, text, (size_t)n, e);
}

int config_read_fd(struct config *ret, int fd, struct err *e)
{
	OWN_MEM char *text = malloc(CONFIG_FILE_MAX);
	struct config c;
	size_t len = 0;

	if (text == NULL)
		return err_sys(e, "configuration");
	for (;;) {
		ssize_t n = pread(fd, text + len, CONFIG_FILE_MAX - len, (off_t)len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read the configuration");
		if (n == 0)
			break;
		len += (size_t)n;
		if (len == CONFIG_FILE_MAX)
			return err_set(e, ERR_LIMIT, "the configuration is larger than %d bytes",
				       CONFIG_FILE_MAX - 1);
	}
	default_values(&c);
	if (config_parse(&c, "configuration", text, len, e) < 0)
		return -1;
	if (finish(&c, e) < 0)
		return -1;
	*ret = c;
	return 0;
}
