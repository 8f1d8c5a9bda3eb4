/* config_table.h - the table of all settings. config_value.c reads and writes their values,
 * config_value.c makes help and documentation from the table. To add a setting, add a row and a
 * member of struct config, and generate doc/configuration.md again. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/config/config.h"

enum config_kind {
	CONFIG_TEXT,   /* char[]. Min 1: must not be empty. At most max bytes */
	CONFIG_PATH,   /* the same, absolute */
	CONFIG_DOMAIN, /* the same, a DNS name with or without a port */
	CONFIG_BOOL,   /* bool */
	CONFIG_CHOICE, /* unsigned: the place in choices */
	CONFIG_COUNT,  /* uint64_t */
	CONFIG_BYTES,  /* uint64_t, with K, M, G, T */
	CONFIG_TIME,   /* uint64_t, milliseconds */
	CONFIG_MILLIS, /* uint64_t, thousandths */
	CONFIG_ROOTS,  /* mount_roots */
	CONFIG_KINDS
};

struct config_setting {
	const char *name;
	const char *argument; /* name of the value in help */
	enum config_kind kind;
	size_t offset;	   /* of the field in struct config */
	const char *value; /* the default. NULL: it depends on the user that starts the server */
	uint64_t min, max;
	const char *const *choices; /* ends with NULL */
	const char *help;
	const char *group; /* heading of this and the following */
	const char *alias; /* another name, for the flag only */
	const char *shown; /* how a default that depends on something is described */
};

#define CONFIG_SETTINGS_MAX 192

/* The order is that of help and of the page. Rows of one group follow each other, and the first of
 * them names it. */
extern const struct config_setting config_table[];
extern const size_t config_table_size;

/* Find a setting by a name of n bytes. NULL: there is none. For flags, aliases are names, too, and
 * '-' is the same as '_'. */
const struct config_setting *config_table_find(const char *name, size_t n);
const struct config_setting *config_table_find_flag(const char *name, size_t n);
