/* spec_env.h - {"NAME": "value"} of a request as "NAME=value" strings. Pure. */
#pragma once

#include "buf.h"
#include "members.h"

/* Appends each with its NUL; returns how many, -1 (as members_fail() says it). */
int spec_env_read(struct members *m, const char *name, size_t max, struct buf *to);
