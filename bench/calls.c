#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_NS INT64_C(30000000000)

void calls_session_path(char path[CALLS_PATH_MAX], const char *id)
{
	(void)snprintf(path, CALLS_PATH_MAX, "/v1/sessions/%.*s", CALLS_ID_MAX, id);
}

void calls_run_path(char path[CALLS_PATH_MAX], const char *id)
{
	(void)snprintf(path, CALLS_PATH_MAX, "/v1/sessions/%.*s/executions?wait=true", CALLS_ID_MAX,
		       id);
}

bool calls_ran(const struct link *l)
{
	return l->status == 200 && strstr(l->body, "\"exit_code\":0") != NULL;
}

void calls_create(struct link *l, const char *body, char id[CALLS_ID_MAX])
{
	if (link_ask(l, "POST", "/v1/sessions", body) != 201)
		link_die("create: status %d: %.300s", l->status, l->body);
	link_member(l, "id", id, CALLS_ID_MAX);
}

void calls_delete(struct link *l, const char *id)
{
	char path[CALLS_PATH_MAX];

	calls_session_path(path, id);
	if (link_ask(l, "DELETE", path, NULL) != 204)
		link_die("delete %s: status %d: %.300s", id, l->status, l->body);
}

static bool settled(struct link *l)
{
	const char *pool;
	unsigned long size, ready;
	char *end;

	if (link_ask(l, "GET", "/v1/node", NULL) != 200)
		link_die("node: status %d", l->status);
	pool = strstr(l->body, "\"pool\":{\"size\":");
	if (pool == NULL)
		link_die("node without pool: %s", l->body);
	size = strtoul(pool + strlen("\"pool\":{\"size\":"), &end, 10);
	ready = strtoul(end + strlen(",\"ready\":"), NULL, 10);
	/* A server of the version before calls it "ending". */
	return ready >= size && strstr(l->body, "\"creating\":0") != NULL &&
	       (strstr(l->body, "\"stopping\":0") != NULL ||
		strstr(l->body, "\"ending\":0") != NULL);
}

void calls_settle(struct link *l)
{
	const struct timespec nap = { .tv_nsec = 1000000 };

	for (int64_t end = link_now_ns() + PATIENCE_NS; link_now_ns() < end;) {
		if (settled(l))
			return;
		(void)nanosleep(&nap, NULL);
	}
	link_die("the server does not come to rest: %s", l->body);
}
