#include "guest_ping.h"

#include "carrier.h"
#include "guest_msg.h"
#include "guest_programs.h"
#include "report.h"
#include "shim.h"

#define MISSES 3

unsigned guest_ping_ms = 10000;

static uint64_t pings, pongs;
static unsigned misses;

uint64_t guest_ping_send(void)
{
	if (carrier_send(GUEST_PING, NULL, 0))
		pings++;
	return pings;
}

int guest_ping_on_pong(struct err *e)
{
	if (pongs == pings)
		return err_set(e, ERR_INVALID, "the guest's agent answered a PING too many");
	pongs++;
	misses = 0;
	report_responsive(true);
	guest_programs_on_pong(pongs);
	shim_wake();
	return 0;
}

void guest_ping_watch(void)
{
	const uint64_t before = pings;

	/* One that cannot be sent, as the guest does not read, counts as one without answer. */
	if ((pings != pongs || guest_ping_send() == before) && ++misses == MISSES)
		report_responsive(false);
	shim_wake();
}

void guest_ping_forgive(void)
{
	misses = 0;
}
