#include "lib/base/similar.h"

#include <string.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* Three rows of the table of distances between beginnings are enough: the third is for swaps. */
unsigned similar_distance(const char *a, const char *b)
{
	unsigned rows[3][SIMILAR_WORD_MAX + 1];
	size_t na = strlen(a), nb = strlen(b);

	if (na > SIMILAR_WORD_MAX || nb > SIMILAR_WORD_MAX)
		return SIMILAR_WORD_MAX;
	for (size_t k = 0; k <= nb; k++)
		rows[0][k] = (unsigned)k;
	for (size_t i = 1; i <= na; i++) {
		unsigned *now = rows[i % 3];
		const unsigned *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t k = 1; k <= nb; k++) {
			unsigned changed = before[k - 1] + (a[i - 1] != b[k - 1]);

			now[k] = MIN(changed, MIN(before[k], now[k - 1]) + 1);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				now[k] = MIN(now[k], earlier[k - 2] + 1);
		}
	}
	return rows[na % 3][nb];
}

/* One mistake in a short word, two in a longer one. */
static unsigned similar_allowed(const char *word)
{
	return strlen(word) < 5 ? 1 : 2;
}

void similar_offer(struct similar *s, const char *name)
{
	size_t n = strlen(s->word);
	unsigned d = similar_distance(s->word, name);

	if (n >= 2 && strncmp(s->word, name, n) == 0)
		d = MIN(d, 1);
	if (d > similar_allowed(s->word) || d >= strlen(name) ||
	    (s->best != NULL && d >= s->distance))
		return;
	s->best = name;
	s->distance = d;
}
