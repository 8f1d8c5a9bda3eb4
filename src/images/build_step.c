/* build_step.c - one step of a build: taken from the cache, or run in a session of its own whose
 * changes become a layer. */
#include <stdio.h>
#include <string.h>

#include "build_cell.h"
#include "build_upload.h"
#include "hex.h"
#include "store_net.h"

#define SHOWN 300	    /* bytes of a step in the log */
#define REFUSED_LOOKED 1000 /* records of a session */

static const struct recipe_step *step_of(const struct build *b)
{
	return &b->recipe.steps[b->step];
}

/* "RUN apt-get update [1a2b3c4d]" */
static void announce(struct build *b, bool cached)
{
	const struct recipe_step *s = step_of(b);
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
static int set_key(struct build *b)
{
	const struct recipe_step *s = step_of(b);
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

static void next(struct build *b)
{
	b->step++;
	build_go_on(b, build_run_next);
}

static void done(struct build *b)
{
	build_cell_close(b);
	build_cache_keep(b);
	build_fold(b, next);
}

static void keep(struct build *b)
{
	build_cell_capture(b, done);
}

/* ---- RUN */

static int on_refused(const struct store_net *row, void *cookie)
{
	(void)snprintf(cookie, sizeof(row->name), "%s", row->name);
	return row->name[0] != '\0';
}

/* The name that the session of the step asked for first, and was refused; "": none. */
static void find_refused(struct build *b, char ret[sizeof(((struct store_net *)NULL)->name)])
{
	const struct store_net_filter filter = { .session = b->session_id,
						 .verdict = STORE_NET_REFUSED,
						 .limit = REFUSED_LOOKED };
	struct err e;

	ret[0] = '\0';
	IGNORED(store_net_list(core_store(b->core), &filter, on_refused, ret, NULL, &e),
		"then the reason says less");
}

static void on_run(struct build *b, int code)
{
	char refused[sizeof(((struct store_net *)NULL)->name)];

	if (code == 0) {
		keep(b);
		return;
	}
	find_refused(b, refused);
	if (refused[0] == '\0')
		build_fail(b, "failed to run command '%.2000s': exit status %d",
			   step_of(b)->args[0], code);
	else
		build_fail(b,
			   "failed to run command '%.2000s': exit status %d; its connection to %s "
			   "was refused: the operator decides by the setting build_network what "
			   "builds may reach",
			   step_of(b)->args[0], code, refused);
}

static void run(struct build *b)
{
	const struct recipe_step *s = step_of(b);
	const char *user = s->argc > 1 && s->args[1][0] != '\0' ? s->args[1] : b->state.user;

	build_exec_run(b, &b->exec, user, b->state.workdir, s->args[0], false, on_run);
}

/* ---- USER */

static void on_user(struct build *b, int code)
{
	const char *name = step_of(b)->args[0];
	size_t n = strcspn(name, ":");

	if (code != 0) {
		build_fail(b, "user '%s' cannot be made: exit status %d", name, code);
		return;
	}
	(void)snprintf(b->state.user, sizeof(b->state.user), "%.*s", (int)n, name);
	keep(b);
}

/* The name was checked: it needs no quotes. A number needs no entry. */
static void user(struct build *b)
{
	const char *name = step_of(b)->args[0];
	int n = (int)strcspn(name, ":");

	(void)snprintf(
		b->script, sizeof(b->script),
		"case '%.*s' in *[!0-9]*) ;; *) exit 0 ;; esac; id -u '%.*s' >/dev/null 2>&1 || "
		"useradd --create-home --shell /bin/bash '%.*s' || adduser -D '%.*s'",
		n, name, n, name, n, name, n, name);
	build_exec_run(b, &b->exec, "root", "/", b->script, false, on_user);
}

/* ---- the rest */

static void copy(struct build *b)
{
	build_copy_run(b, step_of(b), keep);
}

static void workdir(struct build *b)
{
	build_copy_workdir(b, step_of(b)->args[0], keep);
}

/* Needs no session, and is not cached: it takes less than to look for it. One variable in a turn
 * of the loop. */
static void env(struct build *b)
{
	const struct recipe_step *s = step_of(b);
	struct err e;

	if (b->variable + 1 >= s->argc) {
		build_fold(b, next);
		return;
	}
	if (recipe_state_set_env(&b->state, s->args[b->variable], s->args[b->variable + 1], &e) <
	    0) {
		build_fail(b, "%s", e.msg);
		return;
	}
	b->variable += 2;
	build_go_on(b, env);
}

/* USER and WORKDIR whose user and directory every system has need no session, and are not cached.
 */
static bool set_state(struct build *b)
{
	const struct recipe_step *s = step_of(b);
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
	static void (*const ways[RECIPE_TYPES])(struct build *) = { [RECIPE_RUN] = run,
								    [RECIPE_COPY] = copy,
								    [RECIPE_WORKDIR] = workdir,
								    [RECIPE_USER] = user };
	const struct recipe_step *s = step_of(b);

	b->captured = (struct store_layer){ 0 };
	b->variable = 0;
	b->fresh |= s->force;
	if (set_key(b) < 0) {
		build_fail(b, "the files of COPY %.200s were not uploaded", s->args[0]);
		return;
	}
	if (set_state(b)) {
		announce(b, false);
		next(b);
		return;
	}
	if (!b->fresh && s->type != RECIPE_ENV && build_cache_take(b)) {
		announce(b, true);
		build_fold(b, next);
		return;
	}
	announce(b, false);
	if (s->type == RECIPE_ENV)
		env(b);
	else
		build_cell_open(b, ways[s->type]);
}
