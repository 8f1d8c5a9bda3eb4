/* spec_env.h - {"NAME": "value"} of a request as "NAME=value" strings. Pure. */
#pragma once

#include "buf.h"
#include "json_members.h"

/* Appends each with its NUL; returns how many, -1 (as json_members_fail() says it). */
int spec_env_read(struct json_members *m, const char *name, size_t max, struct buf *to);
