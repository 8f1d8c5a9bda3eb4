#include "dns_state.h"

#include <stdlib.h>

struct dns_state *dns_state_of(struct egress_session *g)
{
	if (!g->dns) {
		g->dns = calloc(1, sizeof(*g->dns));
		if (g->dns)
			g->dns->session = g;
	}
	return g->dns;
}

void dns_state_free(struct egress_session *g)
{
	if (!g->dns)
		return;
	loop_timer_cancel(g->egress->loop, &g->dns->pause);
	free(g->dns);
	g->dns = NULL;
}
