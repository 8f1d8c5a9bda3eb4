/* template_name.h - how requests name a template: [NAMESPACE/]NAME[:TAG], or an id in place of the
 * name. Pure, for untrusted text. */
#pragma once

#include <stdbool.h>

#include "daemon/store/store_template.h"
#include "lib/base/err.h"

#define TEMPLATE_NAME_TEXT (2 * STORE_NAME_MAX + STORE_TAG_MAX)

struct template_name {
	char space[STORE_NAME_MAX]; /* name or id of the owner. "": not given */
	char name[STORE_NAME_MAX];
	char tag[STORE_TAG_MAX]; /* "": not given */
};

/* Upper case becomes lower case, blanks around each part are left out, and the tag "default" counts
 * as none. ERR_INVALID: "Invalid name: ..." or "Invalid tag: ...". */
int template_name_read(const char *text, struct template_name *ret, struct err *e) MUST_USE;

/* A tag: a-z, 0-9, '-', '_', '.', but not a UUID. */
bool template_name_is_tag(const char *tag);
