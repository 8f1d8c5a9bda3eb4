/* op_arrange.c - makes the layer on top of an image that sessions need (arrange.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arrange.h"
#include "arrange_programs.h"
#include "layer_make.h"
#include "storage_jail.h"

#define BYTES_MAX (64U << 20)
#define ENTRIES_MAX 10000U

static struct arrange_authority authority; /* read at the start */

int op_arrange_setup(int fd, struct err *e)
{
	static char text[ARRANGE_CERT_MAX + ARRANGE_LINK_MAX];
	ssize_t n = pread(fd, text, sizeof(text), 0);

	if (n < 0)
		return errno == EBADF ? 0 : err_sys(e, "read the authority");
	return arrange_authority_read(text, (size_t)n, &authority, e);
}

/* In the worker, and before: the request, and where programs for cells are. */
struct arranged_image {
	struct storage_arrange r;
	int programs; /* owned; -1: there are none */
};

static int work(void *arg, int top, const int *lower, struct storage_reply *reply, struct err *e)
{
	const struct arranged_image *image = arg;
	const struct storage_arrange *r = &image->r;
	const struct storage_ids ids = storage_jail_ids();
	static struct layer_tree tree; /* large */
	int roots[STORAGE_STACK_MAX];
	int root = layer_make_root(top, lower, r->nlower, roots, e);

	if (root < 0 || layer_tree_init(&tree, root, roots, r->nlower, e) < 0)
		return -1;
	tree.count.bytes_max = BYTES_MAX;
	tree.count.entries_max = ENTRIES_MAX;
	if (arrange(&tree, &ids, &authority, e) < 0)
		return -1;
	if (image->programs >= 0 &&
	    arrange_programs(&(struct arranging){ &tree, &ids }, image->programs, e) < 0)
		return -1;
	reply->bytes = tree.count.bytes;
	reply->entries = tree.count.entries;
	return 0;
}

int op_arrange(struct storage_run *run, struct err *e)
{
	struct arranged_image image = { .r = run->r->arrange, .programs = -1 };
	const struct layer_make m = { .id = image.r.layer,
				      .lower = (const char(*)[STORAGE_ID_MAX])image.r.lower,
				      .nlower = image.r.nlower,
				      .read = &image.programs,
				      .nread = 1,
				      .work = work,
				      .arg = &image };
	int result;

	/* The host template has them at the same place. */
	image.programs = open(STORAGE_JAIL_HOST "0/opt/cordon",
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	result = layer_make(run, &m, e);
	fd_close(image.programs);
	return result;
}
