/* op_arrange.c - makes the layer on top of an image that sessions need (arrange.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arrange.h"
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

static int work(void *arg, int top, const int *lower, struct storage_reply *reply, struct err *e)
{
	const struct storage_arrange *r = arg;
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
	reply->bytes = tree.count.bytes;
	reply->entries = tree.count.entries;
	return 0;
}

int op_arrange(struct storage_run *run, struct err *e)
{
	struct storage_arrange r = run->r->arrange;
	const struct layer_make m = { .id = r.layer,
				      .lower = (const char(*)[STORAGE_ID_MAX])r.lower,
				      .nlower = r.nlower,
				      .work = work,
				      .arg = &r };

	return layer_make(run, &m, e);
}
