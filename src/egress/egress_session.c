#include "egress_session.h"

#include <stdlib.h>
#include <string.h>

struct egress_session *egress_session_find(struct egress *g, const char *id)
{
	for (struct egress_session *at = g->sessions; at != NULL; at = at->next)
		if (strcmp(at->id, id) == 0)
			return at;
	return NULL;
}

struct egress_session *egress_session_new(struct egress *egress, const char *id)
{
	struct egress_session *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->egress = egress;
	used_init(&g->used);
	memcpy(g->id, id, strlen(id) + 1);
	g->tcp = g->udp = -1;
	g->on_tcp.fd = g->on_udp.fd = -1;
	g->next = egress->sessions;
	egress->sessions = g;
	return g;
}

void egress_session_free(struct egress_session *g)
{
	struct egress_session **at = &g->egress->sessions;

	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	used_release(&g->used);
	sent_release(&g->sent);
	free(g);
}
