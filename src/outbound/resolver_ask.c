#include "resolver_ask.h"

#include "clock.h"
#include "resolver_entry.h"
#include "resolver_job.h"

#define ENTRIES_MAX 4096

static void fail(struct job *j, enum err_code code, const char *what)
{
	struct result result = { .n = 0 };

	(void)err_set(&result.why, code, "%s", what);
	resolver_job_give(j, &result);
}

/* Creates an entry for the name of the job, or lets the job wait for the entry that is there. */
static void ask(struct job *j)
{
	struct resolver *r = j->resolver;
	struct entry *n = resolver_entry_find(r, j->host);

	if (!n && r->nentries >= ENTRIES_MAX)
		resolver_entry_make_room(r);
	if (!n)
		n = resolver_entry_new(r, j->host, j->lookup->owner);
	if (!n) {
		fail(j, ERR_NOT_FOUND, "not a name that can be looked up");
		return;
	}
	j->entry = n;
	j->next_there = n->jobs;
	n->jobs = j;
}

struct entry *resolver_ask_find(struct resolver *r, const char *host)
{
	struct entry *n = resolver_entry_find(r, host);

	if (n && n->known && n->until_ns <= clock_now_ns()) {
		resolver_entry_free(r, n);
		n = NULL;
	}
	return n;
}

void resolver_ask(struct job *j)
{
	struct entry *n = resolver_ask_find(j->resolver, j->host);

	if (n && n->known)
		resolver_job_give(j, &n->result);
	else
		ask(j);
}
