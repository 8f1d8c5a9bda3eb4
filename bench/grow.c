/* grow.c - does a create take longer the more sessions there are? See many_grow() in many.h. */
#include <stdio.h>
#include <stdlib.h>

#include "calls.h"
#include "link.h"
#include "many.h"
#include "samples.h"

static const unsigned marks[] = { 1,	10,   100,  250,  500,	1000, 1500,
				  2000, 2500, 3000, 3500, 4000, 4500, 5000 };

static struct link l;

static void measure(unsigned live, unsigned rounds)
{
	struct samples create = { .name = "create" }, run = { .name = "create + run" };
	char id[CALLS_ID_MAX], path[CALLS_PATH_MAX];

	for (unsigned i = 0; i < rounds; i++) {
		int64_t begin, made;

		calls_settle(&l);
		begin = link_now_ns();
		calls_create(&l, NULL, id);
		made = link_now_ns();
		calls_run_path(path, id);
		(void)link_ask(&l, "POST", path, CALLS_RUN);
		if (!calls_ran(&l))
			link_die("run beside %u sessions: %d %s", live, l.status, l.body);
		samples_add(&create, made - begin);
		samples_add(&run, link_now_ns() - begin);
		calls_delete(&l, id);
	}
	samples_sort(&create);
	samples_sort(&run);
	(void)printf("%u\t%u\t%.1f\t%.1f\t%.1f\t%.1f\n", live, rounds,
		     samples_quantile(&create, 50), samples_quantile(&create, 99),
		     samples_quantile(&run, 50), samples_quantile(&run, 99));
	(void)fflush(stdout);
	free(create.ns);
	free(run.ns);
}

void many_grow(unsigned n, unsigned rounds)
{
	char(*ids)[CALLS_ID_MAX] = calloc(n, sizeof(*ids));
	unsigned live = 0;

	if (ids == NULL)
		link_die("out of memory");
	link_open(&l);
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]) && marks[i] <= n; i++) {
		while (live < marks[i])
			calls_create(&l, "{\"timeout\":\"1h\"}", ids[live++]);
		measure(live, rounds);
	}
	while (live > 0)
		calls_delete(&l, ids[--live]);
	calls_settle(&l);
	link_close(&l);
	free(ids);
}
