/* build_final.c - the end of a build: the result is arranged as clients expect it and captured, the
 * start and the ready command are tried, and the version of the template is written.
 *
 * The capture comes before the start command: sessions run that command again, each for itself
 * (core/session_boot.h), so that it must not find what a run of it has left. */
#include <stdio.h>
#include <string.h>

#include "build_cell.h"
#include "clock.h"
#include "log.h"
#include "rand.h"
#include "templates.h"
#include "tenant.h"

#define READY_MS 600000ULL
#define READY_EVERY_MS 2000ULL
#define READY_DEFAULT "sleep 20"

/* ---- the version */

static size_t collect_tags(struct build *b, char (*texts)[STORE_NAME_MAX], const char **ret)
{
	size_t n = 0;

	for (const char *at = b->row.tags; *at != '\0' && n < BUILD_TAGS_MAX;
	     at += strcspn(at, "\n") + 1) {
		size_t len = strcspn(at, "\n");

		if (len == 0 || len >= STORE_NAME_MAX)
			continue;
		memcpy(texts[n], at, len);
		texts[n][len] = '\0';
		ret[n] = texts[n];
		n++;
	}
	return n;
}

static int make_row(struct build *b, struct store_template *row, char *layers, char *provenance,
		    size_t cap, struct err *e)
{
	const struct store_template *base = template_row(b->base);
	bool same = b->start_command != NULL && base->start_command != NULL &&
		    strcmp(b->start_command, base->start_command) == 0;
	struct template_stack stack;

	if (template_stack_read(base, &stack, e) < 0 ||
	    template_stack_push(&stack, (const char(*)[STORE_ID_MAX])b->stack.layers,
				b->stack.nlayers, e) < 0)
		return -1;
	template_stack_write(&stack, layers);
	(void)snprintf(provenance, cap, "build\t%s\nfrom\t%s\nsteps\t%u\n", b->row.id,
		       b->recipe.image != NULL ? b->recipe.image : b->recipe.template,
		       b->recipe.nsteps);
	*row = (struct store_template){ .kind = TEMPLATE_STACK,
					.level = base->level,
					.layers = layers,
					.mounts = base->mounts,
					.env = b->state.env.len > 0 ? b->state.env.data
								    : (const uint8_t *)"",
					.env_len = b->state.env.len,
					.user = b->state.user,
					.workdir = b->state.workdir,
					.bytes = template_stack_bytes(b->core, &stack),
					.start_command = b->start_command,
					.ready_command = b->ready_command,
					.start_restart = same && base->start_restart,
					.interpreter = same && base->interpreter,
					.provenance = provenance,
					.offered_command = "",
					.cpu_millis = b->row.cpu_millis,
					.memory_bytes = b->row.memory_bytes };
	memcpy(row->id, b->row.version, sizeof(row->id));
	memcpy(row->tenant, b->row.tenant, sizeof(row->tenant));
	memcpy(row->name, b->row.name, sizeof(row->name));
	memcpy(row->template_id, b->row.template_id, sizeof(row->template_id));
	return 0;
}

/* The id of the version is in the build's row first: if the daemon dies in between, the next one
 * sees by it whether the build had succeeded. */
static void publish(struct build *b)
{
	char layers[TEMPLATE_STACK_TEXT], provenance[1024], texts[BUILD_TAGS_MAX][STORE_NAME_MAX];
	const char *tags[BUILD_TAGS_MAX];
	struct store_template row;
	size_t ntags = collect_tags(b, texts, tags);
	struct err e;

	build_cell_close(b);
	rand_id("tpl_", b->row.version, sizeof(b->row.version));
	b->row.updated_ms = core_now_ms();
	if (make_row(b, &row, layers, provenance, sizeof(provenance), &e) < 0 ||
	    store_build_update(core_store(b->core), &b->row, &e) < 0 ||
	    templates_insert(b->core, &row, tags, ntags, NULL, &b->actor, &e) == NULL) {
		build_fail(b, "the template cannot be written: %s", e.msg);
		return;
	}
	build_log(b, BUILD_INFO, "Build finished, took %llus",
		  (unsigned long long)(core_now_ms() - b->began_ms) / 1000);
	build_finish(b, NULL);
}

/* ---- start and ready command */

static bool has(const char *text)
{
	return text != NULL && text[0] != '\0';
}

static void on_ready(struct build *b, int code);

static const char *ready_command(const struct build *b)
{
	return has(b->ready_command) ? b->ready_command : READY_DEFAULT;
}

static void try_ready(struct build *b)
{
	build_exec_run(b, &b->exec, b->state.user, b->state.workdir, ready_command(b), false,
		       on_ready);
}

static void on_retry(struct loop_timer *t)
{
	try_ready(t->arg);
}

static void on_ready(struct build *b, int code)
{
	int start = has(b->start_command) ? build_exec_status(b, &b->start) : -1;

	if (start > 0) {
		build_fail(b, "start command failed: exit status %d", start);
		return;
	}
	if (code == 0) {
		build_log(b, BUILD_INFO, "Template is ready");
		publish(b);
		return;
	}
	if (clock_now_ns() > b->ready_until_ns) {
		build_fail(b, "ready command failed: exit status %d", code);
		return;
	}
	b->retry.on_expire = on_retry;
	b->retry.arg = b;
	loop_timer_set(core_loop(b->core), &b->retry, clock_now_ns() + READY_EVERY_MS * CLOCK_MS);
}

static void start(struct build *b)
{
	if (!has(b->start_command) && !has(b->ready_command)) {
		publish(b);
		return;
	}
	b->ready_until_ns = clock_now_ns() + READY_MS * CLOCK_MS;
	if (has(b->start_command)) {
		build_log(b, BUILD_INFO, "Running start command: %.2000s", b->start_command);
		if (!build_exec_start(b))
			return;
	}
	build_log(b, BUILD_INFO, "Waiting for template to be ready: %.2000s", ready_command(b));
	try_ready(b);
}

/* ---- what every template has */

static void on_arranged(struct build *b, int code)
{
	if (code != 0)
		build_log(b, BUILD_WARN, "the template could not be arranged: exit status %d",
			  code);
	build_cell_capture(b, start);
}

static void arrange(struct build *b)
{
	(void)snprintf(
		b->script, sizeof(b->script),
		"printf 'ENV_ID=%s\\nTEMPLATE_ID=%s\\nBUILD_ID=%s\\n' >/.e2b; "
		"mkdir -p /usr/local; chmod 777 /usr/local; [ ! -d /code ] || chmod 777 /code",
		b->row.template_id, b->row.template_id, b->row.id);
	build_exec_run(b, &b->exec, "root", "/", b->script, true, on_arranged);
}

void build_final_run(struct build *b)
{
	build_log(b, BUILD_INFO, "[finalize] Finalizing template build");
	b->captured = (struct store_layer){ 0 };
	build_cell_open(b, arrange);
}
