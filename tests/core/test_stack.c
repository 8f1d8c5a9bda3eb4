/* The stack of layers that a cell is made from: its text in a row, and the request to the keeper.
 */
#include "daemon/template/template_stack.h"

#include <stdlib.h>

#include "daemon/node/core_private.h"
#include "daemon/template/templates.h"
#include "test.h"

static int read_text(uint32_t kind, const char *text, struct template_stack *ret)
{
	struct store_template row = { .name = "x", .kind = kind, .layers = text };
	struct err e;

	return template_stack_read(&row, ret, &e);
}

static void texts(void)
{
	static const char *const good[] = { "host", "host\nlay_a1\nlay_b2", "none\nlay_a",
					    "dir a b\nlay_a" };
	static const char *const bad[] = { "",
					   "hos",
					   "none",
					   "dir \nlay_a",
					   "host\n\nlay_a",
					   "host\nlay_",
					   "host\nlay_../x",
					   "host\nlay_a/0",
					   "host\nabc",
					   "host\nlay_A" };
	char text[TEMPLATE_STACK_TEXT];
	struct template_stack s;

	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK(read_text(TEMPLATE_STACK, good[i], &s) == 0);
		template_stack_write(&s, text);
		CHECK_STR(text, good[i]);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(read_text(TEMPLATE_SNAPSHOT, bad[i], &s) < 0);
	CHECK(read_text(TEMPLATE_LAYERS, "entry", &s) == 0 && s.base == TEMPLATE_BASE_DIR);
	CHECK_STR(s.dir, "entry");
	CHECK(read_text(TEMPLATE_HOST, "", &s) == 0 && s.nlayers == 0);
	CHECK(read_text(TEMPLATE_KINDS, "host", &s) < 0);
}

static void check_entry(const struct keeper_create *r, uint32_t i, const char *at, uint32_t root,
			const char *path)
{
	CHECK_STR(r->layer_at[i], at);
	CHECK(r->layer_from[i].root == root);
	CHECK_STR(r->layer_from[i].path, path);
}

/* For each place what the base has there, then the layers, lowest first. */
static void plans(void)
{
	struct core *c = calloc(1, sizeof(*c));
	struct template_stack s;
	struct keeper_create r;
	struct err e;

	CHECK(c != NULL);
	c->o.host.nlayers = 2;
	c->o.host.layers[0].root = 1;
	c->o.host.layers[1].root = 2;
	(void)snprintf(c->o.host.layers[0].at, CELL_PLACE_MAX, "/");
	(void)snprintf(c->o.host.layers[1].at, CELL_PLACE_MAX, "/usr");
	c->o.storage_root = 7;
	CHECK(read_text(TEMPLATE_STACK, "host\nlay_a\nlay_b", &s) == 0);
	memset(&r, 0, sizeof(r));
	CHECK(template_stack_plan(c, &s, &r, &e) < 0 && e.code == ERR_UNSUPPORTED);
	c->o.has_storage = true;
	CHECK(template_stack_plan(c, &s, &r, &e) == 0 && r.nlayers == 6);
	check_entry(&r, 0, "/", 1, "");
	check_entry(&r, 1, "/", 7, "lay_a/0");
	check_entry(&r, 2, "/", 7, "lay_b/0");
	check_entry(&r, 3, "/usr", 2, "");
	check_entry(&r, 4, "/usr", 7, "lay_a/1");
	check_entry(&r, 5, "/usr", 7, "lay_b/1");
	memset(&r, 0, sizeof(r));
	CHECK(read_text(TEMPLATE_STACK, "none\nlay_a", &s) == 0);
	CHECK(template_stack_plan(c, &s, &r, &e) == 0 && r.nlayers == 1);
	check_entry(&r, 0, "/", 7, "lay_a/0");
	free(c);
}

static void too_many(void)
{
	struct template_stack s = { 0 };
	struct err e;

	for (size_t i = 0; i < TEMPLATE_STACK_MAX; i++)
		CHECK(template_stack_push(&s, (const char[1][STORE_ID_MAX]){ "lay_a" }, 1, &e) ==
		      0);
	CHECK(template_stack_push(&s, (const char[1][STORE_ID_MAX]){ "lay_a" }, 1, &e) < 0);
	CHECK(e.code == ERR_LIMIT);
}

TEST_MAIN({ "texts", texts }, { "plans", plans }, { "too many layers", too_many })
