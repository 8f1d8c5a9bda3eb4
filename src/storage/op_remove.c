/* op_remove.c - removes a layer. It has no name as a layer from the first moment on; what is left
 * if this process is killed is removed by storage_ops_clean(), or at the next start. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "storage_ops.h"
#include "tree_remove.h"

int op_remove(struct storage_run *run, struct err *e)
{
	OWN_FD layers = storage_ops_open_layers(e);
	char gone[64];

	if (layers < 0)
		return -1;
	/* The transaction after which nothing uses the layer comes to disk before its end. */
	if (syncfs(layers) < 0)
		return storage_ops_fail(e, "write to disk");
	(void)snprintf(gone, sizeof(gone), STORAGE_GONE "%llu", (unsigned long long)run->serial);
	if (renameat(layers, run->r->remove.layer, layers, gone) < 0)
		return errno == ENOENT ? 0 : storage_ops_fail(e, "rename the layer");
	return tree_remove(layers, gone, e);
}
