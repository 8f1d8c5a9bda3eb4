/* change_quota.c - see change_quota.h. Each change is parsed, stored, sent to egress and parsed
 * there: the work is in proportion to the bytes, and it is done in the loops that serve all
 * tenants. So each tenant has a bucket of bytes, full at first. */
#include "change_quota.h"

#include "clock.h"
#include "core_private.h"

#define BURST (1U << 20)
#define PER_SECOND (256U << 10)

static void refill(struct tenant *t, uint64_t now)
{
	uint64_t ms = (now - t->changed_at_ns) / CLOCK_MS, full_ms = BURST * 1000ULL / PER_SECOND;

	if (t->changed_at_ns == 0 || ms >= full_ms) {
		t->change_bytes = BURST;
		t->changed_at_ns = now;
		return;
	}
	t->change_bytes += ms * PER_SECOND / 1000;
	if (t->change_bytes > BURST)
		t->change_bytes = BURST;
	t->changed_at_ns += ms * CLOCK_MS; /* the rest counts next time */
}

int change_quota_take(struct tenant *t, size_t bytes, struct err *e)
{
	/* A document longer than the bucket is refused for its length elsewhere. */
	uint64_t want = bytes < BURST ? bytes : BURST;

	refill(t, clock_now_ns());
	if (t->change_bytes < want)
		return err_set_reason(e, REASON_QUOTA_RATE,
				      "a tenant changes, or reads merged, at most %u bytes of "
				      "policies and secrets a second",
				      PER_SECOND);
	t->change_bytes -= want;
	return 0;
}
