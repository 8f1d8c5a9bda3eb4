#include "egress_start.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "io.h"
#include "log.h"
#include "supervisor_msg.h"

/* Where systems keep the authorities they trust; the first that is there. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
	"/etc/ssl/ca-bundle.pem",	      /* openSUSE */
	"/etc/ssl/cert.pem",		      /* Alpine */
};

static int open_read(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

void egress_start_names(int ret_fds[2])
{
	static const char *const paths[] = { "/etc/resolv.conf", "/etc/hosts" };

	for (size_t i = 0; i < COUNT(paths); i++) {
		ret_fds[i] = open_read(paths[i]);
		if (ret_fds[i] < 0)
			ret_fds[i] = open_read("/dev/null");
	}
}

static int open_bundle(void)
{
	for (size_t i = 0; i < COUNT(bundles); i++) {
		int fd = open_read(bundles[i]);

		if (fd >= 0)
			return fd;
	}
	log_warn("this machine has no list of trusted authorities (package ca-certificates): "
		 "cordon-egress and cordon-pull can verify no server",
		 "");
	return -1;
}

int egress_start(const struct egress_start *how, pid_t *ret_pid, struct err *e)
{
	int fds[EGRESS_FDS_END - EGRESS_FD_CONTROL], names[2];
	OWN_FD extra = how->ca[0] == '\0' ? -1 : open_read(how->ca);
	const char *program = how->program != NULL ? how->program : "cordon-egress";
	char word[24];
	int result;

	if (how->ca[0] != '\0' && extra < 0)
		return err_sys(e, "egress_ca: open %s", how->ca);
	egress_start_names(names);
	OWN_FD resolv = names[0], hosts = names[1], bundle = open_bundle();
	fds[EGRESS_FD_CONTROL - EGRESS_FD_CONTROL] = how->control;
	fds[EGRESS_FD_CHANNEL - EGRESS_FD_CONTROL] = how->channel;
	fds[EGRESS_FD_RESOLV - EGRESS_FD_CONTROL] = resolv;
	fds[EGRESS_FD_HOSTS - EGRESS_FD_CONTROL] = hosts;
	fds[EGRESS_FD_BUNDLE - EGRESS_FD_CONTROL] = bundle;
	fds[EGRESS_FD_CA - EGRESS_FD_CONTROL] = how->authority;
	fds[EGRESS_FD_EXTRA - EGRESS_FD_CONTROL] = extra;
	(void)snprintf(word, sizeof(word), "--start=%u:%u:%u", how->log_format, how->log_level,
		       how->processes);
	result = child_process_start(&(struct child_process_start){ .name = program,
								    .word = word,
								    .fds = fds,
								    .nfds = COUNT(fds),
								    .drop = how->drop,
								    .uid = how->uid,
								    .gid = how->gid },
				     ret_pid, e);
	return result < 0 ? err_wrap(e, "start %s", program) : 0;
}
