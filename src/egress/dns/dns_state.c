#include "egress/dns/dns_state.h"

#include <stdlib.h>

struct dns_state *dns_state_of(struct egress_session *session)
{
	if (!session->dns) {
		session->dns = calloc(1, sizeof(*session->dns));
		if (session->dns)
			session->dns->session = session;
	}
	return session->dns;
}

void dns_state_free(struct egress_session *session)
{
	if (!session->dns)
		return;
	loop_timer_cancel(session->egress->loop, &session->dns->pause);
	free(session->dns);
	session->dns = NULL;
}
