/* spec_env.h - {"NAME": "value"} of a request as "NAME=value" strings. Pure. */
#pragma once

#include "buf.h"
#include "json_members.h"

/* Appends each with its NUL; returns the count, or -1 after json_members_fail(). */
int spec_env_read(struct json_members *m, const char *name, size_t max, struct buf *to);
