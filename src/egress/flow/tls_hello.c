/* tls_hello.c - theory of operation
 *
 * The bytes of the handshake are first taken out of their records, into one piece. Then the message
 * is read. Anything that two readers could understand differently is refused: a second name, an
 * empty record, a message that ends inside a record, a repeated extension. Otherwise the server
 * could see another name than the judged one. */
#include "egress/flow/tls_hello.h"

#include <string.h>

#define RECORD_HEAD 5
#define RECORD_MAX (1U << 14) /* bytes of plain text, RFC 8446 5.1 */
#define RECORD_HANDSHAKE 22
#define MESSAGE_HEAD 4
#define CLIENT_HELLO 1

enum {
	EXT_SERVER_NAME = 0,
	EXT_ALPN = 16,
	EXT_ECH = 0xfe0d,
	EXT_ECH_OLD = 0xfe08,
	EXT_ESNI = 0xffce
};

/* The bytes left to read. */
struct rest {
	const uint8_t *p;
	size_t n;
};

static bool tls_hello_take(struct rest *r, size_t n, struct rest *ret)
{
	if (r->n < n)
		return false;
	*ret = (struct rest){ r->p, n };
	r->p += n;
	r->n -= n;
	return true;
}

static bool take_number(struct rest *r, size_t bytes, size_t *ret)
{
	struct rest number;

	if (!tls_hello_take(r, bytes, &number))
		return false;
	*ret = 0;
	for (size_t i = 0; i < bytes; i++)
		*ret = *ret << 8 | number.p[i];
	return true;
}

/* A vector, with its length before it in `bytes` bytes. */
static bool take_vector(struct rest *r, size_t bytes, struct rest *ret)
{
	size_t n;

	return take_number(r, bytes, &n) && tls_hello_take(r, n, ret);
}

/* ---- extensions */

/* Exactly one name, of the only type there is. */
static bool read_names(struct rest r, struct tls_hello *ret)
{
	struct rest list, name;
	size_t type;

	if (!take_vector(&r, 2, &list) || r.n > 0)
		return false;
	if (!take_number(&list, 1, &type) || type != 0 || !take_vector(&list, 2, &name) ||
	    list.n > 0)
		return false;
	return host_normal((const char *)name.p, name.n, ret->sni) == 0;
}

static bool tls_hello_is(struct rest name, const char *text)
{
	return name.n == strlen(text) && memcmp(name.p, text, name.n) == 0;
}

static bool read_protocols(struct rest r, struct tls_hello *ret)
{
	struct rest list, name;

	if (!take_vector(&r, 2, &list) || r.n > 0 || list.n == 0)
		return false;
	ret->alpn = true;
	while (list.n > 0) {
		if (!take_vector(&list, 1, &name) || name.n == 0)
			return false;
		ret->h2 = ret->h2 || tls_hello_is(name, "h2");
		ret->http1 = ret->http1 || tls_hello_is(name, "http/1.1");
	}
	return true;
}

static bool read_extensions(struct rest list, struct tls_hello *ret)
{
	bool named = false;

	while (list.n > 0) {
		struct rest body;
		size_t type;

		if (!take_number(&list, 2, &type) || !take_vector(&list, 2, &body))
			return false;
		if (type == EXT_SERVER_NAME) {
			if (named || !read_names(body, ret))
				return false;
			named = true;
		} else if (type == EXT_ALPN) {
			if (ret->alpn || !read_protocols(body, ret))
				return false;
		} else if ((type >= EXT_ECH_OLD && type <= EXT_ECH) || type == EXT_ESNI) {
			ret->ech = true;
		}
	}
	return true;
}

/* ---- the message */

static bool read_message(struct rest r, struct tls_hello *ret)
{
	struct rest skipped, session, suites, compression, extensions;

	if (!tls_hello_take(&r, 2 + 32, &skipped) || skipped.p[0] != 3) /* version, random */
		return false;
	if (!take_vector(&r, 1, &session) || session.n > 32)
		return false;
	if (!take_vector(&r, 2, &suites) || suites.n == 0 || suites.n % 2 != 0)
		return false;
	if (!take_vector(&r, 1, &compression) || compression.n == 0)
		return false;
	if (r.n == 0)
		return true; /* an old client, without extensions */
	return take_vector(&r, 2, &extensions) && r.n == 0 && read_extensions(extensions, ret);
}

/* ---- records */

/* Take the message out of its records. Return as tls_hello_read(). */
static int tls_hello_gather(struct rest in, uint8_t ret[TLS_HELLO_MAX], size_t *ret_len)
{
	size_t have = 0, want = MESSAGE_HEAD;

	while (have < want) {
		struct rest head, part;
		size_t n;

		if (in.n > 0 && in.p[0] != RECORD_HANDSHAKE)
			return -1;
		if (in.n > 1 && in.p[1] != 3)
			return -1;
		if (!tls_hello_take(&in, RECORD_HEAD, &head))
			return 0;
		n = (size_t)head.p[3] << 8 | head.p[4];
		if (n == 0 || n > RECORD_MAX)
			return -1;
		if (!tls_hello_take(&in, n < in.n ? n : in.n, &part) ||
		    have + part.n > TLS_HELLO_MAX)
			return -1;
		memcpy(ret + have, part.p, part.n);
		have += part.n;
		if (have > 0 && ret[0] != CLIENT_HELLO)
			return -1;
		if (have >= MESSAGE_HEAD && want == MESSAGE_HEAD) {
			want += (size_t)ret[1] << 16 | (size_t)ret[2] << 8 | ret[3];
			if (want > TLS_HELLO_MAX - RECORD_HEAD)
				return -1;
		}
		if (have > want)
			return -1;
		if (part.n < n)
			return have + (n - part.n) > want && want > MESSAGE_HEAD ? -1 : 0;
	}
	*ret_len = have;
	return 1;
}

bool tls_hello_is_tls(const uint8_t *bytes, size_t len)
{
	return len > 0 && bytes[0] == RECORD_HANDSHAKE && (len < 2 || bytes[1] == 3);
}

int tls_hello_read(const uint8_t *bytes, size_t len, struct tls_hello *ret)
{
	uint8_t message[TLS_HELLO_MAX];
	size_t n = 0;
	int got;

	*ret = (struct tls_hello){ 0 };
	if (len > TLS_HELLO_MAX)
		len = TLS_HELLO_MAX;
	got = tls_hello_gather((struct rest){ bytes, len }, message, &n);
	if (got == 0 && len == TLS_HELLO_MAX)
		return -1;
	if (got <= 0)
		return got;
	if (!read_message((struct rest){ message + MESSAGE_HEAD, n - MESSAGE_HEAD }, ret)) {
		*ret = (struct tls_hello){ 0 };
		return -1;
	}
	return 1;
}

void tls_hello_alert(uint8_t ret[TLS_HELLO_ALERT_LEN], int description)
{
	const uint8_t alert[TLS_HELLO_ALERT_LEN] = { 21, 3, 3, 0, 2, 2, (uint8_t)description };

	memcpy(ret, alert, sizeof(alert));
}
