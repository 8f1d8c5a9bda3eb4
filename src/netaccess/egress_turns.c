#include "egress_turns.h"

#include <string.h>

#include "access_record_text.h"

int egress_turns_take(struct egress_turns *t, const char *text, size_t len, struct err *e)
{
	struct record_turns now;

	if (access_record_text_turns(text, len, &now, e) < 0)
		return -1;
	t->turns = (struct turns){ .count = now.count, .sum_ns = now.sum_ns, .max_ns = now.max_ns };
	for (size_t i = 0; i < TURNS_BUCKETS + 1 && i < now.nbuckets; i++)
		t->turns.buckets[i] = now.buckets[i];
	t->turns.slowest[0].ns = now.slowest_ns;
	memcpy(t->slowest, now.slowest, sizeof(t->slowest));
	return 0;
}

static void add(struct turns *to, const struct turns *t)
{
	to->count += t->count;
	to->sum_ns += t->sum_ns;
	if (to->max_ns < t->max_ns)
		to->max_ns = t->max_ns;
	for (size_t i = 0; i < TURNS_BUCKETS + 1; i++)
		to->buckets[i] += t->buckets[i];
}

void egress_turns_restart(struct egress_turns *t)
{
	add(&t->past, &t->turns);
	t->turns = (struct turns){ 0 };
	t->slowest[0] = '\0';
}

void egress_turns_add(struct egress_turns *to, const struct egress_turns *t)
{
	add(&to->turns, &t->turns);
	add(&to->turns, &t->past);
	if (to->slowest[0] != '\0' && to->turns.slowest[0].ns >= t->turns.slowest[0].ns)
		return;
	to->turns.slowest[0].ns = t->turns.slowest[0].ns;
	memcpy(to->slowest, t->slowest, sizeof(to->slowest));
}

void egress_turns_write(const struct egress_turns *t, struct buf *to)
{
	turns_write_named(&t->turns, "cordon_egress", t->slowest, to);
}
