#include "limit_text.h"

#include <stdio.h>
#include <string.h>

#include "own.h"
#include "units.h"

struct limit_text limit_text(const char *name, uint64_t value)
{
	static const char *const bytes[] = { "memory", "disk", "disk_read_bps", "disk_write_bps" };
	struct limit_text ret = { "" };

	for (size_t i = 0; i < COUNT(bytes); i++)
		if (strcmp(name, bytes[i]) == 0) {
			units_format_bytes(value, ret.s, sizeof(ret.s));
			return ret;
		}
	if (strcmp(name, "cpus") == 0 && value % 1000 != 0)
		(void)snprintf(ret.s, sizeof(ret.s), "%llu.%03u", (unsigned long long)value / 1000,
			       (unsigned)(value % 1000));
	else
		(void)snprintf(
			ret.s, sizeof(ret.s), "%llu",
			(unsigned long long)(strcmp(name, "cpus") == 0 ? value / 1000 : value));
	return ret;
}
