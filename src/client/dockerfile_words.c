#include "dockerfile_words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "own.h"

#define LINE_MAX_BYTES ((size_t)64 * 1024)

char *dockerfile_words_copy(const char *text, size_t n)
{
	char *made = malloc(n + 1);

	if (made == NULL)
		abort();
	memcpy(made, text, n);
	made[n] = '\0';
	return made;
}

static const char *value_of(const struct dockerfile_words *v, const char *name, size_t n)
{
	for (size_t i = v->n; i > 0; i--)
		if (strncmp(v->texts[i - 1], name, n) == 0 && v->texts[i - 1][n] == '=')
			return v->texts[i - 1] + n + 1;
	return NULL;
}

bool dockerfile_words_set(struct dockerfile_words *v, const char *name, const char *value)
{
	struct buf b = BUF_INIT(LINE_MAX_BYTES);

	if (v->n == DOCKERFILE_WORDS_MAX)
		return false;
	buf_printf(&b, "%s=%s", name, value);
	v->texts[v->n++] = dockerfile_words_copy(buf_text(&b), strlen(buf_text(&b)));
	buf_release(&b);
	return true;
}

void dockerfile_words_release(struct dockerfile_words *v)
{
	while (v->n > 0)
		free(v->texts[--v->n]);
}

size_t dockerfile_words_name(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || text[n] == '_')
		n++;
	return isdigit((unsigned char)text[0]) ? 0 : n;
}

/* "$NAME", "${NAME}", "${NAME:-text}"; returns how many bytes it took. */
static size_t expand_one(const struct dockerfile_words *r, const char *text, struct buf *to)
{
	bool braces = text[0] == '{';
	size_t n = dockerfile_words_name(text + braces);
	const char *value = value_of(r, text + braces, n), *rest = text + braces + n;
	const char *end = strchr(rest, '}');

	if (n == 0 || (braces && end == NULL))
		return 0;
	if (!braces) {
		buf_put_text(to, value == NULL ? "" : value);
		return n;
	}
	if (end != rest && strncmp(rest, ":-", 2) != 0)
		return 0;
	if (value != NULL && value[0] != '\0')
		buf_put_text(to, value);
	else if (end != rest)
		buf_put(to, rest + 2, (size_t)(end - rest) - 2);
	return (size_t)(end - text) + 1;
}

/* Quotes are removed, variables are replaced outside of single quotes. */
char *dockerfile_words_expand(const struct dockerfile_words *r, const char *text, size_t len,
			      bool variables)
{
	struct buf b = BUF_INIT(LINE_MAX_BYTES);
	char quote = '\0', *made;
	OWN_MEM char *whole = dockerfile_words_copy(text, len);

	for (const char *at = whole; *at != '\0';) {
		size_t taken = 0;

		if (*at == '\\' && at[1] != '\0' && quote != '\'') {
			if (quote == '"' && strchr("\"\\$", at[1]) == NULL)
				buf_put(&b, at, 1);
			buf_put(&b, at + 1, 1);
			at += 2;
			continue;
		}
		if ((*at == '"' || *at == '\'') && (quote == '\0' || quote == *at)) {
			quote = (char)(quote == '\0' ? *at : '\0');
			at++;
			continue;
		}
		if (*at == '$' && quote != '\'' && variables)
			taken = expand_one(r, at + 1, &b);
		if (taken == 0)
			buf_put(&b, at, 1);
		at += taken + 1;
	}
	made = dockerfile_words_copy(buf_text(&b), strlen(buf_text(&b)));
	buf_release(&b);
	return made;
}

/* The length of the next word, quotes and escapes included. */
size_t dockerfile_words_length(const char *text)
{
	char quote = '\0';
	size_t n = 0;

	for (; text[n] != '\0' && (quote != '\0' || !isspace((unsigned char)text[n])); n++) {
		if (text[n] == '\\' && text[n + 1] != '\0')
			n++;
		else if (quote == '\0' && (text[n] == '"' || text[n] == '\''))
			quote = text[n];
		else if (quote == text[n])
			quote = '\0';
	}
	return n;
}

/* A list in JSON, as of CMD ["a", "b"]: the words as one command of a shell. NULL: it is none. */
char *dockerfile_words_json(const char *text)
{
	struct buf b = BUF_INIT(LINE_MAX_BYTES);
	char *made = NULL;
	bool more = true;

	for (text++; more;) {
		text += strspn(text, " \t");
		if (*text == ']' && b.len == 0)
			break;
		if (*text++ != '"')
			goto end;
		if (b.len > 0)
			buf_put_text(&b, " ");
		buf_put_text(&b, "'");
		for (; *text != '"'; text++) {
			if (*text == '\\' && text[1] != '\0')
				text++;
			if (*text == '\0')
				goto end;
			if (*text == '\'')
				buf_put_text(&b, "'\\''");
			else
				buf_put(&b, text, 1);
		}
		buf_put_text(&b, "'");
		text += 1 + strspn(text + 1, " \t");
		if (*text != ',' && *text != ']')
			goto end;
		more = *text++ == ',';
	}
	if (b.len > 0)
		made = dockerfile_words_copy(buf_text(&b), strlen(buf_text(&b)));
end:
	buf_release(&b);
	return made;
}

bool dockerfile_words_line(const char **at, const char *end, unsigned *line, unsigned *ret_first,
			   struct buf *ret)
{
	bool more = true;

	buf_clear(ret);
	while (more && *at < end) {
		const char *stop = memchr(*at, '\n', (size_t)(end - *at));
		size_t n = (size_t)((stop == NULL ? end : stop) - *at), skip = 0;
		const char *text = *at;

		++*line;
		*at = stop == NULL ? end : stop + 1;
		while (skip < n && isspace((unsigned char)text[skip]))
			skip++;
		if (skip == n || text[skip] == '#')
			continue;
		while (n > 0 && isspace((unsigned char)text[n - 1]))
			n--;
		if (ret->len == 0) {
			*ret_first = *line;
			text += skip;
			n -= skip;
		}
		more = text[n - 1] == '\\';
		buf_put(ret, text, n - more);
	}
	return ret->len > 0;
}
