/* main.c - cordon-pull, the process that speaks to registries: the order of its start, its channel
 * to cordond (pull_msg.h), and its socket to the supervisor. It ends with either.
 *
 * It is started with everything it may use (supervisor_msg.h): its channel to cordond, the node's
 * resolver settings and the CAs that servers are verified by. It reads them, gives up all files,
 * and fetches what cordond asks for. It keeps nothing: if it dies, the open pulls fail. */
#include <linux/filter.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "lib/base/confine.h"
#include "lib/base/fd_std.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/channel/channel.h"
#include "lib/net/tls.h"
#include "lib/outbound/given_fds.h"
#include "lib/wire/supervisor_msg.h"
#include "pull/get.h"
#include "pull/pull.h"
#include "pull_program.h"

/* ---- the channel to cordond
 *
 * The descriptor of a PULL_BLOB comes with its frame. Answers are queued and sent as the socket
 * takes them. cordond bounds the number of pulls, and pull.c bounds it as well, so the queue is
 * bounded. */

struct pull_channel {
	const struct get_means *means;
	struct pulls pulls;
	struct channel channel;
	int control; /* owned. -1: none */
	struct loop_fd control_watch;
};

static void on_report(void *arg, const struct pull_msg *m)
{
	struct pull_channel *c = arg;
	size_t cap = FRAME_HEAD + 1024 + m->len;
	OWN_MEM uint8_t *bytes = malloc(cap);
	int n = bytes == NULL ? -1 : pull_msg_write(m, bytes, cap);
	struct err e;

	if (n < 0 ||
	    channel_send(&c->channel, &(struct channel_msg){ .bytes = bytes, .len = (size_t)n },
			 &e) < 0) {
		/* Without the answer cordond would wait forever. */
		log_error("no memory for an answer to cordond", "");
		loop_stop(c->means->loop);
	}
}

static int on_message(struct channel *channel, const struct channel_got *got, struct err *e)
{
	const struct pull_msg pong = { .type = PULL_PONG };
	struct pull_channel *c = channel->arg;
	struct pull_msg m;
	int fd = -1;

	if (pull_msg_read(&got->frame, &m, e) < 0)
		return -1;
	if (m.type >= PULL_REQUESTS_END)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	if (m.type == PULL_BLOB) {
		fd = channel_take_fd(channel);
		if (fd < 0)
			return err_set(e, ERR_INVALID, "a blob without its descriptor");
	}
	if (m.type == PULL_PING)
		on_report(c, &pong);
	else
		pulls_handle(&c->pulls, &m, fd);
	return 0;
}

static void on_end(struct channel *channel, enum channel_end how, const char *why)
{
	struct pull_channel *c = channel->arg;

	if (how != CHANNEL_CLOSED)
		log_error("channel to cordond failed", "error=%s", why);
	loop_stop(c->means->loop);
}

/* ---- the supervisor */

static void on_control(struct loop_fd *f, uint32_t events)
{
	struct pull_channel *c = f->arg;
	int fds[2] = { -1, -1 };
	size_t nfds = 0;
	char type = 0;
	struct err e = { 0 };
	ssize_t n = io_recv(f->fd, &type, 1, fds, 2, &nfds, &e);

	if (n <= 0) {
		loop_stop(c->means->loop);
		return;
	}
	if (type == EGRESS_CONTROL_NAMES && nfds == 2) {
		char *conf = read_file(fds[0], READ_FILE_MAX);
		char *hosts = read_file(fds[1], READ_FILE_MAX);

		if (conf != NULL && hosts != NULL)
			resolver_renew(c->means->resolver, conf, hosts);
		free(conf);
		free(hosts);
	}
	io_close_all(fds, nfds);
}

static void pull_channel_free(struct pull_channel *c)
{
	pulls_release(&c->pulls);
	loop_remove(c->means->loop, &c->control_watch);
	channel_release(&c->channel);
	io_close_all(&c->control, 1);
	free(c);
}

/* sock and control are taken over. Control may be -1. NULL: *e says why. */
static struct pull_channel *pull_channel_new(const struct get_means *means, int sock, int control,
					     struct err *e)
{
	static const struct channel_rules rules = { .peer = "cordond",
						    .framed = true,
						    .in_max = PULL_REQUEST_MAX,
						    .fds_max = CHANNEL_FDS_MAX };
	struct pull_channel *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	c->means = means;
	c->pulls = (struct pulls){ .means = means, .on_report = on_report, .arg = c };
	c->control = control;
	c->control_watch = (struct loop_fd){ .fd = -1, .on_ready = on_control, .arg = c };
	channel_init(&c->channel, means->loop, &rules);
	c->channel.arg = c;
	c->channel.on_message = on_message;
	c->channel.on_end = on_end;
	if (channel_attach(&c->channel, sock, e) < 0 ||
	    (control >= 0 && loop_add(means->loop, &c->control_watch, control, EPOLLIN, e) < 0)) {
		pull_channel_free(c);
		return NULL;
	}
	return c;
}

/* ---- the start */

/* Private addresses of a registry that the operator named. Metadata services stay out of reach. */
static const char any_policy[] = "{\"default\":\"allow\",\"private\":[\"10.0.0.0/8\","
				 "\"172.16.0.0/12\",\"192.168.0.0/16\",\"100.64.0.0/10\","
				 "\"fc00::/7\",\"127.0.0.0/8\",\"::1\"]}";
static const char public_policy[] = "{\"default\":\"allow\"}";

static int main_open_tls(struct get_means *m, struct err *e)
{
	char *bundle = given_fds_read(EGRESS_FD_BUNDLE), *extra = given_fds_read(EGRESS_FD_EXTRA);

	(void)err_set(e, ERR_INVALID, "CA certificates: unreadable, or longer than 4 MiB");
	m->tls = bundle == NULL || extra == NULL ? NULL
						 : tls_client_new_pem(bundle, strlen(bundle), e);
	if (m->tls != NULL && extra[0] != '\0' &&
	    tls_client_trust(m->tls, extra, strlen(extra), e) < 0) {
		tls_free(m->tls);
		m->tls = NULL;
	}
	free(bundle);
	free(extra);
	return m->tls == NULL ? -1 : 0;
}

static int main_start(struct get_means *m, struct err *e)
{
	int control = given_fds_has(EGRESS_FD_CONTROL) ? EGRESS_FD_CONTROL : -1;

	if (!given_fds_has(EGRESS_FD_CHANNEL))
		return err_set(e, ERR_INVALID, "no channel: cordon-pull is started by cordon");
	m->loop = loop_new(e);
	if (m->loop != NULL)
		m->resolver = given_fds_resolver(m->loop, EGRESS_FD_RESOLV, EGRESS_FD_HOSTS, e);
	if (m->resolver == NULL || main_open_tls(m, e) < 0)
		return -1;
	if (policy_read(public_policy, strlen(public_policy), POLICY_NODE, &m->public_only, e) <
		    0 ||
	    policy_read(any_policy, strlen(any_policy), POLICY_NODE, &m->any, e) < 0)
		return err_wrap(e, "addresses");
	if (pull_channel_new(m, EGRESS_FD_CHANNEL, control, e) == NULL)
		return -1;
	/* No file, no port to listen at. */
	if (confine_files(&(struct confine_table){ .net = LANDLOCK_NET_BIND }, e) < 0)
		return -1;
	return confine_calls(seccomp_pull, COUNT(seccomp_pull), e);
}

/* "--start=F:L": format and level of the log, as the numbers of log.h. */
static void main_read_word(const char *word)
{
	static const char name[] = "--start=";
	unsigned format, level;

	if (strncmp(word, name, strlen(name)) != 0 || strlen(word) < strlen(name) + 3)
		return;
	format = (unsigned)(word[strlen(name)] - '0');
	level = (unsigned)(word[strlen(name) + 2] - '0');
	if (format < LOG_FORMATS && level < LOG_LEVELS)
		log_setup((enum log_format)format, (enum log_level)level);
}

int main(int argc, char **argv)
{
	static struct get_means means;
	struct err e = { 0 };

	fd_std_fill();
	given_fds_find(EGRESS_FD_CONTROL, EGRESS_FDS_END);
	if (argc == 2)
		main_read_word(argv[1]);
	(void)prctl(PR_SET_NAME, "cordon-pull", 0, 0, 0); /* executed by descriptor, without name */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);	  /* its memory holds credentials */
	(void)signal(SIGPIPE, SIG_IGN);
	if (main_start(&means, &e) < 0) {
		log_error("cordon-pull cannot start", "error=%s", e.msg);
		return SERVE_EXIT_CANNOT_START;
	}
	if (loop_run(means.loop, &e) < 0) {
		log_error("cordon-pull failed", "error=%s", e.msg);
		return 1;
	}
	return 0;
}
