#include "cmd/base/egress_start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/base/child_process.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/wire/supervisor_msg.h"

/* Read until the writer closes its end, or the buffer is full. */
static size_t read_all(int fd, char *ret, size_t cap)
{
	size_t n = 0;
	ssize_t got;

	while (n < cap && ((got = read(fd, ret + n, cap - n)) > 0 || (got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	return n;
}

/* The child prints the new authority, key included, into a pipe. The caller wipes the text: it
 * must never be written anywhere but into the node's own file. */
static int egress_start_make(char ret_text[NODE_CA_TEXT_MAX], size_t *ret_len, struct err *e)
{
	int ends[2], status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD reader = ends[0], writer = ends[1];
	if (child_process_start(&(struct child_process_start){ .name = "cordon-egress",
							       .word = "--create-ca",
							       .out = writer },
				&pid, e) < 0)
		return -1;
	fd_close(TAKE_FD(writer));
	*ret_len = read_all(reader, ret_text, NODE_CA_TEXT_MAX);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0)
		return err_set(e, ERR_SYSTEM, "cordon-egress could not create the node's CA");
	return 0;
}

int authority_make(struct node_ca *ret, struct err *e)
{
	char text[NODE_CA_TEXT_MAX];
	int result;
	size_t n = 0;

	if (node_ca_open(ret, e) == 0)
		return 0;
	if (e->code != ERR_NOT_FOUND)
		return -1;
	result = egress_start_make(text, &n, e);
	if (result == 0)
		result = node_ca_save(text, n, e);
	explicit_bzero(text, sizeof(text));
	return result < 0 ? -1 : node_ca_open(ret, e);
}

/* Files of trusted authorities on various systems. The first existing one is used. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
	"/etc/ssl/ca-bundle.pem",	      /* openSUSE */
	"/etc/ssl/cert.pem",		      /* Alpine */
};

/* Without O_NONBLOCK the opening of a FIFO would block the start of the server. */
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

/* Its absence is not an error: a server without TLS requests to the outside needs no
 * authorities. */
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
