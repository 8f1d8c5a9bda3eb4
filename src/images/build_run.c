/* build_run.c - the order of a build: base, steps, finalize; and how it fails.
 *
 * Each phase ends by build_go_on(), so that the stack does not grow with the number of steps, and
 * other clients get their turn between two steps that are taken from the cache. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "build_private.h"

#define REASON_TEXT 4096

const char *build_step_word(const struct build *b, char ret[STORE_BUILD_STEP_MAX])
{
	if (b->finalizing)
		(void)snprintf(ret, STORE_BUILD_STEP_MAX, "finalize");
	else if (!b->base_done)
		(void)snprintf(ret, STORE_BUILD_STEP_MAX, "base");
	else
		(void)snprintf(ret, STORE_BUILD_STEP_MAX, "%u", b->step + 1);
	return ret;
}

static void on_advance(struct loop_task *t)
{
	struct build *b = t->arg;

	b->next_phase(b);
}

void build_go_on(struct build *b, void (*next)(struct build *b))
{
	b->next_phase = next;
	b->advance.on_run = on_advance;
	b->advance.arg = b;
	loop_defer(core_loop(b->core), &b->advance);
}

void build_fail(struct build *b, const char *fmt, ...)
{
	char text[REASON_TEXT];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	build_log(b, BUILD_FAULT, "Build failed: %s", text);
	build_finish(b, text);
}

void build_run_next(struct build *b)
{
	if (b->step < b->recipe.nsteps) {
		build_step_run(b);
		return;
	}
	b->finalizing = true;
	build_final_run(b);
}

void build_run(struct build *b)
{
	build_log(b, BUILD_INFO, "Building template %s/%s", b->row.template_id, b->row.id);
	build_go_on(b, build_base_run);
}
