/* lockfiles_fold.h - turns the lockfiles in the body of a request into pins before the body is
 * parsed. Pure, for untrusted bytes. Called by the interfaces that take a session's policy. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

#define LOCKFILES_BODY_MAX (4U << 20) /* bytes of a body that may have lockfiles */
#define LOCKFILES_REST_MAX (1U << 20) /* bytes of the body with pins, the bound of other bodies */

/* Replace lockfiles by pins. member: the member of the body with the policy, NULL: the whole body
 * is the policy. *ret is the body with pins in the place of texts, in a form that only
 * package_lockfiles.c reads. *ret may hold secrets as the body may, so lockfiles_fold_free() wipes
 * it. *ret NULL: the body has no lockfiles, or has them in another place, and is parsed unchanged.
 * Errors name the file and its line. REASON_TOO_LARGE: the text for the parser is longer than
 * LOCKFILES_REST_MAX. */
int lockfiles_fold(const char *body, size_t len, const char *member, char **ret, size_t *ret_len,
		   struct err *e) MUST_USE;
void lockfiles_fold_free(char **folded);

/* As above, in pieces of some milliseconds. body and member are borrowed until the end. NULL: out
 * of memory. */
struct lockfiles_folding;
struct lockfiles_folding *lockfiles_folding_new(const char *body, size_t len, const char *member,
						struct err *e);
/* 1: there is more. 0: done. -1: failed, as lockfiles_fold() does. */
int lockfiles_folding_step(struct lockfiles_folding *f, struct err *e) MUST_USE;
/* When it is done: the body to parse, with pins in the place of texts, or as it was. Borrowed. */
const char *lockfiles_folding_body(const struct lockfiles_folding *f, size_t *ret_len);
void lockfiles_folding_free(struct lockfiles_folding *f); /* wipes. Also NULL */
/* Does the body contain the word that lockfiles_fold() looks for? The parser reads a name written
 * with escapes. */
bool lockfiles_are_in(const char *body, size_t len);
