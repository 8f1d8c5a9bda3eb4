/* config.c - reads the settings from their sources, and compares them.
 *
 * The struct is filled with defaults. Then file, environment and flags are read into it, each value
 * by config_value_set(), with its source in front of the error. Values that depend on other
 * settings (the directory of the Unix socket) are completed when all are known (config_finish()),
 * and config_check() compares them. The text of config_print() is an ordinary configuration file:
 * with it the supervisor passes the settings to cordond, which reads neither environment nor flags.
 */
#include "lib/config/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "lib/base/addr.h"
#include "lib/base/io.h"
#include "lib/base/ip.h"
#include "lib/policy/alarm_rules.h"
#include "lib/config/config_table.h"
#include "lib/config/config_value.h"
#include "lib/mask/mask.h"

#define ENV_PREFIX "CORDON_"

/* The value, borrowed from env. NULL: the variable is not set. */
static const char *config_env_get(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; env != NULL && *env != NULL; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* Relative paths are ignored, as the XDG specification says. */
static const char *config_env_dir(char *const *env, const char *name)
{
	const char *value = config_env_get(env, name);

	return value != NULL && value[0] == '/' ? value : NULL;
}

void config_starter_find(struct config_starter *ret, char *const *env)
{
	*ret = (struct config_starter){
		.root = geteuid() == 0,
		.home = config_env_dir(env, "HOME"),
		.runtime_dir = config_env_dir(env, "XDG_RUNTIME_DIR"),
		.state_home = config_env_dir(env, "XDG_STATE_HOME"),
		.config_home = config_env_dir(env, "XDG_CONFIG_HOME"),
	};
}

/* Set a default directory, unless the path is invalid: then config_finish() reports the setting as
 * missing.
 */
static void config_default_dir(const char *name, struct config *c, const char *head,
			       const char *tail)
{
	const struct config_setting *s = config_table_find(name, strlen(name));
	char path[2 * CONFIG_PATH_MAX];
	struct err e;

	(void)snprintf(path, sizeof(path), "%s%s", head, tail);
	IGNORED(config_value_set(s, path, c, &e), "finish() reports it");
}

/* The two directories depend on who starts the server. They stay empty for a user without HOME and
 * XDG variables, and config_finish() asks for them. */
static void config_default_dirs(struct config *c, const struct config_starter *starter)
{
	if (starter->root) {
		config_default_dir("state_dir", c, "/var/lib", "/cordon");
		config_default_dir("run_dir", c, "/run", "/cordon-server");
		return;
	}
	if (starter->state_home != NULL)
		config_default_dir("state_dir", c, starter->state_home, "/cordon");
	else if (starter->home != NULL)
		config_default_dir("state_dir", c, starter->home, "/.local/state/cordon");
	if (starter->runtime_dir != NULL)
		config_default_dir("run_dir", c, starter->runtime_dir, "/cordon");
	else if (c->state_dir[0] != '\0')
		config_default_dir("run_dir", c, c->state_dir, "/run");
}

/* All but the two directories. Defaults go through the same reader as values of users. One that it
 * refuses is a fault of the table (asserted). */
static void config_default_values(struct config *c)
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
	config_default_values(ret);
	config_default_dirs(ret, starter);
}

static bool config_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The text from *start up to end, without blanks around it. Writes a NUL. */
static void config_trim(char **start, char *end)
{
	while (end > *start && config_is_blank(end[-1]))
		end--;
	*end = '\0';
	while (config_is_blank(**start))
		(*start)++;
}

/* One line, without its newline: blank, a comment, or name = value and perhaps a comment. The line
 * is cut into its parts in place. seen has one flag for each row of the table. */
static int config_parse_line(struct config *c, char *line, bool *seen, struct err *e)
{
	const struct config_setting *s;
	char *equals, *value;

	for (char *p = line; *p != '\0'; p++)
		if (*p == '#' && (p == line || config_is_blank(p[-1])))
			*p = '\0';
	config_trim(&line, line + strlen(line));
	if (*line == '\0')
		return 0;
	equals = strchr(line, '=');
	if (equals == NULL)
		return err_set(e, ERR_INVALID, "'%.40s' is not NAME = VALUE", line);
	value = equals + 1;
	config_trim(&value, value + strlen(value));
	config_trim(&line, equals);
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

/* A setting that a file names twice is refused, because the file's author would not know which one
 * counts. On failure *c keeps the values read before. */
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
		if (config_parse_line(c, line, seen, e) < 0)
			return err_wrap(e, "%s:%u", name, number);
		at += n + 1;
	}
	return 0;
}

static int config_parse_file(struct config *c, const char *path, bool must_exist, struct err *e)
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

/* A file that the user named must exist. The one at the usual place may be missing. */
static int config_parse_any_file(struct config *c, const char *path,
				 const struct config_starter *starter, char *const *env,
				 struct err *e)
{
	char place[2 * CONFIG_PATH_MAX];

	if (path == NULL)
		path = config_env_get(env, ENV_PREFIX "CONFIG");
	if (path != NULL)
		return config_parse_file(c, path, true, e);
	if (starter->root)
		return config_parse_file(c, "/etc/cordon/cordon.conf", false, e);
	if (starter->config_home != NULL)
		(void)snprintf(place, sizeof(place), "%s/cordon/cordon.conf", starter->config_home);
	else if (starter->home != NULL)
		(void)snprintf(place, sizeof(place), "%s/.config/cordon/cordon.conf",
			       starter->home);
	else
		return 0;
	return config_parse_file(c, place, false, e);
}

/* The setting of a variable CORDON_NAME=value, or NULL. Small letters are refused, so that two
 * variables cannot mean one setting. */
static const struct config_setting *config_env_setting(const char *variable, const char **ret_value)
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

/* Unknown variables are ignored here: config_unknown_env() finds them for a warning. */
static int config_parse_env(struct config *c, char *const *env, struct err *e)
{
	for (; env != NULL && *env != NULL; env++) {
		const char *value;
		const struct config_setting *s = config_env_setting(*env, &value);

		if (s != NULL && config_value_set(s, value, c, e) < 0)
			return err_wrap(e, "environment %.*s: %s", (int)strcspn(*env, "="), *env,
					s->name);
	}
	return 0;
}

/* *ret_value: behind the '='. NULL: the value is the next word, or missing. */
static const struct config_setting *config_flag_setting(const char *word, const char **ret_value)
{
	size_t n;

	if (strncmp(word, "--", 2) != 0)
		return NULL;
	word += 2;
	n = strcspn(word, "=");
	*ret_value = word[n] == '=' ? word + n + 1 : NULL;
	return config_table_find_flag(word, n);
}

static bool config_is_yes_or_no(const char *word)
{
	return word != NULL && (strcmp(word, "yes") == 0 || strcmp(word, "no") == 0);
}

/* The same rule as in config_parse_flags(): a flag of kind bool takes the next word only if it is
 * yes or no. */
int config_flag_words(const char *word, const char *next)
{
	const char *value;
	const struct config_setting *s = config_flag_setting(word, &value);

	if (s == NULL)
		return 0;
	if (value != NULL)
		return 1;
	return s->kind != CONFIG_BOOL || config_is_yes_or_no(next) ? 2 : 1;
}

/* A flag may come more than once, and the last one counts. */
static int config_parse_flags(struct config *c, int argc, char *const *argv, struct err *e)
{
	for (int i = 0; i < argc; i++) {
		const char *value;
		const struct config_setting *s = config_flag_setting(argv[i], &value);

		if (s == NULL)
			return err_set(e, ERR_INVALID, "'%.40s' is not a setting", argv[i]);
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;

		if (value == NULL && s->kind == CONFIG_BOOL && !config_is_yes_or_no(next))
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

/* Complete values that depend on other settings, and check all. */
static int config_finish(struct config *c, struct err *e)
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

/* *ret is written on success only, so a reload that fails leaves the settings in use. */
int config_load(struct config *ret, const char *path, int argc, char *const *argv, char *const *env,
		struct err *e)
{
	struct config_starter starter;
	struct config c;

	config_starter_find(&starter, env);
	config_defaults(&c, &starter);
	if (config_parse_any_file(&c, path, &starter, env, e) < 0 ||
	    config_parse_env(&c, env, e) < 0 || config_parse_flags(&c, argc, argv, e) < 0 ||
	    config_finish(&c, e) < 0)
		return -1;
	*ret = c;
	return 0;
}

/* known: other variables with this prefix that programs read. They end with NULL. */
const char *config_unknown_env(char *const *env, const char *const *known)
{
	for (; env != NULL && *env != NULL; env++) {
		const char *value;
		size_t n = strcspn(*env, "=");
		const char *const *k = known;

		if (strncmp(*env, ENV_PREFIX, strlen(ENV_PREFIX)) != 0 ||
		    strncmp(*env, ENV_PREFIX "CONFIG=", strlen(ENV_PREFIX "CONFIG=")) == 0 ||
		    config_env_setting(*env, &value) != NULL)
			continue;
		while (k != NULL && *k != NULL && (strlen(*k) != n || memcmp(*k, *env, n) != 0))
			k++;
		if (k == NULL || *k == NULL)
			return *env;
	}
	return NULL;
}

/* Return the length without the NUL. Each setting is written, also one with its default. */
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
	config_default_values(&c);
	if (config_parse(&c, "configuration", text, len, e) < 0)
		return -1;
	if (config_finish(&c, e) < 0)
		return -1;
	*ret = c;
	return 0;
}

/* ---- checks that concern more than one setting
 *
 * Each function checks one rule, and reports it with the setting to change. No order between them
 * matters, but for the message that is shown first. */

#define MEMORY_LEAST (4ULL << 20)
#define DISK_LEAST (64ULL << 10)

bool config_has_tls(const struct config *c)
{
	return c->tls_local || c->tls_cert[0] != '\0';
}

/* Plain HTTP is refused outside of loopback unless the operator allows it, because keys would be
 * sent in the open. */
static int config_check_address(const struct config *c, struct err *e)
{
	struct addr address;

	if (c->listen[0] == '\0')
		return 0;
	if (addr_parse(c->listen, &address, e) < 0 || addr_is_unix(&address))
		return err_set(e, ERR_INVALID,
			       "listen: '%.60s' is not an address such as 127.0.0.1:4983 or "
			       "[::1]:4983; a Unix socket is set by unix_socket",
			       c->listen);
	if (addr_is_loopback(&address) || config_has_tls(c) || c->allow_remote_plain)
		return 0;
	return err_set(
		e, ERR_DENIED,
		"listen: %s can be reached from other machines without TLS: set tls_cert and "
		"tls_key, or tls_local = yes, or allow_remote_plain = yes",
		c->listen);
}

static int config_check_tls(const struct config *c, struct err *e)
{
	size_t n = strcspn(c->domain, ":");

	if ((c->tls_cert[0] == '\0') != (c->tls_key[0] == '\0'))
		return err_set(e, ERR_INVALID, "%s: must be set, too, because %s is",
			       c->tls_key[0] == '\0' ? "tls_key" : "tls_cert",
			       c->tls_key[0] == '\0' ? "tls_cert" : "tls_key");
	if (c->tls_local && c->tls_cert[0] != '\0')
		return err_set(e, ERR_INVALID, "tls_local: tls_cert is set, too; use one of them");
	/* OpenSSL, curl, node and browsers accept *.a.b, but not *.a. */
	if (c->tls_local && n > 0 && memchr(c->domain, '.', n) == NULL)
		return err_set(
			e, ERR_INVALID,
			"tls_local: clients accept no certificate for *.%.*s: domain needs a "
			"dot, such as cordon.%.*s",
			(int)n, c->domain, (int)n, c->domain);
	return 0;
}

static int config_check_listeners(const struct config *c, struct err *e)
{
	struct sockaddr_un un;

	if (c->listen[0] == '\0' && c->unix_socket[0] == '\0')
		return err_set(e, ERR_INVALID, "listen: listen and unix_socket are both empty");
	if (config_check_tls(c, e) < 0)
		return -1;
	if (strlen(c->unix_socket) >= sizeof(un.sun_path))
		return err_set(e, ERR_INVALID, "unix_socket: '%.40s...' is longer than %zu bytes",
			       c->unix_socket, sizeof(un.sun_path) - 1);
	return config_check_address(c, e);
}

/* Both settings are numbers in the same unit. zero_is_none: an upper bound of 0 is no bound. */
static int config_check_order(const struct config *c, const char *lower, const char *upper,
			      bool zero_is_none, struct err *e)
{
	const struct config_setting *l = config_table_find(lower, strlen(lower));
	const struct config_setting *u = config_table_find(upper, strlen(upper));
	const uint64_t *low = (const void *)((const char *)c + l->offset);
	const uint64_t *high = (const void *)((const char *)c + u->offset);
	char low_text[CONFIG_VALUE_MAX], high_text[CONFIG_VALUE_MAX];

	if (*low <= *high || (zero_is_none && *high == 0))
		return 0;
	config_value_format(l, c, low_text, sizeof(low_text));
	config_value_format(u, c, high_text, sizeof(high_text));
	return err_set(e, ERR_INVALID, "%s: %.40s is more than %s, which is %.40s", lower, low_text,
		       upper, high_text);
}

/* Each word is a pattern. The copy is needed because strsep(3) writes into its text. */
static int config_check_patterns(const struct config *c, struct err *e)
{
	char text[sizeof(c->redact_patterns)], *rest = text, *word;

	memcpy(text, c->redact_patterns, sizeof(text));
	while ((word = strsep(&rest, " ")) != NULL)
		if (*word != '\0' && mask_pattern_check(word, e) < 0)
			return err_wrap(e, "redact_patterns");
	return 0;
}

static int config_check_alarms(const struct config *c, struct err *e)
{
	enum alarm_action actions[ALARM_KINDS];

	return alarm_rules_setting(c->alarms, actions, e);
}

static int config_check_names(const struct config *c, struct err *e)
{
	char text[sizeof(c->redact)], *rest = text, *word;
	enum mask_name name;

	memcpy(text, c->redact, sizeof(text));
	while ((word = strsep(&rest, " ")) != NULL)
		if (*word != '\0' && !mask_name_read(word, &name))
			return err_set(
				e, ERR_INVALID,
				"redact: %.40s: not one of email, phone, card, iban, ip, token",
				word);
	return 0;
}

/* Only the form is checked. */
static int config_check_aliases(const struct config *c, struct err *e)
{
	for (const char *at = c->image_alias; *at != '\0';) {
		size_t n = strcspn(at, ","), name = strcspn(at, "=,");

		if (name == 0 || name + 1 >= n)
			return err_set(e, ERR_INVALID, "image_alias: '%.*s' is not IMAGE=TEMPLATE",
				       (int)n, at);
		at += n + (at[n] == ',');
	}
	return 0;
}

/* A host of a reference has a dot or a port, or is localhost: else it would be a part of the path.
 */
static bool config_is_registry(const char *item, size_t n)
{
	if (n == 1 && item[0] == '*')
		return true;
	if (n > 2 && item[0] == '*' && item[1] == '.')
		item += 2, n -= 2;
	if (memchr(item, '/', n) != NULL || memchr(item, '*', n) != NULL)
		return false;
	return memchr(item, '.', n) != NULL || memchr(item, ':', n) != NULL ||
	       (n == 9 && strncmp(item, "localhost", n) == 0);
}

/* Does the URL have plain HTTP and a host of this machine? The host ends at its port, its path or
 * the end: a name that only begins so is another host. */
static bool config_is_loopback_http(const char *url, size_t n)
{
	static const char *const hosts[] = { "localhost", "[::1]" };
	const char *host = url + strlen("http://");
	struct ip ip;
	size_t len;

	if (n <= strlen("http://") || strncmp(url, "http://", strlen("http://")) != 0)
		return false;
	n -= strlen("http://");
	for (size_t i = 0; i < COUNT(hosts); i++) {
		len = strlen(hosts[i]);
		if (n >= len && strncmp(host, hosts[i], len) == 0 &&
		    (n == len || host[len] == ':' || host[len] == '/'))
			return true;
	}
	for (len = 0; len < n && host[len] != ':' && host[len] != '/';)
		len++;
	return strncmp(host, "127.", 4) == 0 && ip_read(host, len, &ip) == 0;
}

/* HOST=URL. Plain HTTP is good for loopback only, since the image would be open to change on its
 * way. */
static bool config_is_mirror(const char *item, size_t n)
{
	const char *eq = memchr(item, '=', n);
	size_t left = eq == NULL ? 0 : n - (size_t)(eq + 1 - item);

	if (eq == NULL || eq == item)
		return false;
	return (left > strlen("https://") &&
		strncmp(eq + 1, "https://", strlen("https://")) == 0) ||
	       config_is_loopback_http(eq + 1, left);
}

static int config_check_registries(const struct config *c, struct err *e)
{
	for (const char *at = c->registries; *(at += strspn(at, ", ")) != '\0';) {
		size_t n = strcspn(at, ", ");

		if (!config_is_registry(at, n))
			return err_set(e, ERR_INVALID,
				       "registries: '%.*s' is not *, *.DOMAIN, HOST or HOST:PORT",
				       (int)n, at);
		at += n;
	}
	for (const char *at = c->image_mirror; *(at += strspn(at, ", ")) != '\0';) {
		size_t n = strcspn(at, ", ");

		if (!config_is_mirror(at, n))
			return err_set(e, ERR_INVALID,
				       "image_mirror: '%.*s' is not HOST=https://... (http:// for "
				       "loopback only)",
				       (int)n, at);
		at += n;
	}
	return 0;
}

/* All rules that one setting alone cannot show. The first fault is reported, with its setting in
 * front. A pair is a default and its maximum, or a session's limit and that of its tenant or node.
 */
int config_check(const struct config *c, struct err *e)
{
	static const struct {
		const char *lower, *upper;
		bool zero_is_none;
	} pairs[] = {
		{ "memory_default", "memory_max", false },
		{ "cpus_default", "cpus_max", false },
		{ "pids_default", "pids_max", false },
		{ "disk_default", "disk_max", false },
		{ "storage_disk_default", "storage_disk_max", false },
		{ "persist_keep_default", "persist_keep_max", false },
		{ "inodes_default", "inodes_max", false },
		{ "nofile_default", "nofile_max", false },
		{ "session_timeout_default", "session_timeout_max", false },
		{ "exec_timeout_default", "exec_timeout_max", true },
		{ "output_limit_default", "output_limit_max", false },
		{ "pool_size", "pool_max", false },
		{ "memory_default", "node_max_memory", true },
		{ "memory_default", "tenant_max_memory", true },
		{ "disk_default", "tenant_max_storage", true },
	};

	if (c->memory_default > 0 && c->memory_default < MEMORY_LEAST)
		return err_set(e, ERR_INVALID, "memory_default: less than 4M, and not 0");
	if (c->disk_default > 0 && c->disk_default < DISK_LEAST)
		return err_set(e, ERR_INVALID, "disk_default: less than 64K, and not 0");
	for (size_t i = 0; i < COUNT(pairs); i++)
		if (config_check_order(c, pairs[i].lower, pairs[i].upper, pairs[i].zero_is_none,
				       e) < 0)
			return -1;
	if (config_check_patterns(c, e) < 0 || config_check_alarms(c, e) < 0 ||
	    config_check_names(c, e) < 0 || config_check_aliases(c, e) < 0 ||
	    config_check_registries(c, e) < 0)
		return -1;
	if (!session_id_is_node(c->node_name))
		return err_set(e, ERR_INVALID,
			       "node_name: '%s' has other characters than a-z and 0-9",
			       c->node_name);
	return config_check_listeners(c, e);
}
