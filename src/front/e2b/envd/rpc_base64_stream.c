#include "front/e2b/envd/rpc_base64_stream.h"

#include <string.h>

#include "lib/base/base64.h"

void rpc_base64_stream_init(struct rpc_base64_stream *l, size_t max_text, size_t max_bytes)
{
	memset(l, 0, sizeof(*l));
	buf_init(&l->text, max_text);
	buf_init(&l->bytes, max_bytes);
}

void rpc_base64_stream_release(struct rpc_base64_stream *l)
{
	buf_release(&l->text);
	buf_release(&l->bytes);
}

static int base64_stream_refuse(struct err *e)
{
	return err_set(e, ERR_INVALID, "a text of more than %d characters is not base64",
		       RPC_BASE64_STREAM_FROM);
}

/* Whole groups. Padding is only at the very end. */
static int base64_stream_decode(struct rpc_base64_stream *l, const char *text, size_t n, bool last,
				struct err *e)
{
	uint8_t *to;
	ssize_t got;

	if (n == 0)
		return 0;
	to = buf_reserve(&l->bytes, BASE64_BYTES(n), e);
	if (to == NULL)
		return -1;
	got = base64_decode_any(text, n, to);
	if (got < 0 || (!last && (size_t)got != BASE64_BYTES(n)))
		return base64_stream_refuse(e);
	buf_commit(&l->bytes, (size_t)got);
	return 0;
}

/* Groups of four characters that came in two pieces are joined in l->group. */
static int add_long(struct rpc_base64_stream *l, const char *text, size_t n, struct err *e)
{
	if (l->ngroup == sizeof(l->group)) /* the end of the message's text */
		return n > 0 ? base64_stream_refuse(e) : 0;
	while (n > 0 && l->ngroup > 0) {
		l->group[l->ngroup++] = *text++;
		n--;
		if (l->ngroup < sizeof(l->group))
			continue;
		/* Padding makes it the last one, and then this group stays to be the rest. */
		if (l->group[3] == '=')
			return n > 0 ? base64_stream_refuse(e) : 0;
		if (base64_stream_decode(l, l->group, sizeof(l->group), false, e) < 0)
			return -1;
		l->ngroup = 0;
	}
	if (n >= 4 && text[n - 1] == '=' && n % 4 == 0) { /* see above */
		memcpy(l->group, text + n - 4, 4);
		l->ngroup = 4;
		return base64_stream_decode(l, text, n - 4, false, e);
	}
	if (n == 0)
		return 0;
	memcpy(l->group, text + n - n % 4, n % 4);
	l->ngroup = n % 4;
	return base64_stream_decode(l, text, n - n % 4, false, e);
}

/* Missing padding is added: clients may leave it out. */
static int end_long(struct rpc_base64_stream *l, struct err *e)
{
	while (l->ngroup > 0 && l->ngroup < 4)
		l->group[l->ngroup++] = '=';
	l->where = RPC_LIFT_TEXT; /* its closing quote belongs to the message again */
	return base64_stream_decode(l, l->group, l->ngroup, true, e);
}

/* Decode the part kept before the text turned out to be long, too. */
static int base64_stream_lift(struct rpc_base64_stream *l, struct err *e)
{
	l->where = RPC_LIFT_LONG;
	l->lifted = true;
	if (base64_stream_decode(l, (const char *)l->text.data + l->begin, RPC_BASE64_STREAM_FROM,
				 false, e) < 0)
		return -1;
	l->text.len = l->begin;
	return buf_add(&l->text, RPC_BASE64_STREAM_MARK, sizeof(RPC_BASE64_STREAM_MARK) - 1, e);
}

/* Take some of it. Return how much. */
static int add_some(struct rpc_base64_stream *l, const uint8_t *data, size_t len, size_t *ret,
		    struct err *e)
{
	const uint8_t *quote;

	if (l->where == RPC_LIFT_LONG) {
		quote = memchr(data, '"', len);
		*ret = quote == NULL ? len : (size_t)(quote - data);
		if (add_long(l, (const char *)data, *ret, e) < 0)
			return -1;
		return quote == NULL ? 0 : end_long(l, e);
	}
	for (size_t i = 0; i < len; i++) {
		char c = (char)data[i];

		if (l->where == RPC_LIFT_ESCAPE)
			l->where = RPC_LIFT_TEXT;
		else if (l->where == RPC_LIFT_TEXT && c == '\\')
			l->where = RPC_LIFT_ESCAPE;
		else if (c == '"') {
			l->where = l->where == RPC_LIFT_TEXT ? RPC_LIFT_OUTSIDE : RPC_LIFT_TEXT;
			l->begin = l->text.len + i + 1;
		} else if (l->where == RPC_LIFT_TEXT && !l->lifted &&
			   l->text.len + i - l->begin == RPC_BASE64_STREAM_FROM) {
			*ret = i;
			return buf_add(&l->text, data, i, e) < 0 ? -1 : base64_stream_lift(l, e);
		}
	}
	*ret = len;
	return buf_add(&l->text, data, len, e);
}

/* Each step takes a part in one state. */
int rpc_base64_stream_add(struct rpc_base64_stream *l, const uint8_t *data, size_t len,
			  struct err *e)
{
	while (len > 0) {
		size_t took = 0;

		if (add_some(l, data, len, &took, e) < 0)
			return -1;
		data += took;
		len -= took;
	}
	return 0;
}
