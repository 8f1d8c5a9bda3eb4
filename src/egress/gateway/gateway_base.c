#include "egress/gateway/gateway_base.h"

#include "egress/control/session_limits.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"

void gateway_wait(struct gateway *x, uint64_t ms)
{
	x->deadline_ns = loop_now_ns(x->loop) + ms * CLOCK_MS;
	/* A timer that fires too early is set again by on_timer(): cheaper than setting it on every
	 * call. */
	if (x->timer.place == 0 || x->timer.at_ns > x->deadline_ns)
		loop_timer_set(x->loop, &x->timer, x->deadline_ns);
}

void gateway_defer(struct gateway *x)
{
	loop_defer(x->loop, &x->task);
}

void gateway_set_reason(struct gateway *x, const char *reason)
{
	str_copy(x->reason, reason);
}

void gateway_client_gone(struct gateway *x)
{
	gateway_set_reason(x, "the program closed the connection");
	x->over = x->reset = true;
}

/* max 0: no bound. */
static uint64_t gateway_base_under(uint64_t used, uint64_t max)
{
	if (max == 0)
		return UINT64_MAX;
	return used < max ? max - used : 0;
}

/* Only the body of an answer is bounded, so all is left before the answer begins. */
uint64_t gateway_budget_left(const struct gateway *x, const char **ret_why)
{
	const struct gateway_budget *b = &x->budget;
	uint64_t all = gateway_base_under(x->session->packages.bytes, b->all),
		 one = gateway_base_under(b->sent, b->file);

	*ret_why = one < all ? "the package file is larger than this session may download"
			     : "the package budget of this session is used up";
	if (!b->counts || !x->answered)
		return UINT64_MAX;
	return one < all ? one : all;
}

uint64_t gateway_bytes_left(struct gateway *x, enum limit_way way, uint64_t want)
{
	const char *why;
	uint64_t left = session_limits_left(x->session, x->rule, way, want, &why);
	uint64_t of_packages = way == LIMIT_IN ? gateway_budget_left(x, &why) : UINT64_MAX;

	return left < of_packages ? left : of_packages;
}

void gateway_count_bytes(struct gateway *x, enum limit_way way, uint64_t n)
{
	*(way == LIMIT_OUT ? &x->bytes_out : &x->bytes_in) += n;
	session_limits_moved(x->session, x->rule, way, n);
	resource_share_turn_moved(&x->session->share, n);
	if (way != LIMIT_IN || !x->answered)
		return;
	x->budget.sent += n;
	if (x->budget.counts)
		x->session->packages.bytes += n;
}

uint64_t gateway_mask_weight(const struct gateway *x)
{
	return RESOURCE_SHARE_TURN_BYTES / mask_turn(x->mask);
}

void gateway_count_masked(struct gateway *x, size_t n)
{
	if (x->mask)
		resource_share_turn_moved(&x->session->share, n * gateway_mask_weight(x));
}
