#include "daemon/images/pull_part.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/session/session_hooks.h"

struct image_pulls *image_pulls_of(const struct core *c)
{
	return *session_parts_of_core(c, &pull_part);
}

static int setup(struct core *c, struct err *e)
{
	struct image_pulls *p = calloc(1, sizeof(*p));

	assert(p != NULL);
	pull_link_init(&p->link, core_loop(c));
	p->link.on_hung = core_options(c)->replace_pull;
	p->link.arg = core_options(c)->arg;
	*session_parts_of_core(c, &pull_part) = p;
	return 0;
}

static void release(struct core *c)
{
	struct image_pulls *p = image_pulls_of(c);

	if (p == NULL)
		return;
	while (p->first != NULL)
		image_pull_cancel(p->first);
	pull_link_release(&p->link);
	free(p);
	*session_parts_of_core(c, &pull_part) = NULL;
}

int image_pull_set_channel(struct core *c, int channel, struct err *e)
{
	return pull_link_attach(&image_pulls_of(c)->link, channel, e);
}

const struct session_part pull_part = { .name = "pulls", .setup = setup, .release = release };
