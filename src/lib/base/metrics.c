/* Theory of operation
 *
 * One array of numbers. metrics_setup() gives each metric its place in it: one slot for each value
 * of the label, or METRICS_BUCKETS + 2 for each in a histogram: its buckets (not yet summed up),
 * the sum in nanoseconds, the count. Nothing is allocated and nothing can run out later. */
#include "lib/base/metrics.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/own.h"

#define PER_HISTOGRAM (METRICS_BUCKETS + 2)
#define SUM METRICS_BUCKETS
#define SEEN (METRICS_BUCKETS + 1)

static const struct {
	uint64_t ns;
	const char *seconds;
} bounds[] = {
	{ 500000, "0.0005" },	{ 1000000, "0.001" },  { 2000000, "0.002" },  { 4000000, "0.004" },
	{ 8000000, "0.008" },	{ 16000000, "0.016" }, { 30000000, "0.03" },  { 60000000, "0.06" },
	{ 125000000, "0.125" }, { 250000000, "0.25" }, { 500000000, "0.5" },  { 1000000000, "1" },
	{ 2500000000, "2.5" },	{ 5000000000, "5" },   { 10000000000, "10" }, { 30000000000, "30" },
	{ 60000000000, "60" },
};
static_assert(COUNT(bounds) == METRICS_BUCKETS, "as many as the header says");

static const char *const kind_names[] = { "counter", "gauge", "histogram" };
static_assert(COUNT(kind_names) == METRICS_KINDS, "a name for every kind");

static const struct metrics_def *table;
static size_t table_size;
static unsigned place[METRICS_MAX];
static uint64_t slots[METRICS_SLOTS];

static size_t metrics_values_of(const struct metrics_def *d)
{
	return d->label == NULL ? 1 : d->nvalues;
}

static unsigned metrics_width_of(const struct metrics_def *d)
{
	return d->kind == METRICS_HISTOGRAM ? PER_HISTOGRAM : 1;
}

static bool metrics_is_name(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";

	return text != NULL && text[0] >= 'a' && text[0] <= 'z' &&
	       text[strspn(text, letters)] == '\0';
}

/* Label values and help go into the text as they are. */
static bool metrics_is_plain(const char *text)
{
	return text != NULL && strpbrk(text, "\"\\\n") == NULL;
}

void metrics_setup(const struct metrics_def *defs, size_t n)
{
	size_t used = 0;

	assert(n <= METRICS_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct metrics_def *d = &defs[i];

		assert(metrics_is_name(d->name) && metrics_is_plain(d->help) &&
		       d->kind < METRICS_KINDS);
		assert(d->label == NULL || (metrics_is_name(d->label) && d->nvalues > 0));
		for (size_t k = 0; d->label != NULL && k < d->nvalues; k++)
			assert(metrics_is_plain(d->values[k]));
		place[i] = (unsigned)used;
		used += metrics_values_of(d) * metrics_width_of(d);
		assert(used <= METRICS_SLOTS);
	}
	table = defs;
	table_size = n;
	memset(slots, 0, sizeof(slots));
}

static uint64_t *metrics_slot_of(unsigned metric, unsigned value)
{
	assert(metric < table_size && value < metrics_values_of(&table[metric]));
	return &slots[place[metric] + value * metrics_width_of(&table[metric])];
}

void metrics_add(unsigned metric, unsigned value, uint64_t n)
{
	uint64_t *slot = metrics_slot_of(metric, value);

	assert(table[metric].kind == METRICS_COUNTER);
	*slot += n;
}

void metrics_set(unsigned metric, unsigned value, int64_t now)
{
	uint64_t *slot = metrics_slot_of(metric, value);

	assert(table[metric].kind == METRICS_GAUGE);
	*slot = (uint64_t)now;
}

void metrics_observe_ns(unsigned metric, unsigned value, uint64_t duration_ns)
{
	uint64_t *slot = metrics_slot_of(metric, value);
	unsigned i = 0;

	assert(table[metric].kind == METRICS_HISTOGRAM);
	while (i < METRICS_BUCKETS && duration_ns > bounds[i].ns)
		i++;
	if (i < METRICS_BUCKETS)
		slot[i]++;
	slot[SUM] += duration_ns;
	slot[SEEN]++;
}

int64_t metrics_get(unsigned metric, unsigned value)
{
	uint64_t *slot = metrics_slot_of(metric, value);

	return (int64_t)(table[metric].kind == METRICS_HISTOGRAM ? slot[SEEN] : *slot);
}

/* name{label="value"}, with what else stands in the braces. */
static void metrics_write_name(struct buf *to, const struct metrics_def *d, const char *suffix,
			       size_t value, const char *le)
{
	bool braces = d->label != NULL || le != NULL;

	buf_printf(to, "%s%s%s", d->name, suffix, braces ? "{" : "");
	if (d->label != NULL)
		buf_printf(to, "%s=\"%s\"%s", d->label, d->values[value], le != NULL ? "," : "");
	if (le != NULL)
		buf_printf(to, "le=\"%s\"", le);
	buf_put_text(to, braces ? "} " : " ");
}

static void metrics_write_histogram(struct buf *to, const struct metrics_def *d, size_t value,
				    const uint64_t *slot)
{
	unsigned long long below = 0;

	for (size_t i = 0; i < METRICS_BUCKETS; i++) {
		below += slot[i];
		metrics_write_name(to, d, "_bucket", value, bounds[i].seconds);
		buf_printf(to, "%llu\n", below);
	}
	metrics_write_name(to, d, "_bucket", value, "+Inf");
	buf_printf(to, "%llu\n", (unsigned long long)slot[SEEN]);
	metrics_write_name(to, d, "_sum", value, NULL);
	buf_printf(to, "%llu.%09llu\n", (unsigned long long)(slot[SUM] / 1000000000),
		   (unsigned long long)(slot[SUM] % 1000000000));
	metrics_write_name(to, d, "_count", value, NULL);
	buf_printf(to, "%llu\n", (unsigned long long)slot[SEEN]);
}

static void metrics_write_value(struct buf *to, const struct metrics_def *d, size_t value,
				const uint64_t *slot)
{
	switch (d->kind) {
	case METRICS_HISTOGRAM:
		metrics_write_histogram(to, d, value, slot);
		return;
	case METRICS_GAUGE:
		metrics_write_name(to, d, "", value, NULL);
		buf_printf(to, "%lld\n", (long long)*slot);
		return;
	case METRICS_COUNTER:
	case METRICS_KINDS:
		break;
	}
	metrics_write_name(to, d, "", value, NULL);
	buf_printf(to, "%llu\n", (unsigned long long)*slot);
}

void metrics_write(struct buf *to)
{
	for (unsigned i = 0; i < table_size; i++) {
		const struct metrics_def *d = &table[i];

		buf_printf(to, "# HELP %s %s\n# TYPE %s %s\n", d->name, d->help, d->name,
			   kind_names[d->kind]);
		for (unsigned k = 0; k < metrics_values_of(d); k++)
			metrics_write_value(to, d, k, metrics_slot_of(i, k));
	}
}
