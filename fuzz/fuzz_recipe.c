/* Any recipe of a build, or any name of a template; the first byte says which. What is taken is
 * within the bounds that a build relies on; what is refused says why. */
#include "fuzz.h"

#include "daemon/images/recipe.h"
#include "front/web/spec_recipe.h"
#include "daemon/images/template_ref.h"

unsigned long fuzz_accepted;

static void run_env(const struct recipe_step *s, struct recipe_state *state)
{
	struct err e;

	for (unsigned i = 0; i + 1 < s->argc; i += 2)
		if (recipe_state_set_env(state, s->args[i], s->args[i + 1], &e) == 0)
			assert(recipe_state_env(state, s->args[i], strlen(s->args[i])) != NULL);
	assert(state->env.len <= RECIPE_ENV_MAX);
}

static void run_path(const char *text, struct recipe_state *state)
{
	char path[RECIPE_PATH_MAX];
	struct err e;

	if (recipe_state_path(state, text, "/home/user", path, &e) == 0)
		assert(path[0] == '/' && strstr(path, "//") == NULL &&
		       strstr(path, "/../") == NULL);
	if (recipe_copy_entry(text, path, &e) == 0)
		assert(path[0] != '/' && strncmp(path, "../", 3) != 0);
}

static int recipe(const char *body, size_t len, struct err *e)
{
	struct recipe_state state;
	struct recipe r;
	int rc = spec_recipe_read(body, len, &r, e);

	recipe_state_init(&state);
	assert(rc < 0 ||
	       (r.nsteps <= RECIPE_STEPS_MAX && (r.image == NULL) != (r.template == NULL)));
	for (unsigned i = 0; rc == 0 && i < r.nsteps; i++) {
		const struct recipe_step *s = &r.steps[i];

		assert(s->argc > 0 && s->argc <= RECIPE_ARGS_MAX);
		assert(s->hash[0] == '\0' || recipe_is_hash(s->hash));
		if (s->type == RECIPE_ENV)
			run_env(s, &state);
		else
			run_path(s->args[0], &state);
	}
	recipe_state_release(&state);
	recipe_release(&r);
	return rc;
}

static int name(const char *text, struct err *e)
{
	struct template_name r;
	int rc = template_ref_read(text, &r, e);

	if (rc == 0) {
		assert(r.name[0] != '\0' && strpbrk(r.name, ":/. \n") == NULL);
		assert(strpbrk(r.tag, ":/ \n") == NULL && !template_ref_is_uuid(r.tag));
	}
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *exact;
	struct err e = { 0 };
	int r;

	if (size == 0)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	exact = fuzz_copy(data + 1, size - 1);
	r = data[0] == 'n' ? name(text, &e) : recipe(exact, size - 1, &e);
	assert(r == 0 || (e.code != ERR_NONE && e.msg[0] != '\0'));
	fuzz_accepted += r == 0;
	free(exact);
	free(text);
	return 0;
}
