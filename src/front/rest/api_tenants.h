/* api_tenants.h - reads and shows the member "allow" of tenants and keys: which sessions they may
 * create (store_allow.h). */
#pragma once

#include "daemon/store/store_allow.h"
#include "front/web/json_members.h"
#include "lib/json/json.h"

/* Change *ret: an object replaces all of it, {} allows everything again. Absent or null leaves it
 * unchanged. of_key: with the limits of keys only. A mistake makes json_members_end() of outer
 * fail. */
void spec_allow_read(struct json_members *outer, const char *name, bool of_key,
		     struct store_allow *ret);
/* A hidden member sets no limit. */
void spec_allow_show(struct json *j, const char *name, const struct store_allow *a);
