#include "cmd/run/run_net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "cmd/base/egress_start.h"
#include "cmd/run/run_policy.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/base/untrusted_fd.h"
#include "lib/wire/egress_msg.h"

#define SNMP_MAX 8192
#define HOST_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:"

/* The value of a member, if it can be a host. The text comes from the cell. */
static bool host_of(const char *record, const char *member, char ret[RUN_REFUSED_HOST])
{
	const char *at = strstr(record, member);
	size_t n = at == NULL ? 0 : strspn(at + strlen(member), HOST_CHARS);

	if (n == 0 || n >= RUN_REFUSED_HOST || at[strlen(member) + n] != '"')
		return false;
	memcpy(ret, at + strlen(member), n);
	ret[n] = '\0';
	return true;
}

/* Take a record of cordon-egress about a refusal. */
static void run_refused_take(struct run_refused *r, const char *record)
{
	char host[RUN_REFUSED_HOST];

	if (!host_of(record, "\"name\":\"", host) && !host_of(record, "\"address\":\"", host))
		return;
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->hosts[i], host) == 0)
			return;
	if (r->n == RUN_REFUSED_SHOWN)
		r->more = true;
	else
		memcpy(r->hosts[r->n++], host, sizeof(host));
}

/* "Udp: InDatagrams NoPorts ...", then "Udp: 0 12 ...": datagrams that no program waited for. In a
 * cell without network access these are questions for names. */
void run_refused_look(struct run_refused *r, int pidfd)
{
	char path[64], text[SNMP_MAX];
	unsigned long long in, unanswered;
	const char *at;
	struct err e;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	if (pidfd < 0 || io_read_file(AT_FDCWD, path, text, sizeof(text), &e) < 0 ||
	    (at = strstr(text, "Pid:")) == NULL)
		return;
	(void)snprintf(path, sizeof(path), "/proc/%ld/net/snmp", strtol(at + 4, NULL, 10));
	if (io_read_file(AT_FDCWD, path, text, sizeof(text), &e) < 0 ||
	    (at = strstr(text, "\nUdp: InDatagrams NoPorts ")) == NULL ||
	    (at = strstr(at + 1, "\nUdp: ")) == NULL)
		return;
	if (sscanf(at, "\nUdp: %llu %llu", &in, &unanswered) == 2 && unanswered > 0)
		r->tried = true;
}

void run_refused_say(const struct run_refused *r)
{
	if (r->tried)
		(void)fputs("cordon: the command has no network: --allow HOST gives it one host, "
			    "--policy a preset (cordon policy presets)\n",
			    stderr);
	if (r->n == 0)
		return;
	(void)fprintf(stderr, "cordon: the network policy refused %s%s%s%s%s%s", r->hosts[0],
		      r->n > 1 ? ", " : "", r->hosts[1], r->n > 2 ? ", " : "", r->hosts[2],
		      r->more ? ", ..." : "");
	(void)fprintf(stderr, "; to allow hosts: --allow %s, or a preset (cordon policy presets)\n",
		      r->hosts[0]);
}

#define ATTACH_MS 10000
#define END_MS 2000
#define IN_MAX ((size_t)2 * EGRESS_PROMPT_MAX)
#define READ_AT_ONCE 65536
#define LOG_MAX (16U << 20) /* bytes of records printed at the end */
#define NOBODY 65534

void run_net_init(struct run_net *n)
{
	*n = (struct run_net){ .sock = -1, .log = -1, .authority = { .fd = -1 } };
	buf_init(&n->in, IN_MAX);
	buf_init(&n->order, EGRESS_TEXT_MAX);
}

/* With "-" the records are printed after the command's output, and not in the middle. */
static bool log_is_late(const struct run_net *n)
{
	return n->o->net_log != NULL && strcmp(n->o->net_log, "-") == 0;
}

/* Lines to print at the end wait in memory. */
static int open_log(struct run_net *n, struct err *e)
{
	const char *path = n->o->net_log;

	if (path == NULL)
		return 0;
	n->log = log_is_late(n) ? memfd_create("net-log", MFD_CLOEXEC)
				: open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return n->log < 0 ? err_sys(e, "--net-log %.120s", path) : 0;
}

/* As root cordon-egress becomes the user cordon-net, or the user "nobody" where there is no
 * cordon-net. For an ordinary user it keeps that user's ids. */
static int run_net_start(struct run_net *n, struct err *e)
{
	const struct passwd *user = getuid() == 0 ? getpwnam("cordon-net") : NULL;
	struct egress_start how = {
		.control = -1,
		.authority = n->authority.fd,
		.ca = n->o->egress_ca == NULL ? "" : n->o->egress_ca,
		.log_level = LOG_LEVEL_ERROR, /* what matters comes over the channel */
		.processes = 1,
		.drop = getuid() == 0,
		.uid = user == NULL ? NOBODY : user->pw_uid,
		.gid = user == NULL ? NOBODY : user->pw_gid
	};
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel C");
	n->sock = ends[0];
	OWN_FD egress_end = ends[1];
	how.channel = egress_end;
	return egress_start(&how, &n->pid, e);
}

/* No process starts here: a mistake in the options shows before anything runs. cordon-egress
 * checks the policy itself later. */
int run_net_check(struct run_net *n, const struct run_options *o, struct run_result_network *result,
		  struct err *e)
{
	n->o = o;
	n->result = result;
	result->wanted = run_policy_is_wanted(o);
	if (!result->wanted)
		return 0;
	if (o->egress_ca != NULL && access(o->egress_ca, R_OK) < 0)
		return err_sys(e, "--egress-ca %.120s", o->egress_ca);
	return open_log(n, e) < 0 ? -1 : run_policy_write(o, &n->order, e);
}

/* The authority comes first, because the template of the cell contains its certificate. */
int run_net_open(struct run_net *n, const struct node_ca **ret, struct err *e)
{
	*ret = NULL;
	if (!n->result->wanted)
		return 0;
	if (authority_make(&n->authority, e) < 0)
		return -1;
	*ret = &n->authority;
	return run_net_start(n, e);
}

/* ---- messages of cordon-egress */

/* The number behind `name` in a JSON text of cordon-egress. 0 if the text has none. */
static uint64_t run_net_number(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

static void take_refused(struct run_net *n, const char *text)
{
	n->result->refused++;
	run_refused_take(&n->refused, text);
}

/* A log that cannot be written any more is closed. The command continues: its network access
 * does not depend on the log. */
static void take_record(struct run_net *n, const char *text)
{
	struct err e;
	off_t have = log_is_late(n) ? lseek(n->log, 0, SEEK_CUR) : 0;

	/* Quotes inside of a value have backslashes. */
	if (strstr(text, "\"verdict\":\"deny\"") != NULL)
		take_refused(n, text);
	if (n->log < 0 || have > (off_t)LOG_MAX)
		return;
	if (io_write_all(n->log, text, strlen(text), &e) < 0 ||
	    io_write_all(n->log, "\n", 1, &e) < 0)
		io_close_all(&n->log, 1);
}

/* Each message has totals, so the last one stays. */
static void take_counts(struct run_net *n, const char *text)
{
	n->result->requests = run_net_number(text, "\"requests\":");
	n->result->connections = run_net_number(text, "\"connections\":");
	n->result->bytes =
		run_net_number(text, "\"bytes_in\":") + run_net_number(text, "\"bytes_out\":");
}

/* Take the next arrived frame, as text with a NUL: 1. 0: none. -1: not a frame. */
static int run_net_next(struct run_net *n, struct egress_msg *ret, char **ret_text, struct err *e)
{
	struct frame f;
	int used = frame_read(n->in.data, n->in.len, EGRESS_ID_MAX + EGRESS_PROMPT_MAX, &f, e);

	if (used <= 0)
		return used;
	if (egress_msg_read(&f, ret, e) < 0)
		return -1;
	*ret_text = strndup(ret->text == NULL ? "" : ret->text, ret->len);
	buf_consume(&n->in, (size_t)used);
	return *ret_text == NULL ? err_sys(e, "memory") : 1;
}

/* Read all arrived frames. Stop after a TAKEN, and return its text in *ret_taken. */
static int take_all(struct run_net *n, char **ret_taken, struct err *e)
{
	struct egress_msg m;
	char *text;
	int got;

	while ((got = run_net_next(n, &m, &text, e)) > 0) {
		if (m.type == EGRESS_TAKEN && ret_taken != NULL) {
			*ret_taken = text;
			return 0;
		}
		if (m.type == EGRESS_RECORD)
			take_record(n, text);
		if (m.type == EGRESS_COUNTS)
			take_counts(n, text);
		free(text);
	}
	return got;
}

/* Read bytes that arrive within that time: > 0, 0 at the end, -1. */
static ssize_t run_net_pull(struct run_net *n, int ms)
{
	struct pollfd fd = { .fd = n->sock, .events = POLLIN };
	struct err e;
	uint8_t *to = buf_reserve(&n->in, READ_AT_ONCE, &e);

	if (to == NULL || n->sock < 0 || poll(&fd, 1, ms) <= 0)
		return -1;
	ssize_t got = recv(n->sock, to, READ_AT_ONCE, MSG_DONTWAIT);
	if (got > 0)
		buf_commit(&n->in, (size_t)got);
	return got;
}

/* The cell has no network access any more. Its connections fail as with a broken network. */
static void lose_network(struct run_net *n, const char *why)
{
	(void)fprintf(stderr, "cordon: the cell has no network access any more: %s\n", why);
	io_close_all(&n->sock, 1);
}

void run_net_receive(struct run_net *n)
{
	struct err e = { 0 };
	ssize_t got = run_net_pull(n, 0);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		lose_network(n, "cordon-egress has ended");
	else if (got > 0 && take_all(n, NULL, &e) < 0)
		lose_network(n, e.msg);
}

/* ---- network access of the cell */

/* Send a frame, and the policy behind it with ATTACH. The descriptors travel with the head. The
 * socket blocks, so the rest follows at the reader's speed. */
static int send_frame(struct run_net *n, enum egress_type type, const char *id, const int *fds,
		      size_t nfds, struct err *e)
{
	uint8_t head[EGRESS_HEAD];
	size_t len = type == EGRESS_ATTACH ? n->order.len : 0;

	egress_msg_head(head, type, id, len);
	if (io_send(n->sock, head, sizeof(head), fds, nfds, e) < 0)
		return -1;
	for (size_t at = 0; at < len;) {
		ssize_t sent = send(n->sock, n->order.data + at, len - at, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			return err_sys(e, "channel C");
		at += sent > 0 ? (size_t)sent : 0;
	}
	return 0;
}

/* Send the listeners and the policy, then wait for TAKEN. An empty text there means that the
 * policy is in force. Another text is the reason against it. */
static int run_net_send_attach(struct run_net *n, const char *id, const int listeners[2],
			       struct err *e)
{
	uint64_t until = clock_now_ns() + ATTACH_MS * CLOCK_MS;
	OWN_MEM char *taken = NULL;

	str_copy(n->id, id);
	if (send_frame(n, EGRESS_ATTACH, id, listeners, 2, e) < 0)
		return err_wrap(e, "cordon-egress");
	while (taken == NULL && clock_now_ns() < until) {
		ssize_t got = run_net_pull(n, 100);

		if (got == 0)
			return err_set(e, ERR_SYSTEM, "cordon-egress has ended");
		if (take_all(n, &taken, e) < 0)
			return err_wrap(e, "cordon-egress");
	}
	if (taken == NULL)
		return err_set(e, ERR_SYSTEM, "cordon-egress does not answer");
	return taken[0] == '\0' ? 0 : err_set(e, ERR_INVALID, "%.200s", taken);
}

int run_net_attach(struct run_net *n, const char *id, struct agent *agent, int sys, struct err *e)
{
	int attached, listeners[2];

	if (sys == EOPNOTSUPP)
		return err_set(e, ERR_UNSUPPORTED,
			       "--allow: cells cannot have network access on this machine; see "
			       "cordon doctor");
	errno = sys;
	if (sys != 0 || agent->nfds != COUNT(listeners))
		return err_sys(e, "open the listeners of the cell's network access");
	memcpy(listeners, agent->fds, sizeof(listeners));
	agent->nfds = 0;
	attached = run_net_send_attach(n, id, listeners, e);
	untrusted_close(listeners, COUNT(listeners));
	return attached;
}

/* ---- the end */

/* pread() leaves the position of the descriptor alone. */
static void print_log(const struct run_net *n)
{
	char bytes[4096];
	off_t at = 0;
	ssize_t got;
	struct err e;

	while ((got = pread(n->log, bytes, sizeof(bytes), at)) > 0) {
		IGNORED(io_write_all(STDERR_FILENO, bytes, (size_t)got, &e),
			"standard error is closed");
		at += got;
	}
}

/* A cordon-egress that does not end in time is killed. */
static void wait_for(pid_t pid)
{
	uint64_t until = clock_now_ns() + END_MS * CLOCK_MS;

	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (clock_now_ns() > until)
			(void)kill(pid, SIGKILL);
		(void)poll(NULL, 0, 2);
	}
}

/* Detach, let cordon-egress end, read its last records, and only then print and close the log. */
void run_net_close(struct run_net *n)
{
	struct err e;

	if (n->sock >= 0) {
		/* cordon-egress sends its last records, and ends. */
		if (n->id[0] != '\0')
			IGNORED(send_frame(n, EGRESS_DETACH, n->id, NULL, 0, &e), "it is gone");
		(void)shutdown(n->sock, SHUT_WR);
		while (run_net_pull(n, END_MS) > 0 && take_all(n, NULL, &e) == 0)
			;
	}
	io_close_all(&n->sock, 1);
	if (n->pid > 0)
		wait_for(n->pid);
	n->pid = 0;
	if (n->log >= 0 && log_is_late(n))
		print_log(n);
	io_close_all(&n->log, 1);
	node_ca_release(&n->authority);
	buf_release(&n->in);
	buf_release(&n->order);
}
