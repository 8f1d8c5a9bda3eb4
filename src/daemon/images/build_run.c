/* build_run.c - the order of a build: base, steps, finalize, and how it fails.
 *
 * Each phase ends by build_go_on(), so that the stack does not grow with the number of steps, and
 * other clients get their turn between two steps taken from the cache. */
#include <stdarg.h>

#include <stdio.h>
#include <string.h>

#include "daemon/images/build_cell.h"
#include "daemon/images/build_private.h"
#include "daemon/images/build_upload.h"
#include "daemon/store/store_net.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

/* ---- makes one layer of all that a build stands on, when there are too many to be
 * stacked in a cell.
 *
 * Layers are folded from the lowest of a stack on, so those of the base are part of it. The result
 * is a version of a template without a name: the build continues with it as its base, and removes
 * it in the end. The single layers stay as long as others use them. The remains of a dead daemon's
 * build are removed after the next start. */

#define FOLD_ABOVE 14
#define FOLD_PREFIX BUILD_IMAGE_PREFIX "fold-"
#define LAYER_LEAST ((uint64_t)1 << 20)
#define SWEPT_MAX 64

/* All layers that the build stands on, the lowest first. */
static int build_fold_whole_stack(const struct build *b, struct template_stack *ret, struct err *e)
{
	if (template_stack_read(template_row(b->base), ret, e) < 0)
		return -1;
	return template_stack_push(ret, (const char(*)[STORE_ID_MAX])b->stack.layers,
				   b->stack.nlayers, e);
}

/* ---- the version that it becomes */

static bool build_fold_is_folded(const struct template_version *v)
{
	return strncmp(template_row(v)->name, FOLD_PREFIX, strlen(FOLD_PREFIX)) == 0;
}

static void build_fold_drop(struct core *c, struct template_version *v)
{
	struct err e;

	if (v != NULL && build_fold_is_folded(v) && templates_remove(c, v, NULL, &e) < 0)
		log_warn("folded layers of a build could not be removed", "error=%s", e.msg);
}

static struct template_version *build_fold_make_version(struct build *b, struct err *e)
{
	const struct store_layer layer = layers_row(&b->folding, &b->fold.reply, "build");
	const struct template_new_layers made = { .rows = &layer, .n = 1 };
	char text[TEMPLATE_STACK_TEXT], id[RAND_ID_MAX];
	struct store_template row = *template_row(b->base);
	struct template_stack stack;

	if (template_stack_read(&row, &stack, e) < 0)
		return NULL;
	memcpy(stack.layers[0], layer.id, sizeof(stack.layers[0]));
	stack.nlayers = 1;
	template_stack_write(&stack, text);
	rand_id("", id, sizeof(id));
	row.id[0] = row.template_id[0] = row.source[0] = '\0';
	row.kind = TEMPLATE_STACK;
	row.layers = text;
	row.public = false;
	memcpy(row.tenant, b->row.tenant, sizeof(row.tenant));
	(void)snprintf(row.name, sizeof(row.name), FOLD_PREFIX "%s", id);
	return templates_insert(b->core, &row, NULL, 0, &made, &b->actor, e);
}

static int build_fold_replace(struct build *b, struct err *e)
{
	struct template_version *v = build_fold_make_version(b, e), *before = b->base;

	if (v == NULL)
		return -1;
	b->base = template_use(v);
	b->stack.nlayers = 0;
	template_unuse(before);
	build_fold_drop(b->core, before);
	return store_layer_unuse(core_store(b->core), STORE_LAYER_OF_BUILD, b->row.id, e);
}

static void on_folded(struct completion *w, const struct err *e)
{
	struct build *b = w->arg;
	struct err why = { 0 };
	int rc = e == NULL ? build_fold_replace(b, &why) : -1;

	layers_settle(core_layers(b->core), &b->folding, rc == 0);
	if (rc == 0)
		b->then(b);
	else
		build_fail(b, "the layers of the build cannot be folded: %s",
			   e == NULL ? why.msg : e->msg);
}

/* ---- the request */

static void build_fold_ask(struct build *b, const struct template_stack *s)
{
	char from[TEMPLATE_STACK_MAX][STORAGE_ID_MAX];
	struct storage_link *link = core_storage(b->core);
	const char(*ids)[STORAGE_ID_MAX] = (const char(*)[STORAGE_ID_MAX])from;
	unsigned n = (unsigned)s->nlayers;

	for (size_t i = 0; i < s->nlayers; i++)
		str_copy(from[i], s->layers[i]);
	b->fold.done = (struct completion){ .on_done = on_folded, .arg = b };
	b->fold.tenant = b->folding.tenant;
	storage_link_fold_above(link, &b->fold, b->folding.id, ids, n, 0,
				s->base == TEMPLATE_BASE_DIR	? STORAGE_FOLD_DIR
				: s->base == TEMPLATE_BASE_HOST ? STORAGE_FOLD_HOST
								: STORAGE_FOLD_BOTTOM,
				template_stack_base(b->core, s));
}

void build_fold(struct build *b, void (*then)(struct build *b))
{
	struct template_stack stack;
	struct err e;
	int rc = build_fold_whole_stack(b, &stack, &e);

	if (rc == 0 && stack.nlayers <= FOLD_ABOVE) {
		then(b);
		return;
	}
	b->then = then;
	if (rc == 0)
		rc = layers_admit(core_layers(b->core), &b->folding, b->row.tenant,
				  quota_stored(b->core, b->tenant), LAYER_LEAST,
				  core_config(b->core)->storage_disk_max, &e);
	if (rc < 0)
		build_fail(b, "the layers of the build cannot be folded: %s", e.msg);
	else
		build_fold_ask(b, &stack);
}

void build_fold_release(struct build *b)
{
	struct template_version *base = b->base;

	storage_link_cancel(core_storage(b->core), &b->fold);
	layers_settle(core_layers(b->core), &b->folding, false);
	b->base = NULL;
	template_unuse(base);
	build_fold_drop(b->core, base);
}

/* ---- after a start */

struct left {
	size_t n;
	char ids[SWEPT_MAX][STORE_ID_MAX];
};

static void on_version(const struct template_version *v, void *arg)
{
	struct left *l = arg;

	/* A build that runs uses its own. */
	if (build_fold_is_folded(v) && template_row(v)->current && template_sessions(v) == 0 &&
	    l->n < SWEPT_MAX)
		memcpy(l->ids[l->n++], template_row(v)->id, STORE_ID_MAX);
}

void build_fold_sweep(struct core *c)
{
	struct left l = { 0 };

	templates_each(c, NULL, on_version, &l);
	for (size_t i = 0; i < l.n; i++)
		build_fold_drop(c, templates_by_id(c, l.ids[i]));
}

/* ---- one step of a build: taken from the cache, or run in a session of its own whose
 * changes become a layer. */

#define SHOWN 300	    /* bytes of a step in the log */
#define REFUSED_LOOKED 1000 /* records of a session */

static const struct recipe_step *build_step_of(const struct build *b)
{
	return &b->recipe.steps[b->step];
}

/* "RUN apt-get update [1a2b3c4d]" */
static void build_step_announce(struct build *b, bool cached)
{
	const struct recipe_step *s = build_step_of(b);
	char text[SHOWN + 1] = "", key[2 * 4 + 1], prefix[40];
	size_t n = 0;

	for (unsigned i = 0; i < s->argc && n < SHOWN; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i == 0 ? "" : " ",
				      s->args[i]);
	for (char *c = text; *c != '\0'; c++)
		if (*c == '\n')
			*c = ' ';
	hex_encode(b->key, 4, key);
	build_log(b, BUILD_INFO, "%s%s %s %s [%s]", cached ? "CACHED " : "",
		  build_log_prefix(b, prefix), recipe_type_name(s->type), text, key);
}

/* The key covers the step, the state that it begins with (by the key before it) and, of COPY, the
 * content of the archive. */
static int build_step_set_key(struct build *b)
{
	const struct recipe_step *s = build_step_of(b);
	const char *parts[RECIPE_ARGS_MAX + 3];
	struct store_build_upload upload = { 0 };
	unsigned n = 0;
	struct err e;

	if (s->type == RECIPE_COPY &&
	    store_build_upload_get(core_store(b->core), b->row.tenant, b->row.template_id, s->hash,
				   &upload, &e) < 0)
		return -1;
	parts[n++] = recipe_type_name(s->type);
	for (unsigned i = 0; i < s->argc; i++)
		parts[n++] = s->args[i];
	memcpy(b->archive_digest, upload.digest, sizeof(b->archive_digest));
	parts[n++] = upload.digest;
	build_cache_key(b, parts, n);
	return 0;
}

/* ---- the end of a step */

static void build_step_next(struct build *b)
{
	b->step++;
	build_go_on(b, build_run_next);
}

static void build_step_done(struct build *b)
{
	build_cell_close(b);
	build_cache_keep(b);
	build_fold(b, build_step_next);
}

static void build_step_keep(struct build *b)
{
	build_cell_capture(b, build_step_done);
}

/* ---- RUN */

static int on_refused(const struct store_net *row, void *cookie)
{
	str_copy_to(cookie, sizeof(row->name), row->name);
	return row->name[0] != '\0';
}

/* The name that the session of the step asked for first, and was refused. "": none. */
static void build_step_find_refused(struct build *b,
				    char ret[sizeof(((struct store_net *)NULL)->name)])
{
	const struct store_net_filter filter = { .session = b->session_id,
						 .verdict = STORE_NET_REFUSED,
						 .limit = REFUSED_LOOKED };
	struct err e;

	ret[0] = '\0';
	IGNORED(store_net_list(core_store(b->core), &filter, on_refused, ret, NULL, &e),
		"then the reason says less");
}

/* A limit that a command survived without loss, such as a process started later. */
static void build_step_warn_of_limits(struct build *b)
{
	char text[BUILD_LIMITS_TEXT], prefix[40];

	if (*build_limits_text(b, b->exec.limits_hit, text) != '\0')
		build_log(b, BUILD_WARN, "%s the command ended with 0%s",
			  build_log_prefix(b, prefix), text);
}

static void on_run(struct build *b, int code)
{
	char refused[sizeof(((struct store_net *)NULL)->name)], text[BUILD_LIMITS_TEXT];
	const char *limits = build_limits_text(b, b->exec.limits_hit, text);

	if (code == 0 && build_limits_lose_files(b->exec.limits_hit)) {
		build_fail(b,
			   "failed to run command '%.2000s': it ended with 0, but files may be "
			   "missing%s",
			   build_step_of(b)->args[0], limits);
		return;
	}
	if (code == 0) {
		build_step_warn_of_limits(b);
		build_step_keep(b);
		return;
	}
	build_step_find_refused(b, refused);
	if (refused[0] == '\0')
		build_fail(b, "failed to run command '%.2000s': exit status %d%s",
			   build_step_of(b)->args[0], code, limits);
	else
		build_fail(b,
			   "failed to run command '%.2000s': exit status %d%s; its connection to "
			   "%s was refused: ask for a network that the operator allows builds "
			   "(--network, the settings build_network and build_networks)",
			   build_step_of(b)->args[0], code, limits, refused);
}

static void build_step_run_one(struct build *b)
{
	const struct recipe_step *s = build_step_of(b);
	const char *user = s->argc > 1 && s->args[1][0] != '\0' ? s->args[1] : b->state.user;

	build_exec_run(b, &b->exec, user, b->state.workdir, s->args[0], false, on_run);
}

/* ---- USER */

static void on_user(struct build *b, int code)
{
	const char *name = build_step_of(b)->args[0];
	size_t n = strcspn(name, ":");
	char text[BUILD_LIMITS_TEXT];

	if (code != 0 || build_limits_lose_files(b->exec.limits_hit)) {
		build_fail(b, "user '%s' cannot be made: exit status %d%s", name, code,
			   build_limits_text(b, b->exec.limits_hit, text));
		return;
	}
	(void)snprintf(b->state.user, sizeof(b->state.user), "%.*s", (int)n, name);
	build_step_keep(b);
}

/* The name was checked: it needs no quotes. A number needs no entry. */
static void build_step_user(struct build *b)
{
	const char *name = build_step_of(b)->args[0];
	int n = (int)strcspn(name, ":");

	(void)snprintf(
		b->script, sizeof(b->script),
		"case '%.*s' in *[!0-9]*) ;; *) exit 0 ;; esac; id -u '%.*s' >/dev/null 2>&1 || "
		"useradd --create-home --shell /bin/bash '%.*s' || adduser -D '%.*s'",
		n, name, n, name, n, name, n, name);
	build_exec_run(b, &b->exec, "root", "/", b->script, false, on_user);
}

/* ---- the rest */

static void build_step_copy(struct build *b)
{
	build_copy_run(b, build_step_of(b), build_step_keep);
}

static void build_step_workdir(struct build *b)
{
	build_copy_workdir(b, build_step_of(b)->args[0], build_step_keep);
}

/* Needs no session, and is not cached: it takes less than to look for it. One variable in a turn
 * of the loop. */
static void build_step_env(struct build *b)
{
	const struct recipe_step *s = build_step_of(b);
	struct err e;

	if (b->variable + 1 >= s->argc) {
		build_fold(b, build_step_next);
		return;
	}
	if (recipe_state_set_env(&b->state, s->args[b->variable], s->args[b->variable + 1], &e) <
	    0) {
		build_fail(b, "%s", e.msg);
		return;
	}
	b->variable += 2;
	build_go_on(b, build_step_env);
}

/* USER and WORKDIR whose user and directory every system has need no session, and are not cached.
 */
static bool build_step_set_state(struct build *b)
{
	const struct recipe_step *s = build_step_of(b);
	char path[RECIPE_PATH_MAX];
	struct err e;

	if (s->type == RECIPE_USER && strcmp(s->args[0], "root") == 0) {
		(void)snprintf(b->state.user, sizeof(b->state.user), "root");
		return true;
	}
	if (s->type != RECIPE_WORKDIR ||
	    recipe_state_path(&b->state, s->args[0], "/", path, &e) < 0 || strcmp(path, "/") != 0)
		return false;
	(void)snprintf(b->state.workdir, sizeof(b->state.workdir), "/");
	return true;
}

void build_step_run(struct build *b)
{
	static void (*const ways[RECIPE_TYPES])(
		struct build *) = { [RECIPE_RUN] = build_step_run_one,
				    [RECIPE_COPY] = build_step_copy,
				    [RECIPE_WORKDIR] = build_step_workdir,
				    [RECIPE_USER] = build_step_user };
	const struct recipe_step *s = build_step_of(b);

	b->captured = (struct store_layer){ 0 };
	b->variable = 0;
	b->fresh |= s->force;
	if (build_step_set_key(b) < 0) {
		build_fail(b, "the files of COPY %.200s were not uploaded", s->args[0]);
		return;
	}
	if (build_step_set_state(b)) {
		build_step_announce(b, false);
		build_step_next(b);
		return;
	}
	if (!b->fresh && s->type != RECIPE_ENV && build_cache_take(b)) {
		build_step_announce(b, true);
		build_fold(b, build_step_next);
		return;
	}
	build_step_announce(b, false);
	if (s->type == RECIPE_ENV)
		build_step_env(b);
	else
		build_cell_open(b, ways[s->type]);
}

/* ---- the end of a build: the result is arranged as clients expect it and captured, the
 * start and the ready command are tried, and the version of the template is written.
 *
 * The capture comes before the start command: sessions run that command again, each for itself
 * (daemon/session/session_boot.h), so that it must not find the remains of a run. */

#define READY_MS 600000ULL
#define READY_EVERY_MS 2000ULL
#define READY_DEFAULT "sleep 20"

/* ---- the version */

static size_t build_final_collect_tags(struct build *b, char (*texts)[STORE_NAME_MAX],
				       const char **ret)
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

static int build_final_make_row(struct build *b, struct store_template *row, char *layers,
				char *provenance, size_t cap, struct err *e)
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
static void build_final_publish(struct build *b)
{
	char layers[TEMPLATE_STACK_TEXT], provenance[1024], texts[BUILD_TAGS_MAX][STORE_NAME_MAX];
	const char *tags[BUILD_TAGS_MAX];
	struct store_template row;
	size_t ntags = build_final_collect_tags(b, texts, tags);
	unsigned long long took_ms;
	struct err e;

	build_cell_close(b);
	rand_id("tpl_", b->row.version, sizeof(b->row.version));
	b->row.updated_ms = core_now_ms();
	if (build_final_make_row(b, &row, layers, provenance, sizeof(provenance), &e) < 0 ||
	    store_build_update(core_store(b->core), &b->row, &e) < 0 ||
	    templates_insert(b->core, &row, tags, ntags, NULL, &b->actor, &e) == NULL) {
		build_fail(b, "the template cannot be written: %s", e.msg);
		return;
	}
	took_ms = (unsigned long long)(core_now_ms() - b->began_ms);
	build_log(b, BUILD_INFO, "Build finished, took %llu.%llus", took_ms / 1000,
		  took_ms % 1000 / 100);
	build_finish(b, NULL);
}

/* ---- start and ready command */

static bool build_final_has(const char *text)
{
	return text != NULL && text[0] != '\0';
}

static void on_ready(struct build *b, int code);

static const char *build_final_ready_command(const struct build *b)
{
	return build_final_has(b->ready_command) ? b->ready_command : READY_DEFAULT;
}

static void build_final_try_ready(struct build *b)
{
	build_exec_run(b, &b->exec, b->state.user, b->state.workdir, build_final_ready_command(b),
		       false, on_ready);
}

static void on_retry(struct loop_timer *t)
{
	build_final_try_ready(t->arg);
}

static void on_ready(struct build *b, int code)
{
	int start = build_final_has(b->start_command) ? build_exec_status(b, &b->start) : -1;
	char text[BUILD_LIMITS_TEXT];

	if (start > 0) {
		build_exec_fail_start(b);
		return;
	}
	if (code == 0) {
		build_log(b, BUILD_INFO, "Template is ready");
		build_final_publish(b);
		return;
	}
	if (clock_now_ns() > b->ready_until_ns) {
		build_fail(b, "ready command failed: exit status %d%s", code,
			   build_limits_text(b, b->exec.limits_hit, text));
		return;
	}
	b->retry.on_expire = on_retry;
	b->retry.arg = b;
	loop_timer_set(core_loop(b->core), &b->retry, clock_now_ns() + READY_EVERY_MS * CLOCK_MS);
}

static void build_final_start(struct build *b)
{
	if (!build_final_has(b->start_command) && !build_final_has(b->ready_command)) {
		build_final_publish(b);
		return;
	}
	b->ready_until_ns = clock_now_ns() + READY_MS * CLOCK_MS;
	if (build_final_has(b->start_command)) {
		build_log(b, BUILD_INFO, "Running start command: %.2000s", b->start_command);
		if (!build_exec_start(b))
			return;
	}
	build_log(b, BUILD_INFO, "Waiting for template to be ready: %.2000s",
		  build_final_ready_command(b));
	build_final_try_ready(b);
}

/* ---- what every template has */

static void on_arranged(struct build *b, int code)
{
	if (code != 0)
		build_log(b, BUILD_WARN, "the template could not be arranged: exit status %d",
			  code);
	build_cell_capture(b, build_final_start);
}

static void build_final_arrange(struct build *b)
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
	build_cell_open(b, build_final_arrange);
}

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
