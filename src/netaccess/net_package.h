/* net_package.h - packages of sessions: records of kind "package" become one row for each name and
 * version (store_package.h), and are counted. Called by net_log.c, inside its transaction. */
#pragma once

#include "core.h"

struct access_record_text;

/* execution: the one the record came from, or "". Errors: of the store, which has rolled the
 * transaction back. */
int net_package_take(struct session *s, const struct access_record_text *r, const char *execution,
		     struct err *e) MUST_USE;
