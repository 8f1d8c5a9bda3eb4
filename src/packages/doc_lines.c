/* doc_lines.c - see doc_lines.h. */
#include "doc_lines.h"

#include <string.h>

static void add(struct doc_lines *l, const char *p, size_t n)
{
	size_t room = sizeof(l->line) - 1 - l->n, take = n < room ? n : room;

	if (take < n)
		l->cut = true;
	if (take > 0 && memchr(p, '\0', take) != NULL)
		l->odd = true;
	memcpy(l->line + l->n, p, take);
	l->n += take;
}

static void end(struct doc_lines *l, void (*on_line)(struct doc_lines *l, void *arg), void *arg)
{
	if (l->n > 0 && !l->cut && l->line[l->n - 1] == '\r')
		l->n--;
	l->line[l->n] = '\0';
	on_line(l, arg);
	l->n = 0;
	l->cut = l->odd = false;
}

void doc_lines_feed(struct doc_lines *l, const char *bytes, size_t n,
		    void (*on_line)(struct doc_lines *l, void *arg), void *arg)
{
	while (n > 0) {
		const char *nl = memchr(bytes, '\n', n);
		size_t len = nl == NULL ? n : (size_t)(nl - bytes);

		add(l, bytes, len);
		if (nl == NULL)
			return;
		end(l, on_line, arg);
		bytes += len + 1;
		n -= len + 1;
	}
}

void doc_lines_end(struct doc_lines *l, void (*on_line)(struct doc_lines *l, void *arg), void *arg)
{
	if (l->n > 0)
		end(l, on_line, arg);
}
