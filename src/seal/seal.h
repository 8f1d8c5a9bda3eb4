/* seal.h - encrypted values: AES-256-GCM, so that what the store holds of a secret is worth nothing
 * without the operator's key, and cannot be moved to another name, tenant or version.
 *
 * A box names its key. The first key of the list seals, all of them open: rotation is a new line on
 * top, and old boxes are sealed again (seal_is_current()). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define SEAL_KEYS_MAX 16
#define SEAL_ID_MAX 33			     /* of a key, with its NUL: [a-zA-Z0-9_.-] */
#define SEAL_TEXT_MAX (SEAL_KEYS_MAX * 128U) /* of a list of keys */
#define SEAL_LINE_MAX 80		     /* of seal_make_line(), with its NUL */
#define SEAL_VALUE_MAX (1U << 20)

struct seal;

/* Reads lines "id:base64 of 32 bytes"; empty ones and those that begin with '#' do not count. At
 * least one, no id twice. The first call in a process may open files (of OpenSSL), later ones and
 * the other functions none. The caller frees it. */
int seal_read(const char *text, size_t len, struct seal **ret, struct err *e) MUST_USE;
void seal_free(struct seal *s); /* wipes the keys; safe with NULL */

/* A new key as a line, with its newline. The caller wipes it. */
void seal_make_line(const char *id, char ret[SEAL_LINE_MAX]);

/* about: what the box belongs to; not in it, but it opens with exactly that only. *ret is the
 * caller's to free. */
int seal_close(const struct seal *s, const char *about, const void *value, size_t len,
	       uint8_t **ret, size_t *ret_len, struct err *e) MUST_USE;

/* *ret is the value with a NUL behind it, which does not count: the caller's, to be given back with
 * seal_wipe(). ERR_NOT_FOUND: sealed with a key that is not here (the message names it);
 * ERR_INVALID: no box, or not of this. */
int seal_open(const struct seal *s, const char *about, const void *box, size_t box_len, char **ret,
	      size_t *ret_len, struct err *e) MUST_USE;
void seal_wipe(char *value, size_t len); /* wipes and frees; safe with NULL */

/* Is it sealed with the key that seals now? */
bool seal_is_current(const struct seal *s, const void *box, size_t box_len);
