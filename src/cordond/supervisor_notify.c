#include "supervisor_notify.h"

#include "io.h"
#include "supervisor_msg.h"

bool supervisor_notify(char word, unsigned slot)
{
	const char message[SERVE_MESSAGE] = { word, (char)slot };
	struct err e;

	return io_send(SERVE_FD_CONTROL, message, sizeof(message), NULL, 0, &e) == 0;
}

bool supervisor_replace_keeper(void *arg, unsigned slot)
{
	(void)arg;
	return supervisor_notify(SERVE_KEEPER_HUNG, slot);
}

void supervisor_replace_egress(void *arg, unsigned slot)
{
	(void)arg;
	IGNORED(supervisor_notify(SERVE_EGRESS_HUNG, slot) ? 0 : -1, "it is asked for again");
}

void supervisor_replace_pull(void *arg)
{
	(void)arg;
	IGNORED(supervisor_notify(SERVE_PULL_HUNG, 0) ? 0 : -1, "it is asked for again");
}

void supervisor_replace_storage(void *arg)
{
	(void)arg;
	IGNORED(supervisor_notify(SERVE_STORAGE_HUNG, 0) ? 0 : -1, "it is asked for again");
}
