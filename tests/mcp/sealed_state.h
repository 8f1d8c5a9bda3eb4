/* sealed_state.h - answers of kind input_required, and the sealed state that the client brings back
 * with its next call. For the fixture: no tool of Cordon asks its user. Pure; encryption is the
 * caller's.
 *
 * requestState is input of an attacker: it is sealed, bound to who called (tenant and key), the
 * method, the tool and the digest of its arguments, and it expires. Any deviation is -32602. */
#pragma once

#include "lib/mcp/server/mcp_write.h"

#define MCP_STATE_MAX 4096 /* bytes of a caller's own state */

/* Encrypts or decrypts. about: authenticated, not stored. The result is malloc()ed by the callback.
 */
struct mcp_sealer {
	int (*close)(void *arg, const char *about, const void *value, size_t len, uint8_t **ret,
		     size_t *ret_len, struct err *e);
	int (*open)(void *arg, const char *about, const void *box, size_t len, uint8_t **ret,
		    size_t *ret_len, struct err *e);
	void *arg;
};

/* The text of requestState for this request and caller (of the user's choice: tenant and key id).
 * expires: seconds since the epoch. The caller frees the result; NULL on failure. */
char *mcp_state_seal(const struct mcp_sealer *s, const struct mcp_request *r, const char *who,
		     int64_t expires, const char *state, struct err *e) MUST_USE;
/* Opens r->request_state. *ret is NULL and 0 is returned if there is none. The caller frees it. */
int mcp_state_open(const struct mcp_sealer *s, const struct mcp_request *r, const char *who,
		   int64_t now, char **ret, struct mcp_fault *f) MUST_USE;

/* One question of an input_required result. params is JSON. */
struct mcp_question {
	const char *key, *method, *params;
};
/* A whole message. Questions whose kind the client has not declared must not be in it: see
 * mcp_client_has(). state may be NULL. */
void mcp_write_input_required(struct json *j, const struct mcp_server *s,
			      const struct mcp_request *r, const struct mcp_question *questions,
			      size_t n, const char *state);
/* The answer to a question, or NULL. */
const struct json_node *mcp_input(const struct mcp_request *r, const char *key);
