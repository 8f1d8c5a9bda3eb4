/* main.c - cordon-egress, the process that all network access of cells goes through. Only the
 * order of its start is here.
 *
 * It is started with everything it may use (supervisor_msg.h): the channel to cordond, the node's
 * resolver settings, the CAs that servers are verified by, and the CA that cells trust. It reads
 * them, gives up all files, and serves DNS queries, connections and requests of its sessions, each
 * by its own policy. If it dies, cells have no network until it is restarted. */
#include <linux/filter.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "egress/control/ca_create.h"
#include "egress/control/control_channel.h"
#include "egress/flow/handshakes.h"
#include "egress/packages/package_gate.h"
#include "egress/secrets/secrets.h"
#include "egress_program.h"
#include "lib/base/confine.h"
#include "lib/base/fd_std.h"
#include "lib/base/log.h"
#include "lib/net/leaf_certs.h"
#include "lib/net/tls.h"
#include "lib/outbound/given_fds.h"
#include "lib/outbound/resolver.h"
#include "lib/wire/supervisor_msg.h"

static unsigned processes = 1; /* of cordon-egress on this node */

/* Concatenates the CA certificates of the system and those of the operator. */
static char *main_join(const char *a, const char *b)
{
	size_t n = strlen(a) + strlen(b) + 2;
	char *both = malloc(n);

	if (both != NULL)
		(void)snprintf(both, n, "%s\n%s", a, b);
	return both;
}

/* The error is set before the call, because a missing text gives no error of its own.
 * tls_client_new_pem() writes over it. */
static int open_server_tls(struct egress *egress, struct err *e)
{
	char *bundle = given_fds_read(EGRESS_FD_BUNDLE), *extra = given_fds_read(EGRESS_FD_EXTRA);
	char *both = bundle == NULL || extra == NULL ? NULL : main_join(bundle, extra);

	(void)err_set(e, ERR_INVALID, "CA certificates: unreadable, or longer than 4 MiB");
	egress->server_tls = both == NULL ? NULL : tls_client_new_pem(both, strlen(both), e);
	free(bundle);
	free(extra);
	free(both);
	return egress->server_tls == NULL ? -1 : 0;
}

/* The text is the CA's private key, so it is wiped here. */
static int open_leaf_certs(struct egress *egress, struct err *e)
{
	char *pem = given_fds_read(EGRESS_FD_CA);

	(void)err_set(e, ERR_INVALID, "egress CA: unreadable");
	egress->leaf_certs = pem == NULL ? NULL : leaf_certs_new(pem, e);
	if (pem != NULL)
		explicit_bzero(pem, strlen(pem));
	free(pem);
	return egress->leaf_certs == NULL ? -1 : 0;
}

/* Confinement comes last: it covers all work for cells and none of these steps. A failure ends the
 * process, so nothing is released. */
static int main_start(struct egress *egress, struct err *e)
{
	int control = given_fds_has(EGRESS_FD_CONTROL) ? EGRESS_FD_CONTROL : -1;
	int sock = given_fds_has(EGRESS_FD_CHANNEL) ? EGRESS_FD_CHANNEL : -1;
	struct rlimit files;

	if (control < 0 && sock < 0)
		return err_set(e, ERR_INVALID, "no channel: cordon-egress is started by cordon");
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	secrets_prepare();
	egress->package_begin = package_gate_begin;
	egress->package_refused = package_gate_refused;
	egress->package_stays = package_gate_stays;
	egress->loop = loop_new(e);
	resource_share_init(&egress->shares, egress->loop,
			    getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 0, processes);
	if (egress->loop != NULL)
		egress->resolver =
			given_fds_resolver(egress->loop, EGRESS_FD_RESOLV, EGRESS_FD_HOSTS, e);
	if (egress->resolver == NULL || open_server_tls(egress, e) < 0 ||
	    open_leaf_certs(egress, e) < 0)
		return -1;
	resolver_divide(egress->resolver, processes);
	egress->handshakes = handshakes_new(egress);
	if (egress->handshakes == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (control_channel_new(egress, sock, control, e) == NULL)
		return -1;
	/* No file, no port to listen at: all files were read, and no byte of a cell or a server. */
	if (confine_files(&(struct confine_table){ .net = LANDLOCK_NET_BIND }, e) < 0)
		return -1;
	return confine_calls(seccomp_egress, COUNT(seccomp_egress), e);
}

/* "--start=F:L:N": format and level of the log, as the numbers of log.h, and how many processes of
 * cordon-egress the node has. A word in another form leaves the defaults. */
static void read_word(const char *word)
{
	static const char name[] = "--start=";
	unsigned format, level, n;

	if (strncmp(word, name, strlen(name)) != 0 || strlen(word) != strlen(name) + 5)
		return;
	format = (unsigned)(word[strlen(name)] - '0');
	level = (unsigned)(word[strlen(name) + 2] - '0');
	n = (unsigned)(word[strlen(name) + 4] - '0');
	if (format < LOG_FORMATS && level < LOG_LEVELS)
		log_setup((enum log_format)format, (enum log_level)level);
	if (n >= 1 && n <= SERVE_EGRESS_MAX)
		processes = n;
}

int main(int argc, char **argv)
{
	static struct egress egress;
	struct err e = { 0 };

	fd_std_fill();
	given_fds_find(EGRESS_FD_CONTROL, EGRESS_FDS_END);
	if (argc == 2 && strcmp(argv[1], "--create-ca") == 0)
		return ca_create();
	if (argc == 2)
		read_word(argv[1]);
	(void)prctl(PR_SET_NAME, "cordon-egress", 0, 0,
		    0);				  /* executed by descriptor, it has no name */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* its memory holds secrets */
	(void)signal(SIGPIPE, SIG_IGN);
	if (main_start(&egress, &e) < 0) {
		log_error("cordon-egress cannot start", "error=%s", e.msg);
		return SERVE_EXIT_CANNOT_START;
	}
	if (loop_run(egress.loop, &e) < 0) {
		log_error("cordon-egress failed", "error=%s", e.msg);
		return 1;
	}
	return 0;
}
