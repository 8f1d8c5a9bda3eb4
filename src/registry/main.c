/* main.c - cordon-pull, the process that speaks to registries. Only the order of its start is here.
 *
 * It is started with everything it may use (supervisor_msg.h): its channel to cordond, the node's
 * resolver settings and the CAs that servers are verified by. It reads them, gives up all files,
 * and fetches what cordond asks for. It keeps nothing: if it dies, the pulls under way fail. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "pull_channel.h"
#include "confine_pull.h"
#include "fd_std.h"
#include "given_fds.h"
#include "log.h"
#include "supervisor_msg.h"
#include "tls.h"

/* Private addresses of a registry that the operator named. Metadata services stay out of reach. */
static const char any_policy[] = "{\"default\":\"allow\",\"private\":[\"10.0.0.0/8\","
				 "\"172.16.0.0/12\",\"192.168.0.0/16\",\"100.64.0.0/10\","
				 "\"fc00::/7\",\"127.0.0.0/8\",\"::1\"]}";
static const char public_policy[] = "{\"default\":\"allow\"}";

static int open_tls(struct get_means *m, struct err *e)
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

static int start(struct get_means *m, struct err *e)
{
	int control = given_fds_has(EGRESS_FD_CONTROL) ? EGRESS_FD_CONTROL : -1;

	if (!given_fds_has(EGRESS_FD_CHANNEL))
		return err_set(e, ERR_INVALID, "no channel: cordon-pull is started by cordon");
	m->loop = loop_new(e);
	if (m->loop != NULL)
		m->resolver = given_fds_resolver(m->loop, EGRESS_FD_RESOLV, EGRESS_FD_HOSTS, e);
	if (m->resolver == NULL || open_tls(m, e) < 0)
		return -1;
	if (policy_read(public_policy, strlen(public_policy), POLICY_NODE, &m->public_only, e) <
		    0 ||
	    policy_read(any_policy, strlen(any_policy), POLICY_NODE, &m->any, e) < 0)
		return err_wrap(e, "addresses");
	if (pull_channel_new(m, EGRESS_FD_CHANNEL, control, e) == NULL)
		return -1;
	return confine_pull(e);
}

/* "--start=F:L": format and level of the log, as the numbers of log.h. */
static void read_word(const char *word)
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
		read_word(argv[1]);
	(void)prctl(PR_SET_NAME, "cordon-pull", 0, 0, 0); /* executed by descriptor, without name */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);	  /* its memory holds credentials */
	(void)signal(SIGPIPE, SIG_IGN);
	if (start(&means, &e) < 0) {
		log_error("cordon-pull cannot start", "error=%s", e.msg);
		return SERVE_EXIT_CANNOT_START;
	}
	if (loop_run(means.loop, &e) < 0) {
		log_error("cordon-pull failed", "error=%s", e.msg);
		return 1;
	}
	return 0;
}
