#include "lib/loop/turns.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/own.h"

#define US 1000ULL
#define MS 1000000ULL
#define S 1000000000ULL

const uint64_t turns_bounds_ns[TURNS_BUCKETS] = { 50 * US,  100 * US, 250 * US, 500 * US, MS,
						  2 * MS,   5 * MS,   10 * MS,	20 * MS,  50 * MS,
						  100 * MS, 250 * MS, S,	10 * S };

static void turns_warn(const struct turns_turn *turn)
{
	static struct log_limit limit = { .burst = 5, .interval_ms = 10000 };
	char name[TURNS_NAME_MAX];
	unsigned long long dropped;

	if (!log_limit(&limit, &dropped))
		return;
	turns_name(&turn->longest, name);
	log_warn("a turn of the loop took long",
		 "ms=%llu callbacks=%u longest=%s longest_ms=%llu dropped=%llu",
		 (unsigned long long)(turn->ns / MS), turn->callbacks, name,
		 (unsigned long long)(turn->longest.ns / MS), dropped);
}

void turns_add(struct turns *t, const struct turns_turn *turn, uint64_t now_ns)
{
	unsigned i = 0;

	while (i < TURNS_BUCKETS && turn->ns > turns_bounds_ns[i])
		i++;
	t->buckets[i]++;
	t->count++;
	t->sum_ns += turn->ns;
	if (turn->ns > t->max_ns)
		t->max_ns = turn->ns;
	if (now_ns - t->window_ns > TURNS_WINDOW_S * S) {
		t->slowest[1] = t->slowest[0];
		t->slowest[0] = (struct turns_turn){ 0 };
		t->window_ns = now_ns;
	}
	if (turn->ns > t->slowest[0].ns)
		t->slowest[0] = *turn;
	if (turn->ns > TURNS_SLOW_MS * MS)
		turns_warn(turn);
}

const struct turns_turn *turns_slowest(const struct turns *t)
{
	return &t->slowest[t->slowest[1].ns > t->slowest[0].ns];
}

/* The part of the path behind "src/", which does not depend on where it was built. */
static const char *turns_short_file(const char *file)
{
	const char *at = file == NULL ? NULL : strstr(file, "src/");

	return file == NULL ? "" : at == NULL ? file : at + strlen("src/");
}

void turns_name(const struct turns_callback *c, char ret[TURNS_NAME_MAX])
{
	static const char *const kinds[] = { "none", "descriptor", "timer", "task" };

	(void)snprintf(ret, TURNS_NAME_MAX, "%s %s%s%s", kinds[c->kind], turns_short_file(c->file),
		       c->note == NULL ? "" : ": ", c->note == NULL ? "" : c->note);
}

static void turns_write_seconds(struct buf *to, uint64_t ns)
{
	buf_printf(to, "%llu.%09llu", (unsigned long long)(ns / S), (unsigned long long)(ns % S));
}

static void turns_write_head(struct buf *to, const char *prefix, const char *name, const char *help,
			     const char *type)
{
	buf_printf(to, "# HELP %s_loop_%s %s\n# TYPE %s_loop_%s %s\n", prefix, name, help, prefix,
		   name, type);
}

static void turns_write_histogram(const struct turns *t, const char *prefix, struct buf *to)
{
	unsigned long long below = 0;

	turns_write_head(to, prefix, "turn_seconds", "Time that turns of the event loop took.",
			 "histogram");
	for (unsigned i = 0; i < TURNS_BUCKETS; i++) {
		below += t->buckets[i];
		buf_printf(to, "%s_loop_turn_seconds_bucket{le=\"", prefix);
		turns_write_seconds(to, turns_bounds_ns[i]);
		buf_printf(to, "\"} %llu\n", below);
	}
	buf_printf(to, "%s_loop_turn_seconds_bucket{le=\"+Inf\"} %llu\n%s_loop_turn_seconds_sum ",
		   prefix, (unsigned long long)t->count, prefix);
	turns_write_seconds(to, t->sum_ns);
	buf_printf(to, "\n%s_loop_turn_seconds_count %llu\n", prefix, (unsigned long long)t->count);
}

void turns_write(const struct turns *t, const char *prefix, struct buf *to)
{
	char name[TURNS_NAME_MAX];

	turns_name(&turns_slowest(t)->longest, name);
	turns_write_named(t, prefix, name, to);
}

void turns_write_named(const struct turns *t, const char *prefix, const char *longest,
		       struct buf *to)
{
	turns_write_histogram(t, prefix, to);
	turns_write_head(to, prefix, "turn_max_seconds", "The longest turn since the start.",
			 "gauge");
	buf_printf(to, "%s_loop_turn_max_seconds ", prefix);
	turns_write_seconds(to, t->max_ns);
	buf_put_text(to, "\n");
	turns_write_head(to, prefix, "turn_slowest_seconds",
			 "The longest turn of the last minute or two, and its longest callback.",
			 "gauge");
	buf_printf(to, "%s_loop_turn_slowest_seconds{callback=\"%s\"} ", prefix, longest);
	turns_write_seconds(to, turns_slowest(t)->ns);
	buf_put_text(to, "\n");
}
