/* config_value.h - one setting as text, and back. Pure. */
#pragma once

#include <stdio.h>

#include "lib/config/config_table.h"

/* Read a value into its field of *c, which stays as it is on failure. The message quotes the
 * value. The name is put in front by the caller. */
int config_value_set(const struct config_setting *s, const char *value, struct config *c,
		     struct err *e) MUST_USE;

/* The field as text that config_value_set() reads back exactly. cap: CONFIG_VALUE_MAX. */
#define CONFIG_VALUE_MAX (CONFIG_ROOTS_MAX * (CONFIG_PATH_MAX + 8))
void config_value_format(const struct config_setting *s, const struct config *c, char *ret_text,
			 size_t cap);

/* ---- the table of settings as documentation */

void config_doc_help(FILE *to);	    /* one line for each, as options */
void config_doc_markdown(FILE *to); /* the whole of doc/configuration.md */
