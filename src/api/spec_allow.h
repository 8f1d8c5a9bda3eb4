/* spec_allow.h - reads and shows the member "allow" of tenants and keys: which sessions they may
 * create (store_allow.h). */
#pragma once

#include "json.h"
#include "json_members.h"
#include "store_allow.h"

/* Changes *ret: an object replaces all of it, {} allows everything again; absent or null
 * leaves it unchanged. of_key: with the limits that only keys have. A mistake makes
 * json_members_end() of outer fail. */
void spec_allow_read(struct json_members *outer, const char *name, bool of_key,
		     struct store_allow *ret);
/* A member that is not shown sets no limit. */
void spec_allow_show(struct json *j, const char *name, const struct store_allow *a);
