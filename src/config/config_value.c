/* config_value.c - one reader and one writer for each kind of setting.
 *
 * What must not change: a value that is written is read back as the same value. Numbers are written
 * in the largest unit that divides them. Text that a line of a file cannot hold (a '#' that would
 * begin a comment, blanks at its ends, control characters) is refused from every source. */
#include "config_value.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "units.h"

static int set_text(const struct config_setting *s, const char *value, char *field, struct err *e)
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
static bool is_path(const char *path, size_t n)
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

static int set_path(const struct config_setting *s, const char *value, char *field, struct err *e)
{
	if (*value != '\0' && !is_path(value, strlen(value)))
		return err_set(
			e, ERR_INVALID,
			"'%.80s' is not an absolute path (no '.', '..', '//' or '/' at its end)",
			value);
	return set_text(s, value, field, e);
}

/* Are these n bytes a DNS name, as browsers send it? A name whose last label is a number would be
 * taken for an address. */
static bool is_dns_name(const char *name, size_t n)
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

static int set_domain(const struct config_setting *s, const char *value, char *field, struct err *e)
{
	size_t n = strcspn(value, ":");
	uint64_t port;

	if (*value != '\0' &&
	    (!is_dns_name(value, n) ||
	     (value[n] == ':' && (value[n + 1] < '1' || value[n + 1] > '9' ||
				  units_count(value + n + 1, 1, 65535, &port, e) < 0))))
		return err_set(e, ERR_INVALID,
			       "'%.80s' is not a DNS name in lower case, with or without :PORT",
			       value);
	return set_text(s, value, field, e);
}

static int set_bool(const char *value, bool *field, struct err *e)
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

static int set_choice(const struct config_setting *s, const char *value, unsigned *field,
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

static int set_root(const char *item, size_t n, struct config_root *ret, struct err *e)
{
	bool writable = n > 3 && memcmp(item + n - 3, ":rw", 3) == 0;
	size_t len = writable ? n - 3 : n;

	if (!is_path(item, len) || memchr(item, ':', len) != NULL)
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

static int set_roots(const char *value, struct config *c, struct err *e)
{
	static const struct config_setting whole = { .max = CONFIG_VALUE_MAX - 1 };
	struct config_root roots[CONFIG_ROOTS_MAX];
	char text[CONFIG_VALUE_MAX];
	size_t n = 0;

	if (set_text(&whole, value, text, e) < 0)
		return -1;
	for (const char *item = value; *value != '\0';) {
		size_t len = strcspn(item, ",");

		if (n == CONFIG_ROOTS_MAX)
			return err_set(e, ERR_INVALID, "has more than %d paths", CONFIG_ROOTS_MAX);
		if (set_root(item, len, &roots[n], e) < 0)
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

int config_value_set(const struct config_setting *s, const char *value, struct config *c,
		     struct err *e)
{
	void *field = (char *)c + s->offset;

	switch (s->kind) {
	case CONFIG_TEXT:
		return set_text(s, value, field, e);
	case CONFIG_PATH:
		return set_path(s, value, field, e);
	case CONFIG_DOMAIN:
		return set_domain(s, value, field, e);
	case CONFIG_BOOL:
		return set_bool(value, field, e);
	case CONFIG_CHOICE:
		return set_choice(s, value, field, e);
	case CONFIG_COUNT:
		return units_count(value, s->min, s->max, field, e);
	case CONFIG_BYTES:
		return units_bytes(value, s->min, s->max, field, e);
	case CONFIG_TIME:
		return units_time_ms(value, s->min, s->max, field, e);
	case CONFIG_MILLIS:
		return units_millis(value, s->min, s->max, field, e);
	case CONFIG_ROOTS:
		return set_roots(value, c, e);
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

/* Writes a number in the largest unit that divides it; units are sorted, the last has size 1. */
static void format_units(uint64_t value, const struct unit *units, char *ret_text, size_t cap)
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

static void format_millis(uint64_t value, char *ret_text, size_t cap)
{
	if (value % 1000 == 0)
		(void)snprintf(ret_text, cap, "%llu", (unsigned long long)(value / 1000));
	else
		(void)snprintf(ret_text, cap, "%llu.%03llu", (unsigned long long)(value / 1000),
			       (unsigned long long)(value % 1000));
}

static void format_roots(const struct config *c, char *ret_text, size_t cap)
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
		(void)snprintf(ret_text, cap, "%s", (const char *)field);
		return;
	case CONFIG_BOOL:
		(void)snprintf(ret_text, cap, "%s", *(const bool *)field ? "yes" : "no");
		return;
	case CONFIG_CHOICE:
		(void)snprintf(ret_text, cap, "%s", s->choices[*(const unsigned *)field]);
		return;
	case CONFIG_COUNT:
		(void)snprintf(ret_text, cap, "%llu", (unsigned long long)*(const uint64_t *)field);
		return;
	case CONFIG_BYTES:
		format_units(*(const uint64_t *)field, bytes, ret_text, cap);
		return;
	case CONFIG_TIME:
		format_units(*(const uint64_t *)field, times, ret_text, cap);
		return;
	case CONFIG_MILLIS:
		format_millis(*(const uint64_t *)field, ret_text, cap);
		return;
	case CONFIG_ROOTS:
		format_roots(c, ret_text, cap);
		return;
	case CONFIG_KINDS:
		break;
	}
	assert(false && "a setting of no kind");
}
