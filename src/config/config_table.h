/* config_table.h - the one list of settings. Values are read and written by config_value.c, help
 * and documentation come from config_doc.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config.h"

enum config_kind {
	CONFIG_TEXT,   /* char[]; min 1: must not be empty; at most max bytes */
	CONFIG_PATH,   /* the same, absolute */
	CONFIG_DOMAIN, /* the same, a DNS name with or without a port */
	CONFIG_BOOL,   /* bool */
	CONFIG_CHOICE, /* unsigned: the place in choices */
	CONFIG_COUNT,  /* uint64_t */
	CONFIG_BYTES,  /* uint64_t, in people's units */
	CONFIG_TIME,   /* uint64_t, milliseconds */
	CONFIG_MILLIS, /* uint64_t, thousandths */
	CONFIG_ROOTS,  /* mount_roots */
	CONFIG_KINDS
};

struct config_setting {
	const char *name;
	const char *argument; /* how help calls the value */
	enum config_kind kind;
	size_t offset;	   /* of the field in struct config */
	const char *value; /* the default; NULL: it depends on who starts the server */
	uint64_t min, max;
	const char *const *choices; /* ends with NULL */
	const char *help;
	const char *group; /* heading of this and the following */
	const char *alias; /* another name, for the flag only */
	const char *shown; /* how a default that depends on something is described */
};

#define CONFIG_SETTINGS_MAX 128

extern const struct config_setting config_table[];
extern const size_t config_table_size;

/* By name, of n bytes. NULL: none. Flags also know aliases and take '-' for '_'. */
const struct config_setting *config_table_find(const char *name, size_t n);
const struct config_setting *config_table_find_flag(const char *name, size_t n);
