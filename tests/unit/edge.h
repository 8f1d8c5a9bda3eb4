/* edge.h - a text at a bound and one beyond it, for a reader that takes the first and refuses the
 * second with an error that has certain words. The text is in memory of just its size: a sanitizer
 * sees each byte that is read behind it. */
#ifndef CORDON_TESTS_UNIT_EDGE_H
#define CORDON_TESTS_UNIT_EDGE_H

#include "lib/base/err.h"
#include "support.h"

/* True: taken. */
typedef bool edge_reader(const char *text, size_t len, struct err *e);

struct edge_text {
	char *p;
	size_t len, room;
};

static inline void edge_put_bytes(struct edge_text *t, const void *bytes, size_t n)
{
	while (t->len + n >= t->room) {
		t->room = t->room == 0 ? 65536 : 2 * t->room;
		t->p = realloc(t->p, t->room);
		CHECK(t->p != NULL);
	}
	memcpy(t->p + t->len, bytes, n);
	t->p[t->len += n] = '\0';
}

static inline void edge_put(struct edge_text *t, const char *text)
{
	edge_put_bytes(t, text, strlen(text));
}

static inline void edge_put_times(struct edge_text *t, const char *text, size_t times)
{
	for (size_t i = 0; i < times; i++)
		edge_put(t, text);
}

/* n times the item, with commas; %d in it is its number, of four digits and more. */
static inline void edge_put_items(struct edge_text *t, const char *item, size_t n)
{
	const char *number = strstr(item, "%d");
	char one[32];

	for (size_t i = 0; i < n; i++) {
		edge_put(t, i > 0 ? "," : "");
		edge_put_bytes(t, item, number == NULL ? strlen(item) : (size_t)(number - item));
		if (number == NULL)
			continue;
		(void)snprintf(one, sizeof(one), "%zu", 1000 + i);
		edge_put(t, one);
		edge_put(t, number + 2);
	}
}

static inline bool edge_taken(edge_reader *read, const struct edge_text *t, struct err *e)
{
	char *exact = exact_copy(t->p, t->len);
	bool taken;

	*e = (struct err){ 0 };
	taken = read(exact, t->len, e);
	free(exact);
	return taken;
}

/* What is said of a text beyond the bound: words, or NULL for nothing that matters. */
static inline void edge_expect(edge_reader *read, const struct edge_text *t, bool beyond,
			       const char *words)
{
	struct err e;
	bool taken = edge_taken(read, t, &e);

	if (taken == beyond)
		printf("# %.60s...: %s at %s\n", t->p, taken ? "taken" : "refused",
		       beyond ? "one beyond" : "the bound");
	if (taken == beyond && !taken)
		print_text("# ", e.msg);
	CHECK(taken != beyond);
	if (beyond && words != NULL)
		CHECK_HAS(words, e.msg, words);
}

struct edge {
	edge_reader *read;
	const char *start;
	const char *item; /* bound times, with commas; of one byte: without */
	size_t bound;
	const char *end, *words;
};

static inline void edge_write(struct edge_text *t, const struct edge *row, size_t n)
{
	t->len = 0;
	edge_put(t, row->start);
	if (row->item[1] == '\0')
		edge_put_times(t, row->item, n);
	else
		edge_put_items(t, row->item, n);
	edge_put(t, row->end);
}

static inline void edge_try(const struct edge *rows, size_t n)
{
	struct edge_text t = { 0 };

	for (size_t i = 0; i < n; i++)
		for (size_t more = 0; more < 2; more++) {
			edge_write(&t, &rows[i], rows[i].bound + more);
			edge_expect(rows[i].read, &t, more > 0, rows[i].words);
		}
	free(t.p);
}

#endif
