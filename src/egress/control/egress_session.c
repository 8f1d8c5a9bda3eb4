#include "egress/control/egress_session.h"
#include "lib/base/list.h"

#include <stdlib.h>
#include <string.h>

struct egress_session *egress_session_find(struct egress *egress, const char *id)
{
	for (struct egress_session *at = egress->sessions; at != NULL; at = at->next)
		if (strcmp(at->id, id) == 0)
			return at;
	return NULL;
}

struct egress_session *egress_session_new(struct egress *egress, const char *id)
{
	struct egress_session *session = calloc(1, sizeof(*session));

	if (session == NULL)
		return NULL;
	session->egress = egress;
	limit_usage_init(&session->used);
	memcpy(session->id, id, strlen(id) + 1);
	session->tcp = session->udp = session->owners.sock = -1;
	session->tcp_watch.fd = session->udp_watch.fd = session->owners.watch.fd = -1;
	session->next = egress->sessions;
	egress->sessions = session;
	return session;
}

void egress_session_free(struct egress_session *session)
{
	struct egress_session **at = &session->egress->sessions;

	while (*at != session)
		at = &(*at)->next;
	LIST_GONE(session);
	*at = session->next;
	limit_usage_release(&session->used);
	secrets_sent_release(&session->sent);
	free(session);
}
