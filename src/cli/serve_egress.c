#include "serve_egress.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "clock.h"
#include "egress_start.h"
#include "io.h"
#include "log.h"

#define LOOK_MS 5000

int serve_egress_check(const struct serve *s, struct err *e)
{
	const char *ca = s->config.egress_ca;

	if (ca[0] != '\0' && access(ca, R_OK) < 0)
		return err_sys(e, "egress_ca: %s", ca);
	return 0;
}

void serve_egress_init(struct serve_egress *g)
{
	*g = (struct serve_egress){ .child = { .name = "cordon-egress" }, .control = -1 };
}

static struct serve_stamp stamp(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return (struct serve_stamp){ 0 };
	return (struct serve_stamp){ .device = st.st_dev,
				     .file = st.st_ino,
				     .size = st.st_size,
				     .s = st.st_mtim.tv_sec,
				     .ns = st.st_mtim.tv_nsec };
}

static bool is_same(const struct serve_stamp *a, const struct serve_stamp *b)
{
	return a->device == b->device && a->file == b->file && a->size == b->size && a->s == b->s &&
	       a->ns == b->ns;
}

/* Before they are read: a change in between is seen as one. */
static bool renew_stamps(struct serve_egress *g)
{
	const struct serve_stamp now[2] = { stamp("/etc/resolv.conf"), stamp("/etc/hosts") };
	bool changed = false;

	for (size_t i = 0; i < COUNT(now); i++) {
		changed = changed || !is_same(&g->stamps[i], &now[i]);
		g->stamps[i] = now[i];
	}
	g->look_ns = clock_now_ns() + LOOK_MS * CLOCK_MS;
	return changed;
}

int serve_egress_start(struct serve_egress *g, const struct serve *s, struct err *e)
{
	struct egress_start how = { .channel = -1,
				    .authority = s->authority_fd,
				    .ca = s->config.egress_ca,
				    .log_format = s->config.log_format,
				    .log_level = s->config.log_level,
				    .drop = s->root,
				    .uid = s->egress_uid,
				    .gid = s->egress_gid };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "control socket");
	OWN_FD ours = ends[0], its = ends[1];
	how.control = its;
	(void)renew_stamps(g);
	if (egress_start(&how, &g->child.pid, e) < 0)
		return -1;
	io_close_all(&g->control, 1);
	g->control = TAKE_FD(ours);
	return 0;
}

int serve_egress_join(struct serve_egress *g, int daemon, struct err *e)
{
	const char to_egress = EGRESS_CONTROL_CHANNEL, to_daemon = SERVE_EGRESS;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel C");
	OWN_FD orders = ends[0], obeys = ends[1];
	if (io_send(g->control, &to_egress, 1, &obeys, 1, e) < 0)
		return err_wrap(e, "channel C");
	return io_send(daemon, &to_daemon, 1, &orders, 1, e) < 0 ? err_wrap(e, "channel C") : 0;
}

uint64_t serve_egress_look(struct serve_egress *g)
{
	const char word = EGRESS_CONTROL_NAMES;
	int fds[2];
	struct err e;

	if (g->child.pid == 0 || g->control < 0)
		return UINT64_MAX;
	if (clock_now_ns() < g->look_ns || !renew_stamps(g))
		return g->look_ns;
	egress_start_names(fds);
	if (io_send(g->control, &word, 1, fds, 2, &e) < 0)
		log_warn("egress did not get resolv.conf and hosts", "error=%s", e.msg);
	io_close_all(fds, 2);
	return g->look_ns;
}

void serve_egress_let_go(struct serve_egress *g)
{
	io_close_all(&g->control, 1);
}
