/* member.h - members of the server's untrusted JSON: if one is missing or of another type, the
 * default is returned. All borrowed from the object. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/own.h"

static inline void member_drop_(json_t **j)
{
	json_decref(*j);
}

/* A reference that ends with its scope. */
#define OWN_JSON __attribute__((cleanup(member_drop_))) json_t

const char *member_text(const json_t *object, const char *name, const char *otherwise);
uint64_t member_number(const json_t *object, const char *name, uint64_t otherwise);
bool member_bool(const json_t *object, const char *name);
/* An object or array. An empty array (also an empty object) if there is none. */
const json_t *member_group(const json_t *object, const char *name);
/* Milliseconds since 1970 of a time stamp like 2026-11-15T04:51:51.123Z, or -1. */
int64_t member_time(const json_t *object, const char *name);
int64_t member_parse_time(const char *text);
