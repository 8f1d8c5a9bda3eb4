/* What images of guests were made of, and which of it has changed since. */
#include "daemon/template/layer_origin.h"

#include <stdlib.h>

#include "daemon/node/core_private.h"
#include "daemon/guest/root_images.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates_private.h"
#include "test.h"

#define GUEST                                                                                      \
	"kernel\t6.1\nkernel_digest\tsha256:k\nmodules_digest\tsha256:m\nagent_digest\tsha256:a\n" \
	"cordon\t1\nengine\tqemu 7.2\naccelerator\ttcg\n"

static unsigned stale(const char *then, const char *guest, bool old)
{
	struct store_layer row = { .origin = then, .is_of_old_versions = old };
	struct layer_origin_now now = { .guest = guest, .machine = "0123" };

	return layer_origin_stale(&now, &row);
}

static void changes(void)
{
	static const struct {
		const char *guest;
		unsigned want;
	} cases[] = {
		{ GUEST, 0 },
		{ "", 0 }, /* no guests any more: nothing is known */
		{ "kernel_digest\tsha256:l\n", 1U << LAYER_STALE_KERNEL },
		{ "modules_digest\tsha256:n\n", 1U << LAYER_STALE_KERNEL },
		{ "agent_digest\tsha256:aa\n", 1U << LAYER_STALE_AGENT },
		{ "agent_digest\tsha256:\n", 1U << LAYER_STALE_AGENT },
		{ "engine\tqemu 10.0\n", 1U << LAYER_STALE_ENGINE },
		{ "accelerator\tkvm\n", 1U << LAYER_STALE_ENGINE },
		{ "cordon\t2\nkernel\t6.2\n", 0 }, /* names only: the digests decide */
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK(stale(GUEST, cases[i].guest, false) == cases[i].want);
	CHECK(stale("machine\t0123\n", GUEST, false) == 0);
	CHECK(stale("machine\t01234\n", GUEST, false) == 1U << LAYER_STALE_MACHINE);
	CHECK(stale("machine\t0124\n", GUEST, true) ==
	      (1U << LAYER_STALE_MACHINE | 1U << LAYER_STALE_TEMPLATE));
	CHECK(stale(NULL, GUEST, false) == 0); /* a layer that is no image */
}

static void texts(void)
{
	static struct template_version v;
	static struct root_image root;
	struct template_stack stack = { .base = TEMPLATE_BASE_DIR, .dir = "d", .nlayers = 2 };
	struct layer_origin_now now;
	char text[LAYER_ORIGIN_MAX], want[128];

	(void)snprintf(v.row.name, sizeof(v.row.name), "vm");
	(void)snprintf(v.row.id, sizeof(v.row.id), "tpl_1");
	(void)snprintf(stack.layers[0], sizeof(stack.layers[0]), "lay_1");
	(void)snprintf(stack.layers[1], sizeof(stack.layers[1]), "lay_2");
	layer_origin_of_root(&v, &stack, root.origin);
	CHECK_STR(root.origin, "template\tvm\nversion\ttpl_1\nbase\td\nlayers\tlay_1 lay_2\n");
	(void)snprintf(root.layer, sizeof(root.layer), "lay_3");
	layer_origin_of_memory(&root, 256ULL << 20, 1, "kernel\t6.1\n", text);
	CHECK_STR(text, "template\tvm\nversion\ttpl_1\nbase\td\nlayers\tlay_1 lay_2\n"
			"root\tlay_3\nmemory\t256M\ncpus\t1\nkernel\t6.1\n");
	stack = (struct template_stack){ .base = TEMPLATE_BASE_HOST };
	layer_origin_of_root(&v, &stack, text);
	layer_origin_now("", &now);
	(void)snprintf(want, sizeof(want),
		       "template\tvm\nversion\ttpl_1\nbase\thost\nmachine\t%s\n", now.machine);
	CHECK_STR(text, want);
}

TEST_MAIN({ "changes", changes }, { "texts", texts })
