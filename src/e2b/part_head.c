#include "part_head.h"

#include <string.h>

#include "url.h"

static void skip_space(struct http1_span *s)
{
	while (s->n > 0 && (*s->p == ' ' || *s->p == '\t')) {
		s->p++;
		s->n--;
	}
}

static bool skip(struct http1_span *s, char c)
{
	skip_space(s);
	if (s->n == 0 || *s->p != c)
		return false;
	s->p++;
	s->n--;
	return true;
}

static struct http1_span take_token(struct http1_span *s)
{
	struct http1_span t = { s->p, 0 };

	while (t.n < s->n && http1_is_token(s->p + t.n, 1))
		t.n++;
	s->p += t.n;
	s->n -= t.n;
	return t;
}

/* What a quoted string holds, with its escapes; false without its end. A backslash is one only
 * before what cannot stand for itself: browsers do not escape it. */
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
	if (!skip(s, ';'))
		return -1;
	skip_space(s);
	if (s->n == 0)
		return 0;
	*ret_name = take_token(s);
	if (ret_name->n == 0 || !skip(s, '='))
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
