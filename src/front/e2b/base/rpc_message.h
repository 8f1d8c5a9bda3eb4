/* rpc_message.h - the bytes of the Connect protocol: envelopes, errors, and messages in proto3
 * JSON. Pure, fuzzed. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/json/json.h"

enum rpc_code {
	RPC_OK,
	RPC_CANCELED,
	RPC_UNKNOWN,
	RPC_INVALID_ARGUMENT,
	RPC_DEADLINE_EXCEEDED,
	RPC_NOT_FOUND,
	RPC_ALREADY_EXISTS,
	RPC_PERMISSION_DENIED,
	RPC_RESOURCE_EXHAUSTED,
	RPC_FAILED_PRECONDITION,
	RPC_ABORTED,
	RPC_UNIMPLEMENTED,
	RPC_INTERNAL,
	RPC_UNAVAILABLE,
	RPC_UNAUTHENTICATED,
	RPC_CODES
};

/* "not_found". The HTTP status of a unary call that fails with it. The code for an HTTP status. */
const char *rpc_code_name(enum rpc_code code);
int rpc_code_status(enum rpc_code code);
enum rpc_code rpc_code_of_status(int status);

/* Write {"code","message"}. Write the last frame of a stream: the same object as its member
 * "error", or nothing for RPC_OK. */
void rpc_error_write(struct json *j, const char *name, enum rpc_code code, const char *message);
void rpc_end_write(struct json *j, enum rpc_code code, const char *message);

/* ---- messages. Names are given in lowerCamelCase and found in snake_case, too. null is absent.
 * Unknown members are ignored. */

/* Parse a text as an object. An empty text is {}. ERR_INVALID. The caller gives it back with
 * json_decref(). No text in it holds a NUL. */
json_t *rpc_parse(const void *text, size_t len, struct err *e) MUST_USE;

json_t *rpc_member(const json_t *object, const char *name);
/* Each writes nothing if the member is absent. -1 (ERR_INVALID, naming it) if it is of another
 * kind. Texts are borrowed. uint32 may be a number or a decimal string. Bytes are base64 of either
 * alphabet, with padding or without, *ret is malloc'ed. */
int rpc_text(const json_t *object, const char *name, const char **ret, struct err *e) MUST_USE;
int rpc_bool(const json_t *object, const char *name, bool *ret, struct err *e) MUST_USE;
int rpc_uint32(const json_t *object, const char *name, uint32_t *ret, struct err *e) MUST_USE;
int rpc_bytes(const json_t *object, const char *name, uint8_t **ret, size_t *ret_len,
	      struct err *e) MUST_USE;
int rpc_object(const json_t *object, const char *name, json_t **ret, struct err *e) MUST_USE;

/* ---- envelopes: one byte of flags, four of length, the payload */
#define RPC_ENVELOPE_HEAD 5
#define RPC_FLAG_COMPRESSED 1U
#define RPC_FLAG_END 2U

void rpc_envelope_write(uint8_t ret[RPC_ENVELOPE_HEAD], unsigned flags, uint32_t len);
/* Return 1 and the payload, 0 if more bytes are needed, -1 if it is wrong: ERR_LIMIT above max,
 * ERR_UNSUPPORTED if it is compressed, ERR_INVALID for flags that no client sends. */
int rpc_envelope_read(const uint8_t *bytes, size_t len, size_t max, const uint8_t **ret,
		      size_t *ret_len, struct err *e) MUST_USE;

/* The value of Connect-Timeout-Ms: at most ten digits. ERR_INVALID. */
int rpc_timeout_parse(const char *text, size_t len, uint64_t *ret_ms, struct err *e) MUST_USE;
