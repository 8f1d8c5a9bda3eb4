#include "lease.h"

#include <stdbool.h>

#include "clock.h"

static uint64_t lease_ns, deadline_ns, lost_ns;
static bool lost;

void lease_set(uint64_t ms)
{
	lease_ns = ms * CLOCK_MS;
}

void lease_set_deadline(uint64_t ms, uint64_t now_ns)
{
	deadline_ns = ms == 0 ? 0 : now_ns + ms * CLOCK_MS;
}

void lease_on_disconnect(uint64_t now_ns)
{
	if (!lost)
		lost_ns = now_ns;
	lost = true;
}

void lease_on_connect(void)
{
	lost = false;
	deadline_ns = 0;
}

void lease_delay_deadline(uint64_t ms)
{
	if (deadline_ns != 0)
		deadline_ns += ms * CLOCK_MS;
}

uint64_t lease_end_ns(void)
{
	uint64_t end = lease_ns == 0 ? 0 : lost_ns + lease_ns;

	if (!lost)
		return 0;
	return end == 0 || (deadline_ns != 0 && deadline_ns < end) ? deadline_ns : end;
}
