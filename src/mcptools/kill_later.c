#include "kill_later.h"

#include <stdlib.h>

#include "execution.h"
#include "log.h"

static void on_done(struct completion *w, const struct err *e)
{
	if (e != NULL)
		log_warn("the processes of a cancelled call were not ended", "error=%s", e->msg);
	free(w);
}

void kill_later(struct execution *x)
{
	struct completion *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		log_error("out of memory: a cancelled call goes on", "execution_id=%s",
			  execution_row(x)->id);
		return;
	}
	w->on_done = on_done;
	execution_kill(x, w);
}
