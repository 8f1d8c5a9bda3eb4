/* Memory images of templates that are held for sessions to come: what they take is what guests have
 * touched of them, too, and is bounded. */
#include "bed.h"
#include "daemon/node/core_private.h"
#include "lib/base/list.h"
#include "daemon/guest/memory_images.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define MIB (1U << 20)
#define MADE (1U * MIB)	   /* of an image, when it is made */
#define MEMORY (16U * MIB) /* of its guest */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* As one that was loaded. */
static struct memory_image *put(const char *name)
{
	struct memory_image *g = calloc(1, sizeof(*g));
	char bytes[MADE];

	CHECK(g != NULL);
	*g = (struct memory_image){ .core = bed.core, .job.fd = -1 };
	(void)snprintf(g->digest, sizeof(g->digest), "memory:%s", name);
	memset(bytes, 1, sizeof(bytes));
	for (unsigned i = 0; i < LIVE_GUEST_IMAGE; i++) {
		g->image[i] = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		CHECK(g->image[i] >= 0 && ftruncate(g->image[i], i == 0 ? MEMORY : 0) == 0);
	}
	CHECK(pwrite(g->image[0], bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
	CHECK(fcntl(g->image[0], F_ADD_SEALS, SEALS) == 0);
	g->bytes = g->made_bytes = memory_image_bytes(g->image);
	CHECK(g->bytes == MADE);
	g->used_ns = 1;
	LIST_PUSH(&bed.core->memory_images, g);
	return g;
}

/* As a guest does that has ended: the memory that it took is gone, that of the image is not. */
static void touch(const struct memory_image *g, size_t n)
{
	char *at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE, g->image[0], 0);

	CHECK(at != MAP_FAILED);
	for (size_t i = 0; i < n; i += 4096)
		at[i] = 1;
	CHECK(munmap(at, MEMORY) == 0);
}

static unsigned count(void)
{
	unsigned n = 0;

	for (const struct memory_image *g = bed.core->memory_images; g != NULL; g = g->next)
		n++;
	return n;
}

static bool one_is_left(void)
{
	return count() == 1;
}

static void one_that_guests_have_filled_is_closed(void)
{
	struct memory_image *older, *filled;

	bed_make(30000);
	memory_images_kept = 8 * MIB;
	older = put("older");
	filled = put("filled");
	filled->used_ns = 2;
	touch(filled, MEMORY);
	CHECK(memory_image_bytes(filled->image) == MEMORY);
	bed_until(one_is_left);
	CHECK(bed.core->memory_images == older);
	bed_end();
}

static void on_there(struct completion *c, const struct err *e)
{
}

static void one_that_is_asked_for_stays(void)
{
	struct memory_image *g;
	struct completion w = { .on_done = on_there };

	bed_make(30000);
	memory_images_kept = 8 * MIB;
	g = put("wanted");
	touch(g, MEMORY);
	completion_begin(&w, bed.loop, &g->waiters);
	memory_images_shrink(bed.core);
	CHECK(count() == 1 && g->bytes == MEMORY);
	completion_cancel(&w);
	memory_images_shrink(bed.core);
	CHECK(count() == 0);
	bed_end();
}

static void those_that_have_not_grown_stay(void)
{
	bed_make(30000);
	memory_images_kept = MADE;
	(void)put("a");
	touch(put("b"), 2 * MADE);
	memory_images_shrink(bed.core);
	CHECK(count() == 2);
	touch(bed.core->memory_images, 2 * MADE + 8192);
	memory_images_shrink(bed.core);
	CHECK(count() == 1);
	CHECK_STR(bed.core->memory_images->digest, "memory:a");
	bed_end();
}

TEST_MAIN({ "one that guests have filled is closed", one_that_guests_have_filled_is_closed },
	  { "one that is asked for stays", one_that_is_asked_for_stays },
	  { "those that have not grown stay", those_that_have_not_grown_stay })
