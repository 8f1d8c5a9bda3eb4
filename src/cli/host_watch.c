/* host_watch.c - notices that the machine's packages have changed, and gives new sessions the
 * template "host" as it is now. Called by the supervisor through the first keeper's look.
 *
 * /usr of that template is the machine's own, its /etc a copy (template/host.c). So after an
 * installation the two would not belong together. Every LOOK_MS the files that the copy is made of,
 * and the databases of package managers, are compared by their times and sizes. When they have
 * changed, and not since the last look (an installation goes on for a while), the copy is made
 * again, under another name: cells that live keep theirs. The keepers are replaced by ones that
 * have the new directory, and cordond is told to make a new version of the template, which ends the
 * cells that were made in advance. */
#include "host_watch.h"

#include <signal.h>

#include "clock.h"
#include "io.h"
#include "log.h"
#include "supervisor.h"

#define LOOK_MS 2000

static bool is_keeper(const struct worker *w)
{
	return w->role->start == role_keeper_start;
}

/* The layers have the same numbers among the keepers' roots as before. */
static int take_template(struct serve *s, struct err *e)
{
	struct template now;

	if (template_open("host", &s->authority, &now, e) < 0)
		return -1;
	if (now.nlayers != s->template.nlayers) {
		template_release(&now);
		return err_set(e, ERR_UNSUPPORTED, "the machine has other top directories");
	}
	for (uint32_t i = 0; i < now.nlayers; i++)
		s->roots[s->setup.host.roots[i]].fd = now.fds[i];
	template_release(&s->template);
	s->template = now;
	return 0;
}

static void renew(struct supervisor *v, uint64_t stamp)
{
	struct err e;

	v->host.stamp = stamp;
	if (take_template(v->s, &e) < 0) {
		log_error("the template host stays as it was, although packages have changed; a "
			  "restart of the server makes it again",
			  "error=%s", e.msg);
		return;
	}
	log_info("packages of the machine have changed: new sessions have them", "template=%s",
		 "host");
	for (unsigned i = 0; i < v->nworkers; i++)
		if (is_keeper(&v->workers[i]) && v->workers[i].child.pid != 0) {
			(void)kill(v->workers[i].child.pid, SIGKILL);
			child_process_plan_again(&v->workers[i].child);
		}
	v->host.tell = true;
}

/* When all keepers are new ones: what cordond asks for then is made of the new directory. */
static void tell(struct supervisor *v)
{
	const char message[SERVE_MESSAGE] = { SERVE_HOST, 0 };
	struct err e;

	for (unsigned i = 0; i < v->nworkers; i++)
		if (is_keeper(&v->workers[i]) && v->workers[i].child.pid == 0)
			return;
	if (v->daemon->control >= 0 &&
	    io_send(v->daemon->control, message, sizeof(message), NULL, 0, &e) == 0)
		v->host.tell = false;
}

uint64_t host_watch_look(struct supervisor *v)
{
	uint64_t now = clock_now_ns(), stamp;

	if (v->host.tell)
		tell(v);
	if (now < v->host.look_ns)
		return v->host.look_ns;
	stamp = host_stamp(&v->s->authority);
	if (v->host.look_ns == 0)
		v->host.stamp = stamp;
	else if (stamp != v->host.stamp && stamp == v->host.seen)
		renew(v, stamp);
	v->host.seen = stamp;
	v->host.look_ns = now + LOOK_MS * CLOCK_MS;
	return v->host.tell ? now : v->host.look_ns;
}
