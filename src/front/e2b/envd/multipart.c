/* multipart.c - theory of operation
 *
 * A delimiter is CR LF "--" boundary, and a boundary holds no CR: so no delimiter begins inside
 * another, and a failed match is data up to the failing byte. Matched bytes from an earlier piece
 * are given out of our own copy. The start of the body counts as the end of a line. */
#include "front/e2b/envd/multipart.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "lib/http/url.h"

/* ---- the head of a part
 *
 * A head is collected whole and then read line by line. */

static void skip_space(struct http1_span *s)
{
	while (s->n > 0 && (*s->p == ' ' || *s->p == '\t')) {
		s->p++;
		s->n--;
	}
}

static bool part_head_skip(struct http1_span *s, char c)
{
	skip_space(s);
	if (s->n == 0 || *s->p != c)
		return false;
	s->p++;
	s->n--;
	return true;
}

/* May be empty. */
static struct http1_span take_token(struct http1_span *s)
{
	struct http1_span t = { s->p, 0 };

	while (t.n < s->n && http1_is_token(s->p + t.n, 1))
		t.n++;
	s->p += t.n;
	s->n -= t.n;
	return t;
}

/* The content of a quoted string, with its escapes. False without its end. A backslash is an escape
 * only before a character that needs one: browsers do not escape backslashes. */
static bool take_quoted(struct http1_span *s, struct http1_span *ret)
{
	*ret = (struct http1_span){ ++s->p, 0 };
	s->n--;
	while (ret->n < s->n && ret->p[ret->n] != '"') {
		if (ret->p[ret->n] == '\\' && ret->n + 1 < s->n &&
		    (ret->p[ret->n + 1] == '"' || ret->p[ret->n + 1] == '\\'))
			ret->n++;
		ret->n++;
	}
	if (ret->n >= s->n)
		return false;
	s->p += ret->n + 1;
	s->n -= ret->n + 1;
	return true;
}

int part_head_param(struct http1_span *s, struct http1_span *ret_name, struct http1_span *ret_value,
		    bool *ret_quoted)
{
	skip_space(s);
	if (s->n == 0)
		return 0;
	if (!part_head_skip(s, ';'))
		return -1;
	skip_space(s);
	if (s->n == 0)
		return 0;
	*ret_name = take_token(s);
	if (ret_name->n == 0 || !part_head_skip(s, '='))
		return -1;
	skip_space(s);
	*ret_quoted = s->n > 0 && *s->p == '"';
	if (*ret_quoted)
		return take_quoted(s, ret_value) ? 1 : -1;
	*ret_value = take_token(s);
	return ret_value->n > 0 ? 1 : -1;
}

/* The byte that a form's escape stands for: only quotes and line ends are escaped, all other "%"
 * are literal. 0: not an escape. */
static char form_escape(const char *p, size_t n)
{
	if (n < 3 || p[0] != '%')
		return '\0';
	if (p[1] == '2' && p[2] == '2')
		return '"';
	if (p[1] == '0' && (p[2] | 0x20) == 'd')
		return '\r';
	return p[1] == '0' && (p[2] | 0x20) == 'a' ? '\n' : '\0';
}

/* False: too long, or with a NUL. */
static bool copy_value(struct http1_span v, bool quoted, char *ret, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < v.n; i++) {
		char c = form_escape(v.p + i, v.n - i);

		if (c != '\0')
			i += 2;
		else if (quoted && v.p[i] == '\\' && i + 1 < v.n &&
			 (v.p[i + 1] == '"' || v.p[i + 1] == '\\'))
			c = v.p[++i];
		else
			c = v.p[i];
		if (c == '\0' || n + 1 >= cap)
			return false;
		ret[n++] = c;
	}
	ret[n] = '\0';
	return true;
}

/* filename*=UTF-8''a%20b (RFC 8187) */
static bool copy_extended(struct http1_span v, char *ret, size_t cap)
{
	static const char charset[] = "utf-8'";
	const char *quote;

	if (v.n < sizeof(charset) ||
	    !http1_span_is_nocase((struct http1_span){ v.p, sizeof(charset) - 1 }, charset))
		return false;
	v.p += sizeof(charset) - 1;
	v.n -= sizeof(charset) - 1;
	quote = memchr(v.p, '\'', v.n);
	if (quote == NULL)
		return false;
	v.n -= (size_t)(quote + 1 - v.p);
	v.p = quote + 1;
	return url_decode(v, ret, cap) >= 0;
}

/* filename* wins over filename, in any order. */
static const char *read_disposition(struct part_head *m, struct http1_span v)
{
	struct http1_span name, value;
	bool quoted, named = false, extended = false, ok = true;
	int more;

	if (!http1_span_is_nocase(take_token(&v), "form-data"))
		return "a part is not form-data";
	while ((more = part_head_param(&v, &name, &value, &quoted)) > 0 && ok) {
		if (http1_span_is_nocase(name, "name")) {
			ok = !named && copy_value(value, quoted, m->name, sizeof(m->name));
			named = true;
		} else if (http1_span_is_nocase(name, "filename*")) {
			ok = !extended && copy_extended(value, m->filename, sizeof(m->filename));
			extended = m->has_filename = true;
		} else if (http1_span_is_nocase(name, "filename") && !extended) {
			ok = !m->has_filename &&
			     copy_value(value, quoted, m->filename, sizeof(m->filename));
			m->has_filename = true;
		}
	}
	if (more < 0 || !ok)
		return "a part's Content-Disposition is malformed";
	return named ? NULL : "a part has no name";
}

const char *part_head_read(struct part_head *ret, const char *bytes, size_t len)
{
	const char *at = bytes, *end = bytes + len;
	bool disposed = false;

	ret->name[0] = ret->filename[0] = '\0';
	ret->has_filename = false;
	while (at < end) {
		const char *stop = memchr(at, '\r', (size_t)(end - at));
		struct http1_span line = { at, stop == NULL ? 0 : (size_t)(stop - at) }, name;
		const char *why;

		if (stop == NULL || stop + 1 >= end || stop[1] != '\n')
			return "a part's head is malformed";
		at = stop + 2;
		name = take_token(&line);
		if (name.n == 0 || line.n == 0 || *line.p != ':')
			return "a part's head is malformed";
		line.p++;
		line.n--;
		skip_space(&line);
		if (memchr(line.p, '\n', line.n) != NULL || memchr(line.p, '\0', line.n) != NULL)
			return "a part's head is malformed";
		if (!http1_span_is_nocase(name, "content-disposition"))
			continue;
		if (disposed)
			return "a part has two dispositions";
		disposed = true;
		why = read_disposition(ret, line);
		if (why != NULL)
			return why;
	}
	return disposed ? NULL : "a part has no Content-Disposition";
}

/* ---- the body
 *
 * The states follow the bytes: outside, behind a boundary, in a head, in data, behind the last
 * boundary. */

#define OUTSIDE_MAX 1024 /* bytes before the first part. Clients send none */

enum multipart_state { OUTSIDE, AFTER, AFTER_CR, AFTER_DASH, HEAD, DATA, END, BAD };

/* The characters of RFC 2046. */
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

/* ---- reading
 *
 * multipart_step() does one thing. multipart_read() repeats it until there is news for the caller.
 */

/* why: a constant. */
static enum multipart_result multipart_bad(struct multipart *m, const char *why)
{
	m->state = BAD;
	m->why = why;
	return MULTIPART_BAD;
}

/* How much of the delimiter is at the end of the bytes. */
static size_t multipart_partial(const struct multipart *m, const char *bytes, size_t len)
{
	size_t n = len < m->delimiter_n - 1 ? len : m->delimiter_n - 1;
	const char *cr = memrchr(bytes + len - n, '\r', n);

	if (cr == NULL)
		return 0;
	n = (size_t)(bytes + len - cr);
	return memcmp(cr, m->delimiter, n) == 0 ? n : 0;
}

/* Continue with a delimiter that began in an earlier piece. True if decided: the delimiter is
 * complete, or `held` has the bytes, which turned out to be data. */
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
	n = found != NULL ? (size_t)(found - bytes) : len - multipart_partial(m, bytes, len);
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

/* Skip all in front of the first part. */
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
			return multipart_bad(m, "the form has no part");
	}
}

/* Bytes of a head up to its empty line. */
static enum multipart_result read_lines(struct multipart *m, const char *bytes, size_t len,
					size_t *used)
{
	while (*used < len) {
		const char *why;

		if (m->head_n == MULTIPART_HEAD_MAX)
			return multipart_bad(m, "a part's head is too long");
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
			return multipart_bad(m, why);
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
	return multipart_bad(m, "a boundary is malformed");
}

static enum multipart_result multipart_step(struct multipart *m, const char *bytes, size_t len,
					    size_t *used, struct http1_span *ret)
{
	switch ((enum multipart_state)m->state) {
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

		r = multipart_step(m, bytes, len, ret_used, ret_data);
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
