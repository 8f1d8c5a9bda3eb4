/* lockfiles_fold.h - lockfiles in the body of a request become pins before the body is parsed.
 * Pure; for untrusted bytes. Called by the interfaces that take a session's policy. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

#define LOCKFILES_BODY_MAX (4U << 20) /* bytes of a body that may have lockfiles */
#define LOCKFILES_REST_MAX (1U << 20) /* with pins in their place: as of other bodies */

/* member: which one of the body is the policy; NULL: all of it. *ret is the body with pins in the
 * place of the texts, for which package_lockfiles.c has a form of its own; it may hold secrets as
 * the body may, so lockfiles_fold_free() wipes it. NULL: there are no lockfiles, or they are not
 * where they belong, and the body is parsed as it is. Errors name the file and its line;
 * REASON_TOO_LARGE: what would be parsed is longer than LOCKFILES_REST_MAX. */
int lockfiles_fold(const char *body, size_t len, const char *member, char **ret, size_t *ret_len,
		   struct err *e) MUST_USE;
void lockfiles_fold_free(char **folded);
/* Is the word there that lockfiles_fold() looks for? A name with escapes is read by the parser. */
bool lockfiles_are_in(const char *body, size_t len);
