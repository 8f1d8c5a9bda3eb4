/* role_egress.c - starts a cordon-egress: as a user of its own, with the authorities and the
 * resolver settings of the node. It and cordond are independent of each other: whichever of the two
 * is new, a new channel C is made and each gets an end of it. While it runs, it is given
 * resolv.conf and hosts again whenever one of them has changed. Processes of cordon-egress know
 * nothing of each other but how many there are. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "egress_start.h"
#include "io.h"
#include "log.h"
#include "supervisor.h"

#define LOOK_MS 5000

int role_egress_check(const struct serve *s, struct err *e)
{
	const char *ca = s->config.egress_ca;

	if (ca[0] != '\0' && access(ca, R_OK) < 0)
		return err_sys(e, "egress_ca: %s", ca);
	return 0;
}

static struct file_stamp stamp(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return (struct file_stamp){ 0 };
	return (struct file_stamp){ .device = st.st_dev,
				    .file = st.st_ino,
				    .size = st.st_size,
				    .s = st.st_mtim.tv_sec,
				    .ns = st.st_mtim.tv_nsec };
}

static bool is_same(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->device == b->device && a->file == b->file && a->size == b->size && a->s == b->s &&
	       a->ns == b->ns;
}

/* Called before the files are read, so that a change in between is seen at the next look. */
static bool renew_stamps(struct worker *w)
{
	const struct file_stamp now[2] = { stamp("/etc/resolv.conf"), stamp("/etc/hosts") };
	bool changed = false;

	for (size_t i = 0; i < COUNT(now); i++) {
		changed = changed || !is_same(&w->stamps[i], &now[i]);
		w->stamps[i] = now[i];
	}
	w->look_ns = clock_now_ns() + LOOK_MS * CLOCK_MS;
	return changed;
}

int role_egress_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	const struct role_identity who = role_identity(s, w->role);

	(void)renew_stamps(w);
	role_advisories_forget(w);
	return egress_start(&(struct egress_start){ .control = control,
						    .channel = -1,
						    .authority = s->authority_fd,
						    .ca = s->config.egress_ca,
						    .log_format = s->config.log_format,
						    .log_level = s->config.log_level,
						    .processes = s->setup.negress,
						    .drop = who.drop,
						    .uid = who.uid,
						    .gid = who.gid },
			    &w->child.pid, e);
}

int role_egress_join(struct supervisor *v, struct worker *w, struct err *e)
{
	const char word = EGRESS_CONTROL_CHANNEL;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel C");
	OWN_FD daemon_end = ends[0], egress_end = ends[1];
	/* Before the first session: none may install what the list refuses. */
	role_advisories_forget(w);
	(void)role_advisories_look(v, w);
	if (io_send(w->control, &word, 1, &egress_end, 1, e) < 0)
		return err_wrap(e, "channel C");
	return supervisor_give(v, w, SERVE_EGRESS, daemon_end, e) < 0 ? err_wrap(e, "channel C")
								      : 0;
}

uint64_t role_egress_look(struct supervisor *v, struct worker *w)
{
	const char word = EGRESS_CONTROL_NAMES;
	int fds[2];
	struct err e;

	(void)v;
	if (w->control < 0)
		return UINT64_MAX;
	if (clock_now_ns() < w->look_ns || !renew_stamps(w))
		return w->look_ns;
	egress_start_names(fds);
	if (io_send(w->control, &word, 1, fds, 2, &e) < 0)
		log_warn("cannot send resolv.conf and hosts to a program", "program=%s error=%s",
			 w->role->program, e.msg);
	io_close_all(fds, 2);
	return w->look_ns;
}

uint64_t role_egress_look_all(struct supervisor *v, struct worker *w)
{
	uint64_t names = role_egress_look(v, w), list = role_advisories_look(v, w);

	return names < list ? names : list;
}
