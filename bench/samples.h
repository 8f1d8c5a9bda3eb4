/* samples.h - durations of one kind, to be sorted and told. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct samples {
	const char *name;
	int64_t *ns;
	size_t n, cap;
	unsigned failed;
};

void samples_add(struct samples *s, int64_t ns);
void samples_sort(struct samples *s);

/* Of sorted samples, in microseconds; 0 percent: the least. */
double samples_quantile(const struct samples *s, unsigned percent);

/* Sorts, and prints "name TAB samples TAB failed TAB min TAB median TAB p99", microseconds. */
void samples_report(struct samples *s);
