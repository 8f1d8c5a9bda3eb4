#include "authority_make.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "child_process.h"

/* Reads until the writer closes its end, or the buffer is full. */
static size_t read_all(int fd, char *ret, size_t cap)
{
	size_t n = 0;
	ssize_t got;

	while (n < cap && ((got = read(fd, ret + n, cap - n)) > 0 || (got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	return n;
}

static int make(char ret_text[NODE_CA_TEXT_MAX], size_t *ret_len, struct err *e)
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
	result = make(text, &n, e);
	if (result == 0)
		result = node_ca_save(text, n, e);
	explicit_bzero(text, sizeof(text));
	return result < 0 ? -1 : node_ca_open(ret, e);
}
