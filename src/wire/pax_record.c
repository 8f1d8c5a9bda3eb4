#include "pax_record.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NS 1000000000U

size_t pax_record_put(char *at, size_t cap, const char *key, const void *value, size_t len)
{
	size_t rest = strlen(key) + len + 3, n = rest + 1; /* the length counts its own digits */
	int head;

	for (size_t power = 10; power <= n; power *= 10)
		n++;
	if (n >= cap) /* snprintf writes a NUL, too */
		return 0;
	head = snprintf(at, cap, "%zu %s=", n, key);
	memcpy(at + head, value, len);
	at[n - 1] = '\n';
	return n;
}

size_t pax_record_number(char *at, size_t cap, const char *key, uint64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);

	return pax_record_put(at, cap, key, text, (size_t)n);
}

size_t pax_record_time(char *at, size_t cap, const char *key, int64_t s, uint32_t ns)
{
	char text[48];
	bool negative = s < 0; /* -2 s and 0.75 of a second are written as -1.25 */
	long long whole = negative ? -(s + (ns > 0)) : s;
	int n = snprintf(text, sizeof(text), "%s%lld.%09u", negative ? "-" : "", whole,
			 negative && ns > 0 ? NS - ns : ns);

	return pax_record_put(at, cap, key, text, (size_t)n);
}
