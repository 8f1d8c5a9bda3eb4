/* session_reboot.c - see session_reboot.h. The session runs even if the command fails: its owner
 * needs it to find out why. */
#include "session_reboot.h"

#include <assert.h>
#include <stdlib.h>

#include "core_private.h"
#include "log.h"
#include "session_boot.h"

struct reboot {
	struct session *session;
	struct completion running; /* all of its parts are ready */
	struct completion ready;   /* so are its commands */
	struct completions waiters;
};

/* Those that wait may free the session. */
static void finish(struct reboot *b, const struct err *e)
{
	struct completions waiters = { 0 };

	completions_move(&b->waiters, &waiters);
	completion_cancel(&b->running);
	completion_cancel(&b->ready);
	b->session->reboot = NULL;
	free(b);
	completions_end_all(&waiters, e);
}

static void on_ready(struct completion *c, const struct err *e)
{
	struct reboot *b = c->arg;
	struct err why = { 0 };
	bool over = b->session->row.state >= SESSION_STOPPING;

	if (e != NULL)
		why = *e;
	if (e != NULL && !over)
		log_warn("the start command of a session failed", "session_id=%s error=%s",
			 b->session->row.id, why.msg);
	finish(b, over && e != NULL ? &why : NULL);
}

static void on_running(struct completion *c, const struct err *e)
{
	struct reboot *b = c->arg;
	struct err why;

	if (e == NULL) {
		session_boot(b->session, &b->session->actor, &b->ready);
		return;
	}
	why = *e;
	finish(b, &why);
}

void session_reboot_begin(struct session *s)
{
	struct reboot *b;

	if (!session_boot_is_needed(s))
		return;
	session_reboot_free(s);
	b = calloc(1, sizeof(*b));
	assert(b != NULL);
	b->session = s;
	b->running = (struct completion){ .on_done = on_running, .arg = b };
	b->ready = (struct completion){ .on_done = on_ready, .arg = b };
	s->reboot = b;
	completions_move(&s->when_running, &b->waiters);
	completion_begin(&b->running, s->core->loop, &s->when_running);
}

void session_reboot_free(struct session *s)
{
	struct err e;

	if (s->reboot == NULL)
		return;
	(void)err_set_reason(&e, REASON_GONE, "session %s has ended", s->row.id);
	finish(s->reboot, &e);
}
