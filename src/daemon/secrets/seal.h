/* seal.h - encrypts the values of secrets (AES-256-GCM) before they are stored, so that the
 * database is of no use without the operator's key. An encrypted value, a box, is bound to its
 * subject: it cannot be decrypted under another name, tenant or version. Called by secrets/.
 *
 * A box has the id of its key. The first key of the list encrypts, all of them decrypt. To rotate
 * keys, the operator adds a line on top. Old boxes are then encrypted again (seal_is_current()). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define SEAL_KEYS_MAX 16
#define SEAL_ID_MAX 33			     /* of a key, with its NUL: [a-zA-Z0-9_.-] */
#define SEAL_TEXT_MAX (SEAL_KEYS_MAX * 128U) /* of a list of keys */
#define SEAL_LINE_MAX 80		     /* of seal_make_line(), with its NUL */
#define SEAL_VALUE_MAX (1U << 20)

struct seal;

/* Read the key file: lines "id:base64 of 32 bytes". Empty lines and those that begin with '#' are
 * ignored. At least one key, and no id twice. The first call in a process may open files of
 * OpenSSL. Later calls and the other functions open none. The caller frees *ret. */
int seal_read(const char *text, size_t len, struct seal **ret, struct err *e) MUST_USE;
void seal_free(struct seal *s); /* wipes the keys. Safe with NULL */

/* A new key as a line, with its newline. The caller wipes it. */
void seal_make_line(const char *id, char ret[SEAL_LINE_MAX]);

/* Encrypts a value. about: the subject of the box. It is authenticated but not stored, and must be
 * the same in seal_open(). The caller frees *ret. */
int seal_close(const struct seal *s, const char *about, const void *value, size_t len,
	       uint8_t **ret, size_t *ret_len, struct err *e) MUST_USE;

/* Decrypts a box. *ret is the value, with a NUL behind it that *ret_len does not count. The caller
 * frees it with seal_wipe(). ERR_NOT_FOUND: the key of the box is not in the list (the message
 * names it). ERR_INVALID: malformed, changed, or `about` differs. */
int seal_open(const struct seal *s, const char *about, const void *box, size_t box_len, char **ret,
	      size_t *ret_len, struct err *e) MUST_USE;
void seal_wipe(char *value, size_t len); /* wipes and frees. Safe with NULL */

/* Was it encrypted with the first key of the list? */
bool seal_is_current(const struct seal *s, const void *box, size_t box_len);
