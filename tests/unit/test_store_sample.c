/* What sessions used over their whole life: few points, whatever its length, and nothing of the
 * counters or of the highest use is lost. */
#include "daemon/store/store_sample.h"

#include "daemon/store/store_records.h"
#include "store_support.h"

struct seen {
	struct store_sample at[STORE_SAMPLES_MAX + 2];
	unsigned n;
};

static int see(const struct store_sample *row, void *cookie)
{
	struct seen *seen = cookie;

	CHECK(seen->n < COUNT(seen->at));
	seen->at[seen->n++] = *row;
	return 0;
}

static const struct seen *seen(struct store *s, const char *session, uint64_t after)
{
	static struct seen list;
	struct store_looked looked;
	struct err e;

	list.n = 0;
	MUST(store_sample_list(s, session, after, 0, see, &list, &looked, &e));
	CHECK(looked.end);
	return &list;
}

static uint64_t charged(struct store *s)
{
	uint64_t rows, bytes;
	struct err e;

	MUST(store_records_get(s, "ten_a", &rows, &bytes, &e));
	return bytes;
}

static struct store *with_session(void)
{
	struct store_session row = a_session("ses_a", "ten_a", 1);
	struct store *s = new_store();
	struct err e;

	MUST(store_session_insert(s, &row, &e));
	return s;
}

static void join(void)
{
	struct store_sample a = { .time_ms = 10000,
				  .span_ms = 5000,
				  .looks = 1,
				  .cpu_us = 5,
				  .memory_bytes = 100,
				  .memory_max_bytes = 100,
				  .pids = 9,
				  .net_bytes_in = 1 },
			    b = { .time_ms = 20000,
				  .span_ms = 5000,
				  .looks = 3,
				  .cpu_us = 8,
				  .memory_bytes = 200,
				  .memory_max_bytes = 300,
				  .pids = 2,
				  .net_bytes_in = 7 };

	store_sample_join(&a, &b);
	CHECK(a.time_ms == 20000 && a.span_ms == 15000 && a.looks == 4);
	CHECK(a.memory_bytes == 175 && a.memory_max_bytes == 300 && a.pids == 9);
	CHECK(a.cpu_us == 8 && a.net_bytes_in == 7);
	/* the clock was set back by an hour */
	a = (struct store_sample){ .time_ms = 9000000, .span_ms = 5000, .looks = 1 };
	b = (struct store_sample){ .time_ms = 5400000, .span_ms = 5000, .looks = 1 };
	store_sample_join(&a, &b);
	CHECK(a.span_ms == 10000 && a.time_ms == 5400000);
}

#define LONG 20000 /* readings: more than a day */

static void grows(void)
{
	struct store *s = with_session();
	uint64_t step = STORE_SAMPLE_MS, again, before = charged(s), begin = 1000000, last = 0;
	struct store_sample p = { 0 };
	const struct seen *all;
	struct err e;

	/* As session_history.c collects them. */
	MUST(store_begin(s, &e));
	for (unsigned i = 1; i <= LONG; i++) {
		struct store_sample one = { .time_ms = begin + i * STORE_SAMPLE_MS,
					    .span_ms = STORE_SAMPLE_MS,
					    .looks = 1,
					    .cpu_us = i,
					    .memory_bytes = 1000,
					    .memory_max_bytes = i == 4321 ? 9999 : 1000,
					    .pids = 3 };

		if (p.looks > 0)
			store_sample_join(&p, &one);
		else
			p = one;
		if (p.looks * STORE_SAMPLE_MS < step)
			continue;
		MUST(store_sample_add(s, "ten_a", "ses_a", &p, false, &step, &e));
		p.looks = 0;
	}
	MUST(store_commit(s, &e));
	all = seen(s, "ses_a", 0);
	CHECK(all->n > STORE_SAMPLES_MAX / 2 && all->n <= STORE_SAMPLES_MAX);
	CHECK(charged(s) == before + all->n * STORE_SAMPLE_SIZE);
	for (unsigned i = 0; i < all->n; i++) {
		const struct store_sample *a = &all->at[i];

		/* no gaps, nothing twice, and the same resolution everywhere, by a factor of two */
		CHECK(a->time_ms - a->span_ms == (i == 0 ? begin : all->at[i - 1].time_ms));
		CHECK(a->span_ms <= step && (a->span_ms >= step / 4 || i + 2 >= all->n));
		CHECK(a->seq > last && a->memory_bytes == 1000 && a->pids == 3);
		CHECK(a->memory_max_bytes ==
		      (a->cpu_us >= 4321 && a->cpu_us - a->looks < 4321 ? 9999 : 1000));
		last = a->seq;
	}
	CHECK(all->at[all->n - 1].cpu_us + p.looks == LONG || p.looks == 0);
	MUST(store_sample_step(s, "ses_a", &again, &e));
	CHECK(again == step); /* as the next daemon finds it */
	MUST(store_sample_last(s, "ses_a", &again, &e));
	CHECK(again == last);
	CHECK(seen(s, "ses_a", last)->n == 0);
	/* with the session all are gone, and nothing is charged */
	CHECK(store_sample_delete(s, "ses_a", 10, &e) == 10);
	MUST(store_session_delete(s, "ses_a", &e));
	CHECK(charged(s) == 0);
	CHECK(seen(s, "ses_a", 0)->n == 0);
	end_store(s);
}

static void sparse(void)
{
	struct store *s = with_session();
	struct store_sample p = { .span_ms = STORE_SAMPLE_MS, .looks = 1 };
	uint64_t step = STORE_SAMPLE_MS, last = 0;
	const struct seen *all;
	struct err e;

	/* used for a moment every day */
	for (unsigned i = 1; i <= 300; i++) {
		p.time_ms = i * 86400000ULL;
		MUST(store_sample_add(s, "ten_a", "ses_a", &p, false, &step, &e));
		p.time_ms += STORE_SAMPLE_MS;
		MUST(store_sample_add(s, "ten_a", "ses_a", &p, false, &step, &e));
	}
	all = seen(s, "ses_a", 0);
	CHECK(all->n == STORE_SAMPLES_MAX);
	for (unsigned i = 0; i < all->n; last = all->at[i++].seq)
		CHECK(all->at[i].seq > last);
	CHECK(last == 600); /* a number is not given again */
	end_store(s);
}

static void refused(void)
{
	struct store *s = with_session();
	struct store_sample p = { .time_ms = 1, .looks = 1 };
	uint64_t step = STORE_SAMPLE_MS;
	struct err e;

	FAILS(store_sample_add(s, "ten_a", "ses_x", &p, false, &step, &e), ERR_NOT_FOUND);
	CHECK(store_sample_delete(s, "ses_x", 0, &e) == 0);
	MUST(store_sample_step(s, "ses_x", &step, &e));
	CHECK(step == STORE_SAMPLE_MS);
	MUST(store_begin(s, &e));
	MUST(store_sample_add(s, "ten_a", "ses_a", &p, false, &step, &e));
	store_rollback(s);
	CHECK(seen(s, "ses_a", 0)->n == 0);
	/* The first has no look before it. A second one that says so is refused. */
	MUST(store_sample_add(s, "ten_a", "ses_a", &p, true, &step, &e));
	FAILS(store_sample_add(s, "ten_a", "ses_a", &p, true, &step, &e), ERR_CONFLICT);
	MUST(store_sample_add(s, "ten_a", "ses_a", &p, false, &step, &e));
	CHECK(seen(s, "ses_a", 0)->n == 2 && seen(s, "ses_a", 0)->at[0].seq == 1 &&
	      seen(s, "ses_a", 0)->at[1].seq == 2);
	end_store(s);
}

TEST_MAIN({ "two points become one", join }, { "a day of readings", grows },
	  { "readings far apart", sparse }, { "no such session, and taken back", refused })
