/* config_value.c - one reader and one writer for each kind of setting.
 *
 * Invariant: a written value is read back as the same value. Numbers are written in the largest
 * unit that divides them. Text that a line of a file cannot hold (a '#' that would begin a comment,
 * blanks at its ends, control characters) is refused from every source. */
#include "lib/config/config_value.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/base/units.h"
#include "lib/config/config_table.h"

/* field has room for s->max bytes and a NUL: the table's rows give the size of their member. */
static int value_set_text(const struct config_setting *s, const char *value, char *field,
			  struct err *e)
{
	size_t n = strlen(value);

	if (n < s->min)
		return err_set(e, ERR_INVALID, "must not be empty");
	if (n > s->max)
		return err_set(e, ERR_INVALID, "'%.40s...' is longer than %llu bytes", value,
			       (unsigned long long)s->max);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)value[i] < ' ' || value[i] == 0x7f)
			return err_set(e, ERR_INVALID, "has a control character");
	if (n > 0 && (value[0] == ' ' || value[n - 1] == ' ' || value[0] == '#' ||
		      strstr(value, " #") != NULL))
		return err_set(e, ERR_INVALID,
			       "'%.40s' begins or ends with a blank, or has a comment", value);
	memcpy(field, value, n + 1);
	return 0;
}

/* Is it absolute, without empty, "." and ".." components? */
static bool value_is_path(const char *path, size_t n)
{
	if (n == 0 || path[0] != '/')
		return false;
	for (size_t i = 0, len; i < n; i += len) {
		const char *slash;

		i++;
		slash = memchr(path + i, '/', n - i);
		len = slash == NULL ? n - i : (size_t)(slash - (path + i));
		if (len == 0 || (len == 1 && path[i] == '.') ||
		    (len == 2 && path[i] == '.' && path[i + 1] == '.'))
			return false;
	}
	return true;
}

/* An empty path means that there is none, where the row allows it. */
static int value_set_path(const struct config_setting *s, const char *value, char *field,
			  struct err *e)
{
	if (*value != '\0' && !value_is_path(value, strlen(value)))
		return err_set(
			e, ERR_INVALID,
			"'%.80s' is not an absolute path (no '.', '..', '//' or '/' at its end)",
			value);
	return value_set_text(s, value, field, e);
}

/* Are these n bytes a DNS name, as browsers send it? A name whose last label is a number would be
 * taken for an address. */
static bool value_is_dns_name(const char *name, size_t n)
{
	size_t label = 0;
	bool number = true;

	for (size_t i = 0; i <= n; i++) {
		char c = name[i];

		if (i == n || c == '.') {
			if (label == 0 || label > 63 || name[i - 1] == '-')
				return false;
			if (i == n)
				break;
			label = 0;
			number = true;
			continue;
		}
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && !(c == '-' && label > 0))
			return false;
		number = number && c >= '0' && c <= '9';
		label++;
	}
	return !number;
}

/* The port has no leading zero and no sign: one port has one text. */
static int value_set_domain(const struct config_setting *s, const char *value, char *field,
			    struct err *e)
{
	size_t n = strcspn(value, ":");
	uint64_t port;

	if (*value != '\0' &&
	    (!value_is_dns_name(value, n) ||
	     (value[n] == ':' && (value[n + 1] < '1' || value[n + 1] > '9' ||
				  units_count(value + n + 1, 1, 65535, &port, e) < 0))))
		return err_set(e, ERR_INVALID,
			       "'%.80s' is not a DNS name in lower case, with or without :PORT",
			       value);
	return value_set_text(s, value, field, e);
}

static int value_set_bool(const char *value, bool *field, struct err *e)
{
	static const char *const yes[] = { "yes", "true", "on", "1" };
	static const char *const no[] = { "no", "false", "off", "0" };

	for (size_t i = 0; i < COUNT(yes); i++) {
		if (strcmp(value, yes[i]) == 0 || strcmp(value, no[i]) == 0) {
			*field = strcmp(value, yes[i]) == 0;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "'%.40s' is not yes or no", value);
}

/* The message lists the choices, as far as they fit. */
static int value_set_choice(const struct config_setting *s, const char *value, unsigned *field,
			    struct err *e)
{
	char all[80] = "";
	size_t n = 0;

	for (unsigned i = 0; s->choices[i] != NULL; i++) {
		if (strcmp(value, s->choices[i]) == 0) {
			*field = i;
			return 0;
		}
		if (n < sizeof(all))
			n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i == 0 ? "" : ", ",
					      s->choices[i]);
	}
	return err_set(e, ERR_INVALID, "'%.40s' is not one of %s", value, all);
}

static int value_set_root(const char *item, size_t n, struct config_root *ret, struct err *e)
{
	bool writable = n > 3 && memcmp(item + n - 3, ":rw", 3) == 0;
	size_t len = writable ? n - 3 : n;

	if (!value_is_path(item, len) || memchr(item, ':', len) != NULL)
		return err_set(e, ERR_INVALID, "'%.*s' is not an absolute PATH or PATH:rw",
			       (int)(n > 80 ? 80 : n), item);
	if (len >= sizeof(ret->path))
		return err_set(e, ERR_INVALID, "'%.40s...' is longer than %zu bytes", item,
			       sizeof(ret->path) - 1);
	memcpy(ret->path, item, len);
	ret->path[len] = '\0';
	ret->writable = writable;
	return 0;
}

/* The list is read into a copy first, so a bad item leaves *c as it was. An empty value is an empty
 * list. */
static int value_set_roots(const char *value, struct config *c, struct err *e)
{
	static const struct config_setting whole = { .max = CONFIG_VALUE_MAX - 1 };
	struct config_root roots[CONFIG_ROOTS_MAX];
	char text[CONFIG_VALUE_MAX];
	size_t n = 0;

	if (value_set_text(&whole, value, text, e) < 0)
		return -1;
	for (const char *item = value; *value != '\0';) {
		size_t len = strcspn(item, ",");

		if (n == CONFIG_ROOTS_MAX)
			return err_set(e, ERR_INVALID, "has more than %d paths", CONFIG_ROOTS_MAX);
		if (value_set_root(item, len, &roots[n], e) < 0)
			return -1;
		n++;
		if (item[len] == '\0')
			break;
		item += len + 1;
	}
	memset(c->mount_roots, 0, sizeof(c->mount_roots));
	memcpy(c->mount_roots, roots, n * sizeof(roots[0]));
	c->nmount_roots = n;
	return 0;
}

/* The kind of a row says which type its member has. */
int config_value_set(const struct config_setting *s, const char *value, struct config *c,
		     struct err *e)
{
	void *field = (char *)c + s->offset;

	switch (s->kind) {
	case CONFIG_TEXT:
		return value_set_text(s, value, field, e);
	case CONFIG_PATH:
		return value_set_path(s, value, field, e);
	case CONFIG_DOMAIN:
		return value_set_domain(s, value, field, e);
	case CONFIG_BOOL:
		return value_set_bool(value, field, e);
	case CONFIG_CHOICE:
		return value_set_choice(s, value, field, e);
	case CONFIG_COUNT:
		return units_count(value, s->min, s->max, field, e);
	case CONFIG_BYTES:
		return units_bytes(value, s->min, s->max, field, e);
	case CONFIG_TIME:
		return units_time_ms(value, s->min, s->max, field, e);
	case CONFIG_MILLIS:
		return units_millis(value, s->min, s->max, field, e);
	case CONFIG_ROOTS:
		return value_set_roots(value, c, e);
	case CONFIG_KINDS:
		break;
	}
	assert(false && "a setting of no kind");
	return -1;
}

struct unit {
	const char *name;
	uint64_t size;
};

/* Write a number in the largest unit that divides it. Units are sorted, the last has size 1. */
static void value_format_units(uint64_t value, const struct unit *units, char *ret_text, size_t cap)
{
	if (value == 0) {
		(void)snprintf(ret_text, cap, "0");
		return;
	}
	while (value % units->size != 0)
		units++;
	(void)snprintf(ret_text, cap, "%llu%s", (unsigned long long)(value / units->size),
		       units->name);
}

/* Whole numbers have no fraction, others three digits, which units_millis() reads back. */
static void value_format_millis(uint64_t value, char *ret_text, size_t cap)
{
	if (value % 1000 == 0)
		(void)snprintf(ret_text, cap, "%llu", (unsigned long long)(value / 1000));
	else
		(void)snprintf(ret_text, cap, "%llu.%03llu", (unsigned long long)(value / 1000),
			       (unsigned long long)(value % 1000));
}

static void value_format_roots(const struct config *c, char *ret_text, size_t cap)
{
	size_t n = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < c->nmount_roots && n < cap; i++)
		n += (size_t)snprintf(ret_text + n, cap - n, "%s%s%s", i == 0 ? "" : ",",
				      c->mount_roots[i].path,
				      c->mount_roots[i].writable ? ":rw" : "");
}

void config_value_format(const struct config_setting *s, const struct config *c, char *ret_text,
			 size_t cap)
{
	static const struct unit bytes[] = { { "T", 1ULL << 40 },
					     { "G", 1ULL << 30 },
					     { "M", 1ULL << 20 },
					     { "K", 1ULL << 10 },
					     { "", 1 } };
	static const struct unit times[] = {
		{ "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 }
	};
	const void *field = (const char *)c + s->offset;

	switch (s->kind) {
	case CONFIG_TEXT:
	case CONFIG_PATH:
	case CONFIG_DOMAIN:
		str_copy_to(ret_text, cap, (const char *)field);
		return;
	case CONFIG_BOOL:
		str_copy_to(ret_text, cap, *(const bool *)field ? "yes" : "no");
		return;
	case CONFIG_CHOICE:
		str_copy_to(ret_text, cap, s->choices[*(const unsigned *)field]);
		return;
	case CONFIG_COUNT:
		(void)snprintf(ret_text, cap, "%llu", (unsigned long long)*(const uint64_t *)field);
		return;
	case CONFIG_BYTES:
		value_format_units(*(const uint64_t *)field, bytes, ret_text, cap);
		return;
	case CONFIG_TIME:
		value_format_units(*(const uint64_t *)field, times, ret_text, cap);
		return;
	case CONFIG_MILLIS:
		value_format_millis(*(const uint64_t *)field, ret_text, cap);
		return;
	case CONFIG_ROOTS:
		value_format_roots(c, ret_text, cap);
		return;
	case CONFIG_KINDS:
		break;
	}
	assert(false && "a setting of no kind");
}

/* ---- the table of settings as help and as doc/configuration.md */

/* Some defaults depend on the machine or the user, and have words of their own. */
static const char *doc_default_of(const struct config_setting *s)
{
	if (s->shown != NULL)
		return s->shown;
	return *s->value == '\0' ? "none" : s->value;
}

/* A row with a heading begins a new group. Names are shown as flags, with '-'. */
void config_doc_help(FILE *to)
{
	for (size_t i = 0; i < config_table_size; i++) {
		const struct config_setting *s = &config_table[i];
		char left[64], name[48];
		size_t n = 0;

		for (; n < sizeof(name) - 1 && s->name[n] != '\0'; n++)
			name[n] = (char)(s->name[n] == '_' ? '-' : s->name[n]);
		name[n] = '\0';
		if (s->group != NULL)
			(void)fprintf(to, "\n%s:\n", s->group);
		(void)snprintf(left, sizeof(left), "--%s%s%s", name,
			       s->kind == CONFIG_BOOL ? "" : " ",
			       s->kind == CONFIG_BOOL ? "[=no]" : s->argument);
		(void)fprintf(to, "  %-38s %s (default: %s)\n", left, s->help, doc_default_of(s));
	}
}

/* Write a number as the value of this setting would be written. */
static void doc_put_number(const struct config_setting *s, uint64_t number, FILE *to)
{
	struct config c;
	char text[CONFIG_VALUE_MAX];

	memset(&c, 0, sizeof(c));
	memcpy((char *)&c + s->offset, &number, sizeof(number));
	config_value_format(s, &c, text, sizeof(text));
	(void)fprintf(to, "%s", text);
}

/* Numbers show their bounds, choices their words, other kinds the form of their argument. */
static void doc_put_range(const struct config_setting *s, FILE *to)
{
	switch (s->kind) {
	case CONFIG_COUNT:
	case CONFIG_BYTES:
	case CONFIG_TIME:
	case CONFIG_MILLIS:
		doc_put_number(s, s->min, to);
		(void)fprintf(to, " to ");
		doc_put_number(s, s->max, to);
		return;
	case CONFIG_BOOL:
		(void)fprintf(to, "yes, no");
		return;
	case CONFIG_CHOICE:
		for (size_t i = 0; s->choices[i] != NULL; i++)
			(void)fprintf(to, "%s%s", i == 0 ? "" : ", ", s->choices[i]);
		return;
	case CONFIG_TEXT:
	case CONFIG_PATH:
	case CONFIG_DOMAIN:
	case CONFIG_ROOTS:
	case CONFIG_KINDS:
		break;
	}
	(void)fprintf(to, "%s", s->argument);
}

/* A test compares the output with doc/configuration.md, so a changed row needs a new page. */
void config_doc_markdown(FILE *to)
{
	(void)fprintf(
		to,
		"# Configuration\n\n"
		"<!-- Made from src/lib/config/config_table.c: build/tests/unit/config_doc "
		"--print. A test "
		"compares the two. -->\n\n"
		"`cordon serve` reads its settings from a file, from the environment and "
		"from its command "
		"line:\n\n"
		"| where | how | |\n|---|---|---|\n"
		"| flag | `--memory-max 4G` or `--memory-max=4G` | wins over all |\n"
		"| environment | `CORDON_MEMORY_MAX=4G` | wins over the file |\n"
		"| file | `memory_max = 4G` | wins over the default |\n\n"
		"The file is the one that `--config FILE` or `$CORDON_CONFIG` names, else "
		"`/etc/cordon/cordon.conf`, for a user `~/.config/cordon/cordon.conf`, if it "
		"is there. One "
		"setting a line; `#` begins a comment at the start of a line or after a "
		"blank. An unknown "
		"name, a value out of its range and a setting that is set twice are "
		"errors that "
		"name file, line and setting. `cordon serve --check` only checks.\n\n"
		"SIGHUP (`systemctl reload cordon`) reads the file again and restarts all programs "
		"of the server. Running sessions keep their limits, templates and mounts; new "
		"sessions get the new settings.\n\n"
		"Sizes are bytes or have a unit (`64K`, `512M`, `1.5G`), powers of 1,024. "
		"Times are "
		"seconds or have a unit (`500ms`, `30s`, `5m`, `2h`, `7d`). A default is "
		"for sessions that do not "
		"set the value; a maximum is what a session may set. A default may not be larger "
		"than its "
		"maximum.\n");
	for (size_t i = 0; i < config_table_size; i++) {
		const struct config_setting *s = &config_table[i];

		if (s->group != NULL)
			(void)fprintf(to,
				      "\n## %s\n\n| setting | values | default | meaning |\n"
				      "|---|---|---|---|\n",
				      s->group);
		(void)fprintf(to, "| `%s` | ", s->name);
		doc_put_range(s, to);
		(void)fprintf(to, " | %s | %s", doc_default_of(s), s->help);
		if (s->alias != NULL)
			(void)fprintf(to, "; `--%s` for short", s->alias);
		(void)fprintf(to, " |\n");
	}
}
