/* multipart.c - theory of operation
 *
 * A delimiter is CR LF "--" boundary, and a boundary holds no CR: so no delimiter begins inside
 * another, and what turns out not to be one is data up to where it failed. Its bytes that came at
 * the end of an earlier piece are given out of our own copy, which has the same ones. The start of
 * the body counts as the end of a line. */
#include "multipart.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define OUTSIDE_MAX 1024 /* bytes before the first part; clients send none */

enum state { OUTSIDE, AFTER, AFTER_CR, AFTER_DASH, HEAD, DATA, END, BAD };

static bool is_boundary(const char *p, size_t n)
{
	static const char marks[] = "'()+_,-./:=? ";

	for (size_t i = 0; i < n; i++) {
		char c = p[i];

		if (!(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') &&
		    (c == '\0' || strchr(marks, c) == NULL))
			return false;
	}
	return n > 0 && n < MULTIPART_BOUNDARY_MAX && p[n - 1] != ' ';
}

int multipart_init(struct multipart *m, struct http1_span content_type, struct err *e)
{
	static const char form[] = "multipart/form-data";
	struct http1_span name, value, type = { content_type.p, sizeof(form) - 1 };
	size_t n = 0;
	bool quoted;
	int more;

	memset(m, 0, offsetof(struct multipart, head));
	m->head_n = 0;
	m->why = NULL;
	if (content_type.n < type.n || !http1_span_is_nocase(type, form))
		return err_set(e, ERR_INVALID, "the body is not multipart/form-data");
	content_type.p += type.n;
	content_type.n -= type.n;
	while ((more = part_head_param(&content_type, &name, &value, &quoted)) > 0)
		if (http1_span_is_nocase(name, "boundary") && n == 0 &&
		    is_boundary(value.p, value.n)) {
			memcpy(m->delimiter, "\r\n--", 4);
			memcpy(m->delimiter + 4, value.p, value.n);
			n = value.n;
		}
	if (n == 0 || more < 0)
		return err_set(e, ERR_INVALID,
			       "multipart/form-data: the boundary is missing or bad");
	m->delimiter_n = 4 + n;
	m->state = OUTSIDE;
	m->matched = 2; /* as if a line had just ended */
	return 0;
}

/* ---- reading */

static enum multipart_result bad(struct multipart *m, const char *why)
{
	m->state = BAD;
	m->why = why;
	return MULTIPART_BAD;
}

/* How much of the delimiter is at the end of the bytes. */
static size_t partial(const struct multipart *m, const char *bytes, size_t len)
{
	size_t n = len < m->delimiter_n - 1 ? len : m->delimiter_n - 1;
	const char *cr = memrchr(bytes + len - n, '\r', n);

	if (cr == NULL)
		return 0;
	n = (size_t)(bytes + len - cr);
	return memcmp(cr, m->delimiter, n) == 0 ? n : 0;
}

/* Continues with a delimiter that began in an earlier piece. True if it is decided: it is complete,
 * or `held` has the bytes that were data after all. */
static bool go_on_matching(struct multipart *m, const char *bytes, size_t len, size_t *used)
{
	while (m->matched < m->delimiter_n && *used < len &&
	       bytes[*used] == m->delimiter[m->matched]) {
		m->matched++;
		(*used)++;
	}
	if (m->matched == m->delimiter_n)
		return true;
	if (*used == len)
		return false;
	m->held = m->matched;
	m->held_at = 0;
	m->matched = 0;
	return true;
}

/* Data up to the next delimiter, or that delimiter: PART_END. */
static enum multipart_result read_data(struct multipart *m, const char *bytes, size_t len,
				       size_t *used, struct http1_span *ret)
{
	const char *found;
	size_t n;

	if (m->matched > 0 && m->held == 0 && !go_on_matching(m, bytes, len, used))
		return MULTIPART_MORE;
	if (m->matched == m->delimiter_n) {
		m->matched = 0;
		m->state = AFTER;
		return MULTIPART_PART_END;
	}
	if (m->held > 0) {
		*ret = (struct http1_span){ m->delimiter + m->held_at, m->held };
		return MULTIPART_DATA;
	}
	if (*used == len)
		return MULTIPART_MORE;
	bytes += *used;
	len -= *used;
	found = memmem(bytes, len, m->delimiter, m->delimiter_n);
	n = found != NULL ? (size_t)(found - bytes) : len - partial(m, bytes, len);
	if (n > 0) {
		*ret = (struct http1_span){ bytes, n };
		return MULTIPART_DATA;
	}
	m->matched = found != NULL ? m->delimiter_n : len;
	*used += m->matched;
	if (found == NULL)
		return MULTIPART_MORE;
	m->matched = 0;
	m->state = AFTER;
	return MULTIPART_PART_END;
}

/* What is in front of the first part is passed over. */
static enum multipart_result read_outside(struct multipart *m, const char *bytes, size_t len,
					  size_t *used)
{
	for (;;) {
		struct http1_span data;
		enum multipart_result r = read_data(m, bytes, len, used, &data);

		if (r != MULTIPART_DATA)
			return r;
		m->outside += data.n;
		*used += multipart_took(m, data.n);
		if (m->outside > OUTSIDE_MAX)
			return bad(m, "the form has no part");
	}
}

/* Bytes of a head up to its empty line. */
static enum multipart_result read_lines(struct multipart *m, const char *bytes, size_t len,
					size_t *used)
{
	while (*used < len) {
		const char *why;

		if (m->head_n == MULTIPART_HEAD_MAX)
			return bad(m, "a part's head is too long");
		m->head[m->head_n++] = bytes[(*used)++];
		if (bytes[*used - 1] != '\n')
			continue;
		if (m->head_n == 2 && m->head[0] == '\r') {
			m->head_n = 0; /* no headers at all */
		} else if (m->head_n < 4 || memcmp(m->head + m->head_n - 4, "\r\n\r\n", 4) != 0) {
			continue;
		} else {
			m->head_n -= 2;
		}
		why = part_head_read(&m->part, m->head, m->head_n);
		if (why != NULL)
			return bad(m, why);
		m->head_n = 0;
		m->state = DATA;
		return MULTIPART_PART;
	}
	return MULTIPART_MORE;
}

/* Behind a boundary: the end of its line, or the last two dashes. */
static enum multipart_result read_after(struct multipart *m, char c)
{
	if (m->state == AFTER && (c == '\r' || c == '-')) {
		m->state = c == '\r' ? AFTER_CR : AFTER_DASH;
		return MULTIPART_MORE;
	}
	if (m->state == AFTER_CR && c == '\n') {
		m->state = HEAD;
		return MULTIPART_MORE;
	}
	if (m->state == AFTER_DASH && c == '-') {
		m->state = END;
		return MULTIPART_END;
	}
	return bad(m, "a boundary is malformed");
}

static enum multipart_result step(struct multipart *m, const char *bytes, size_t len, size_t *used,
				  struct http1_span *ret)
{
	switch ((enum state)m->state) {
	case OUTSIDE:
		return read_outside(m, bytes, len, used);
	case AFTER:
	case AFTER_CR:
	case AFTER_DASH:
		return *used == len ? MULTIPART_MORE : read_after(m, bytes[(*used)++]);
	case HEAD:
		return read_lines(m, bytes, len, used);
	case DATA:
		return read_data(m, bytes, len, used, ret);
	case END:
		*used = len;
		return MULTIPART_END;
	case BAD:
		break;
	}
	return MULTIPART_BAD;
}

enum multipart_result multipart_read(struct multipart *m, const char *bytes, size_t len,
				     size_t *ret_used, struct http1_span *ret_data)
{
	enum multipart_result r;

	*ret_used = 0;
	*ret_data = (struct http1_span){ NULL, 0 };
	do {
		bool outside = m->state == OUTSIDE;

		r = step(m, bytes, len, ret_used, ret_data);
		if (outside && r == MULTIPART_PART_END)
			r = MULTIPART_MORE; /* there was no part before it */
	} while (r == MULTIPART_MORE && *ret_used < len);
	return r;
}

size_t multipart_took(struct multipart *m, size_t n)
{
	if (m->held == 0)
		return n;
	assert(n <= m->held);
	m->held -= n;
	m->held_at += n;
	return 0;
}

bool multipart_ended(const struct multipart *m)
{
	return m->state == END;
}
