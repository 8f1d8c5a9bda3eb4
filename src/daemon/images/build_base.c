/* build_base.c - the base of a build: a template of this server, or an image. Images that
 * image_alias names are templates, so that builds work where no registry can be reached. */
#include <assert.h>

#include <stdio.h>
#include <string.h>

#include "daemon/images/build_private.h"
#include "daemon/images/build_base.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/hex.h"

static const char *image_alias_skip(const char *text, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(text, prefix, n) == 0 ? text + n : text;
}

/* The length of the name: up to the tag or digest, but not to a port. */
static size_t image_alias_name_length(const char *image)
{
	size_t n = strcspn(image, "@");

	for (size_t i = n; i > 0 && image[i - 1] != '/'; i--)
		if (image[i - 1] == ':')
			n = i - 1;
	return n;
}

bool image_alias_find(const char *list, const char *image, char ret[STORE_NAME_MAX])
{
	size_t n;

	image = image_alias_skip(image_alias_skip(image, "docker.io/"), "library/");
	n = image_alias_name_length(image);
	while (*list != '\0') {
		size_t len = strcspn(list, ","), eq = strcspn(list, "=,");
		size_t value = len > eq ? len - eq - 1 : 0;

		if (eq == n && strncmp(list, image, n) == 0 && value > 0 &&
		    value < STORE_NAME_MAX) {
			memcpy(ret, list + eq + 1, value);
			ret[value] = '\0';
			return true;
		}
		list += len + (list[len] == ',');
	}
	return false;
}

#define FORMAT "cordon-build-1" /* of keys: raised when steps come to mean something else */

/* The start of the key tells readers of the log apart which base a cached step had. */
static void build_base_announce(struct build *b, const char *from, bool cached)
{
	char key[2 * 4 + 1];

	hex_encode(b->key, 4, key);
	build_log(b, BUILD_INFO, "%s[base] FROM %s [%s]", cached ? "CACHED " : "", from, key);
}

/* The base's identity: an image by its digest, a stack by its layers, in any version. */
static const char *build_base_content_of(const struct build *b, const struct store_template *row)
{
	if (b->pull.made != NULL)
		return b->pull.digest;
	return row->kind == TEMPLATE_STACK || row->kind == TEMPLATE_SNAPSHOT ? row->layers
									     : row->id;
}

/* The first key of the build. Keys of all steps follow from it, so everything that a step can see
 * of the base belongs in here. */
static void build_base_set_key(struct build *b, const struct store_template *row)
{
	/* A step may see the level: its kernel has another name. */
	const char *parts[] = { FORMAT, cell_level_of(row->level)->name,
				build_base_content_of(b, row), b->state.user, b->state.workdir };

	build_cache_key(b, parts, COUNT(parts));
	if (b->recipe.network != NULL) /* what a step could fetch */
		build_cache_key(b, (const char *const[]){ "network", b->recipe.network }, 2);
	if (row->env_len > 0) {
		struct sha256 h;

		sha256_init(&h);
		sha256_add(&h, b->key, sizeof(b->key));
		sha256_add(&h, row->env, row->env_len);
		sha256_end(&h, b->key);
	}
}

static char *build_base_copy_of(const char *text)
{
	char *copy = text == NULL ? NULL : strdup(text);

	assert(text == NULL || copy != NULL);
	return copy;
}

/* is_image: user and working directory of the image do not count, as E2B has it. The build holds v
 * until its end, or until its layers are folded. A recipe with an own start or ready command gets
 * neither from the base. */
static void build_base_begin_with(struct build *b, struct template_version *v, const char *from,
				  bool is_image)
{
	const struct store_template *row = template_row(v);
	bool own = b->recipe.start != NULL || b->recipe.ready != NULL;
	struct err e;

	b->base = template_use(v);
	if (recipe_state_set(&b->state, is_image || row->user[0] == '\0' ? "user" : row->user,
			     is_image ? "" : row->workdir, row->env, row->env_len, &e) < 0) {
		build_fail(b, "%s", e.msg);
		return;
	}
	b->start_command =
		build_base_copy_of(own || is_image ? b->recipe.start : row->start_command);
	b->ready_command =
		build_base_copy_of(own || is_image ? b->recipe.ready : row->ready_command);
	build_base_set_key(b, row);
	build_base_announce(b, from, !is_image);
	b->base_done = true;
	build_go_on(b, build_run_next);
}

/* The words that stand for the server's default template are tried last. */
static struct template_version *build_base_find_template(struct build *b, const char *name)
{
	struct template_version *v = templates_find(b->core, b->tenant, name);

	return v == NULL && templates_is_alias(name)
		       ? templates_find(b->core, NULL, core_config(b->core)->template)
		       : v;
}

/* ---- images of registries */

static void on_progress(struct image_pull *p, const struct image_pull_progress *now)
{
	struct build *b = p->arg;

	if (now->event == IMAGE_PULL_RESOLVED)
		build_log(b, BUILD_INFO, "[base] Pulling %s, %u layers", p->digest, now->nlayers);
	else if (now->event == IMAGE_PULL_LAYER)
		build_log(b, BUILD_DEBUG, "[base] Layer %u/%u%s", now->layer + 1, now->nlayers,
			  now->shared ? " is there" : "");
}

static void on_pulled(struct completion *w, const struct err *e)
{
	struct build *b = w->arg;

	if (e != NULL)
		build_fail(b, "%s", e->msg);
	else
		build_base_begin_with(b, b->pull.made, b->recipe.image, true);
}

/* The image is a template of the tenant's with a name that no build can have. */
static void build_base_pull(struct build *b, const char *image)
{
	struct image_pull_spec spec = { .reference = image,
					.user = b->recipe.registry_user,
					.password = b->recipe.registry_password,
					.aws = b->recipe.registry_region != NULL };
	uint8_t hash[SHA256_SIZE];
	char digits[2 * 8 + 1], name[STORE_NAME_MAX];
	struct err e;

	sha256_of(image, strlen(image), hash);
	hex_encode(hash, 8, digits);
	(void)snprintf(name, sizeof(name), BUILD_IMAGE_PREFIX "%s", digits);
	spec.name = name;
	b->pull.make.private_template = true; /* of the operator, too: it may have credentials */
	b->pull.core = b->core;
	b->pull.tenant = b->tenant;
	b->pull.actor = b->actor;
	b->pull.on_progress = on_progress;
	b->pull.arg = b;
	b->pull.done.on_done = on_pulled;
	b->pull.done.arg = b;
	if (image_pull_start(&b->pull, &spec, &e) < 0)
		build_fail(b, "%s", e.msg);
}

/* A template, an image that stands for a template, or an image of a registry. */
void build_base_run(struct build *b)
{
	const char *from = b->recipe.template != NULL ? b->recipe.template : b->recipe.image;
	char alias[STORE_NAME_MAX];
	struct template_version *v;

	if (b->recipe.template != NULL) {
		v = build_base_find_template(b, from);
		if (v == NULL)
			build_fail(b, "template '%.200s' not found", from);
		else if (template_has_memory(v))
			build_fail(b,
				   "snapshot '%.200s' has the memory of a session, and its files "
				   "are in that: a build cannot begin with it",
				   from);
		else
			build_base_begin_with(b, v, from, false);
		return;
	}
	if (image_alias_find(core_config(b->core)->image_alias, from, alias)) {
		v = build_base_find_template(b, alias);
		if (v == NULL)
			build_fail(b,
				   "image '%.200s' stands for template '%s', which does not exist",
				   from, alias);
		else
			build_base_begin_with(b, v, from, true);
		return;
	}
	build_base_pull(b, from);
}
