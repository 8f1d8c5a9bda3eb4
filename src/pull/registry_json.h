/* registry_json.h - reads the JSON texts of registries that cordon-pull needs itself: the answer of
 * a token server, and the code of an error. Pure, fuzzed. */
#pragma once

#include <stddef.h>

#include "lib/base/own.h"

#define REGISTRY_JSON_MAX ((size_t)64 << 10)
#define REGISTRY_TOKEN_MAX ((size_t)32 << 10) /* with its NUL */

/* The token of {"token"} or {"access_token"}, malloc'ed. The caller wipes and frees it. NULL: there
 * is none that can be sent in a header. */
char *registry_json_token(const char *text, size_t len) MUST_USE;

/* As above, from {"authorizationData":[{"authorizationToken"}]}, the answer of AWS. */
char *registry_json_ecr(const char *text, size_t len) MUST_USE;

#define REGISTRY_ERROR_MAX 64
/* The code of {"errors":[{"code"}]}, or of AWS's {"__type"}: letters, digits and '_' only. "" if
 * there is none. */
void registry_json_error(const char *text, size_t len, char ret[REGISTRY_ERROR_MAX]);
