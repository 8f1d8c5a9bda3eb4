#include "samples.h"

#include <stdio.h>
#include <stdlib.h>

#include "link.h"

void samples_add(struct samples *s, int64_t ns)
{
	if (s->n == s->cap) {
		s->cap = s->cap == 0 ? 1024 : s->cap * 2;
		s->ns = realloc(s->ns, s->cap * sizeof(*s->ns));
		if (s->ns == NULL)
			link_die("out of memory");
	}
	s->ns[s->n++] = ns;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Of sorted samples, in microseconds. */
double samples_quantile(const struct samples *s, unsigned percent)
{
	size_t at = (s->n * percent + 99) / 100;

	if (s->n == 0)
		return 0;
	return (double)s->ns[at == 0 ? 0 : at - 1] / 1000;
}

void samples_sort(struct samples *s)
{
	if (s->n > 0)
		qsort(s->ns, s->n, sizeof(*s->ns), compare);
}

void samples_report(struct samples *s)
{
	samples_sort(s);
	(void)printf("%s\t%zu\t%u\t%.1f\t%.1f\t%.1f\n", s->name, s->n, s->failed,
		     samples_quantile(s, 0), samples_quantile(s, 50), samples_quantile(s, 99));
}
