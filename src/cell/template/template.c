#include "cell/template/template.h"

#include <string.h>

#include "lib/base/io.h"

/* cordon run has one template. A server's templates are in its store. */
int template_open(const char *name, const struct node_ca *authority, struct template *ret,
		  struct err *e)
{
	if (strcmp(name, "host") != 0)
		return err_set(e, ERR_NOT_FOUND,
			       "no template '%.60s'; there is: host (those of a server: cordon run "
			       "--server)",
			       name);
	return host_open(authority, ret, e);
}

/* The shared lock of the first layer ends with its descriptor. */
void template_release(struct template *t)
{
	io_close_all(t->fds, t->nlayers);
	t->nlayers = 0;
}
