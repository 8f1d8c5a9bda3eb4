#include "front/e2b/base/rpc_message.h"

#include <assert.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/json/json_fault.h"
#include "lib/json/json_size.h"

#define NAME_MAX_BYTES 64 /* of a member name to look up, with its NUL */
#define DEPTH_MAX 64
#define VALUES_MAX 12000 /* of a message: arguments and environment of a program, about 10 ms */

/* A row for each code of Connect: its word, and the status of a unary answer. */
static const struct {
	const char *name;
	int status;
} codes[] = {
	[RPC_OK] = { "ok", 200 },
	[RPC_CANCELED] = { "canceled", 499 },
	[RPC_UNKNOWN] = { "unknown", 500 },
	[RPC_INVALID_ARGUMENT] = { "invalid_argument", 400 },
	[RPC_DEADLINE_EXCEEDED] = { "deadline_exceeded", 504 },
	[RPC_NOT_FOUND] = { "not_found", 404 },
	[RPC_ALREADY_EXISTS] = { "already_exists", 409 },
	[RPC_PERMISSION_DENIED] = { "permission_denied", 403 },
	[RPC_RESOURCE_EXHAUSTED] = { "resource_exhausted", 429 },
	[RPC_FAILED_PRECONDITION] = { "failed_precondition", 400 },
	[RPC_ABORTED] = { "aborted", 409 },
	[RPC_UNIMPLEMENTED] = { "unimplemented", 501 },
	[RPC_INTERNAL] = { "internal", 500 },
	[RPC_UNAVAILABLE] = { "unavailable", 503 },
	[RPC_UNAUTHENTICATED] = { "unauthenticated", 401 },
};
static_assert(COUNT(codes) == RPC_CODES, "a name for each code");

const char *rpc_code_name(enum rpc_code code)
{
	return code < RPC_CODES ? codes[code].name : "unknown";
}

int rpc_code_status(enum rpc_code code)
{
	return code < RPC_CODES ? codes[code].status : 500;
}

/* The core's failures have a status. This is the way back to a code, for answers in Connect's form.
 */
enum rpc_code rpc_code_of_status(int status)
{
	switch (status) {
	case 401:
		return RPC_UNAUTHENTICATED;
	case 403:
		return RPC_PERMISSION_DENIED;
	case 404:
		return RPC_NOT_FOUND;
	case 409:
		return RPC_FAILED_PRECONDITION;
	case 413:
	case 429:
	case 507:
		return RPC_RESOURCE_EXHAUSTED;
	case 422:
	case 501:
		return RPC_UNIMPLEMENTED;
	case 503:
		return RPC_UNAVAILABLE;
	case 504:
		return RPC_DEADLINE_EXCEEDED;
	default:
		return status < 500 ? RPC_INVALID_ARGUMENT : RPC_INTERNAL;
	}
}

void rpc_error_write(struct json *j, const char *name, enum rpc_code code, const char *message)
{
	json_open(j, name, '{');
	json_text(j, "code", rpc_code_name(code));
	json_text(j, "message", message);
	json_close(j, '}');
}

/* An empty object ends a stream without an error. */
void rpc_end_write(struct json *j, enum rpc_code code, const char *message)
{
	json_open(j, NULL, '{');
	if (code != RPC_OK)
		rpc_error_write(j, "error", code, message);
	json_close(j, '}');
}

/* ---- messages
 *
 * Readers take members one by one. An absent member leaves *ret as the caller set it. */

/* The size is checked before jansson allocates anything for the values. */
json_t *rpc_parse(const void *text, size_t len, struct err *e)
{
	json_error_t why;
	json_t *root;

	if (!json_size_fits(text, len, DEPTH_MAX, VALUES_MAX)) {
		IGNORED(err_set(e, ERR_INVALID,
				"unmarshal message: more than %d values, or deeper than %d",
				VALUES_MAX, DEPTH_MAX),
			"reported by NULL");
		return NULL;
	}
	root = len == 0 ? json_object() : json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (root == NULL && len == 0)
		IGNORED(err_set(e, ERR_SYSTEM, "out of memory"), "reported by NULL");
	else if (root == NULL) {
		IGNORED(err_set(e, ERR_INVALID, "unmarshal message: line %d, column %d: %s",
				why.line, why.column, json_fault(why.text)),
			"reported by NULL");
		err_sanitize(e);
	}
	if (root == NULL || json_is_object(root))
		return root;
	json_decref(root);
	IGNORED(err_set(e, ERR_INVALID, "unmarshal message: not a JSON object"),
		"reported by NULL");
	return NULL;
}

/* "exitCode" as "exit_code". name is a constant of this program, so its length is asserted only. */
static void to_snake(const char *name, char ret[2 * NAME_MAX_BYTES])
{
	assert(strlen(name) < NAME_MAX_BYTES);
	for (; *name != '\0'; name++) {
		bool upper = *name >= 'A' && *name <= 'Z';

		if (upper)
			*ret++ = '_';
		*ret++ = (char)(upper ? *name - 'A' + 'a' : *name);
	}
	*ret = '\0';
}

/* proto3 JSON allows both spellings, and null for an absent member. */
json_t *rpc_member(const json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);
	char other[2 * NAME_MAX_BYTES];

	if (value == NULL) {
		to_snake(name, other);
		value = json_object_get(object, other);
	}
	return json_is_null(value) ? NULL : value;
}

int rpc_text(const json_t *object, const char *name, const char **ret, struct err *e)
{
	const json_t *value = rpc_member(object, name);

	if (value == NULL)
		return 0;
	if (!json_is_string(value))
		return err_set(e, ERR_INVALID, "%s: must be a string", name);
	*ret = json_string_value(value);
	return 0;
}

int rpc_bool(const json_t *object, const char *name, bool *ret, struct err *e)
{
	const json_t *value = rpc_member(object, name);

	if (value == NULL)
		return 0;
	if (!json_is_boolean(value))
		return err_set(e, ERR_INVALID, "%s: must be true or false", name);
	*ret = json_is_true(value);
	return 0;
}

/* Read a whole number in the forms of proto3 JSON: 12, 12.0, "12". */
static bool rpc_message_whole(const json_t *value, uint32_t *ret)
{
	if (json_is_integer(value)) {
		json_int_t n = json_integer_value(value);

		*ret = (uint32_t)n;
		return n >= 0 && n <= UINT32_MAX;
	}
	if (json_is_real(value)) {
		double d = json_real_value(value);

		if (!(d >= 0 && d <= (double)UINT32_MAX))
			return false;
		*ret = (uint32_t)d;
		return (double)*ret >= d && (double)*ret <= d;
	}
	if (json_is_string(value) && json_string_length(value) <= 10 &&
	    json_string_length(value) > 0) {
		uint64_t n = 0;

		for (const char *p = json_string_value(value); *p != '\0'; p++) {
			if (*p < '0' || *p > '9')
				return false;
			n = n * 10 + (uint64_t)(*p - '0');
		}
		*ret = (uint32_t)n;
		return n <= UINT32_MAX;
	}
	return false;
}

int rpc_uint32(const json_t *object, const char *name, uint32_t *ret, struct err *e)
{
	const json_t *value = rpc_member(object, name);
	uint32_t n = 0;

	if (value == NULL)
		return 0;
	if (!rpc_message_whole(value, &n))
		return err_set(e, ERR_INVALID, "%s: must be a whole number of 32 bits", name);
	*ret = n;
	return 0;
}

/* *ret is written only on success. */
int rpc_bytes(const json_t *object, const char *name, uint8_t **ret, size_t *ret_len, struct err *e)
{
	const json_t *value = rpc_member(object, name);
	size_t n = json_string_length(value);
	uint8_t *bytes;
	ssize_t got;

	if (value == NULL)
		return 0;
	if (!json_is_string(value))
		return err_set(e, ERR_INVALID, "%s: must be base64", name);
	bytes = malloc(BASE64_BYTES(n + 4));
	if (bytes == NULL)
		return err_sys(e, "%s: allocate", name);
	got = base64_decode_any(json_string_value(value), n, bytes);
	if (got < 0) {
		free(bytes);
		return err_set(e, ERR_INVALID, "%s: must be base64", name);
	}
	*ret = bytes;
	*ret_len = (size_t)got;
	return 0;
}

int rpc_object(const json_t *object, const char *name, json_t **ret, struct err *e)
{
	json_t *value = rpc_member(object, name);

	if (value == NULL)
		return 0;
	if (!json_is_object(value))
		return err_set(e, ERR_INVALID, "%s: must be an object", name);
	*ret = value;
	return 0;
}

/* ---- envelopes
 *
 * A client's stream is a row of envelopes, each with one message. */

void rpc_envelope_write(uint8_t ret[RPC_ENVELOPE_HEAD], unsigned flags, uint32_t len)
{
	ret[0] = (uint8_t)flags;
	ret[1] = (uint8_t)(len >> 24);
	ret[2] = (uint8_t)(len >> 16);
	ret[3] = (uint8_t)(len >> 8);
	ret[4] = (uint8_t)len;
}

/* The flags are looked at with the first byte, so a wrong stream is refused before its message has
 * come. */
int rpc_envelope_read(const uint8_t *bytes, size_t len, size_t max, const uint8_t **ret,
		      size_t *ret_len, struct err *e)
{
	uint32_t n;

	if (len == 0)
		return 0;
	if ((bytes[0] & RPC_FLAG_COMPRESSED) != 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "protocol error: sent compressed message without compression "
			       "support");
	if (bytes[0] != 0) /* a client's stream ends with its body */
		return err_set(e, ERR_INVALID, "protocol error: invalid envelope flags %u",
			       bytes[0]);
	if (len < RPC_ENVELOPE_HEAD)
		return 0;
	n = (uint32_t)bytes[1] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 8 |
	    bytes[4];
	if (n > max)
		return err_set(e, ERR_LIMIT, "message size %u is larger than configured max %zu", n,
			       max);
	if (len - RPC_ENVELOPE_HEAD < n)
		return 0;
	*ret = bytes + RPC_ENVELOPE_HEAD;
	*ret_len = n;
	return 1;
}

int rpc_timeout_parse(const char *text, size_t len, uint64_t *ret_ms, struct err *e)
{
	uint64_t n = 0;

	if (len == 0 || len > 10)
		return err_set(e, ERR_INVALID, "protocol error: invalid Connect-Timeout-Ms");
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return err_set(e, ERR_INVALID,
				       "protocol error: invalid Connect-Timeout-Ms");
		n = n * 10 + (uint64_t)(text[i] - '0');
	}
	*ret_ms = n;
	return 0;
}
