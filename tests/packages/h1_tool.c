/* h1_tool.c - h1_tool ZIP [SLICE]: prints Go's hash of a module's zip, computed in slices of so
 * many bytes, or why there is none (status 1). For test_go_h1.py. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "lib/packages/go_h1.h"

static int read_at(void *arg, uint64_t at, void *ret, size_t n, struct err *e)
{
	const int *fd = arg;

	if (pread(*fd, ret, n, (off_t)at) != (ssize_t)n)
		return err_sys(e, "read");
	return 0;
}

int main(int argc, char **argv)
{
	size_t slice = argc > 2 ? strtoul(argv[2], NULL, 10) : 1U << 20;
	int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1, rc = -1;
	char text[DIGEST_TEXT_MAX];
	struct digest d;
	struct go_h1 *h;
	struct stat st;
	struct err e;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 2;
	h = go_h1_new(&(struct go_h1_source){ (uint64_t)st.st_size, read_at, &fd }, &e);
	if (h != NULL) {
		do
			rc = go_h1_step(h, slice, &e);
		while (rc > 0);
	}
	if (rc < 0) {
		printf("%s: %s\n", err_code_name(e.code), e.msg);
	} else {
		go_h1_result(h, &d);
		digest_write(&d, text);
		printf("%s\n", text);
	}
	go_h1_free(h);
	fd_close(fd);
	return rc < 0 ? 1 : 0;
}
