/* execution_prepare.c - see the header. The copy of what was requested holds the environment of the
 * request, which may be confidential, so it is wiped. A daemon that dies meanwhile loses it: PID 1
 * does not know the execution, which is then recorded as killed. */
#include "execution_prepare.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "core_private.h"
#include "execution_deadline.h"
#include "exit_codes.h"
#include "session_parts.h"

struct preparation {
	struct execution *execution;
	struct completion parts[CORE_PARTS_MAX];
	unsigned waiting; /* parts that are not ready */
	struct err failed;
	struct execution_spec spec; /* its texts are in `texts` */
	struct buf texts;
};

static size_t put(struct buf *to, const char *text, size_t len)
{
	size_t at = to->len;

	buf_put(to, text == NULL ? "" : text, text == NULL ? 0 : len);
	buf_put(to, "", 1);
	return at;
}

static void copy_spec(struct preparation *p, const struct execution_spec *spec)
{
	size_t strings, cwd, user;
	struct err e;

	buf_init(&p->texts, 2 * (size_t)AGENT_REQUEST_MAX);
	p->texts.secret = true;
	strings = put(&p->texts, spec->strings, spec->strings_len);
	cwd = put(&p->texts, spec->cwd, spec->cwd == NULL ? 0 : strlen(spec->cwd));
	user = put(&p->texts, spec->user, spec->user == NULL ? 0 : strlen(spec->user));
	p->spec = *spec;
	p->spec.strings = buf_text(&p->texts) + strings;
	p->spec.cwd = buf_text(&p->texts) + cwd;
	p->spec.user = buf_text(&p->texts) + user;
	p->spec.text = p->spec.client = p->spec.secrets = NULL; /* recorded already */
	p->spec.actor = NULL;
	if (buf_check(&p->texts, &e) < 0)
		p->failed = e;
}

void execution_prepare_cancel(struct execution *x)
{
	struct preparation *p = x->preparation;

	if (p == NULL)
		return;
	x->preparation = NULL;
	for (unsigned i = 0; i < CORE_PARTS_MAX; i++)
		completion_cancel(&p->parts[i]);
	buf_release(&p->texts);
	free(p);
}

bool execution_is_preparing(const struct execution *x)
{
	return x->preparation != NULL;
}

void execution_prepare_kill(struct execution *x)
{
	execution_prepare_cancel(x);
	x->killed = true;
	x->row.state = EXECUTION_KILLED;
	x->row.signal = SIGKILL;
	x->row.exit_code = EXIT_SIGNAL + SIGKILL;
	(void)snprintf(x->row.limit, sizeof(x->row.limit), "killed");
	execution_finish(x);
}

static void fail(struct execution *x, const struct err *e)
{
	(void)snprintf(x->why, sizeof(x->why), "%.150s", e->msg);
	execution_give_up(x, x->why);
}

static void send(struct preparation *p)
{
	struct execution *x = p->execution;
	struct session *s = x->session;
	struct err e;

	if (p->failed.code != ERR_NONE) {
		fail(x, &p->failed);
		return;
	}
	if (s->cell == NULL || !s->cell->connected) {
		(void)err_set(&e, ERR_CONFLICT, "session %s has no connection to its cell",
			      s->row.id);
		fail(x, &e);
	} else if (execution_send(x, &p->spec, &e) < 0) {
		fail(x, &e);
	} else {
		execution_prepare_cancel(x);
	}
}

static void on_ready(struct completion *w, const struct err *e)
{
	struct preparation *p = w->arg;

	if (e != NULL && p->failed.code == ERR_NONE)
		p->failed = *e;
	if (--p->waiting == 0)
		send(p);
}

bool execution_prepare(struct execution *x, const struct execution_spec *spec)
{
	struct preparation *p;

	if (x->row.secrets == NULL || x->row.secrets[0] == '\0')
		return false; /* nothing else needs preparation */
	p = calloc(1, sizeof(*p));
	assert(p != NULL);
	p->execution = x;
	for (unsigned i = 0; i < CORE_PARTS_MAX; i++)
		p->parts[i] = (struct completion){ .on_done = on_ready, .arg = p };
	x->preparation = p;
	p->waiting = session_parts_prepare(x->session, x, p->parts);
	if (p->waiting == 0) {
		execution_prepare_cancel(x);
		return false;
	}
	copy_spec(p, spec);
	return true;
}
