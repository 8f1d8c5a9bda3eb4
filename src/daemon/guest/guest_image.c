/* guest_image.c - see guest_image.h. */
#include "daemon/guest/guest_image.h"
#include "daemon/tenant/image_charge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/guest/session_memory.h"
#include "daemon/node/core_private.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

struct guest_image *guest_image_new(const struct session *source, const char *root)
{
	struct guest_image *g = calloc(1, sizeof(*g));

	assert(g != NULL);
	*g = (struct guest_image){
		.users = 1, .core = source->core, .image = { -1, -1 }, .changes = -1, .later = -1
	};
	str_copy(g->root, root);
	memcpy(g->source, source->row.id, sizeof(g->source));
	memcpy(g->guest, source->row.guest_origin, sizeof(g->guest));
	return g;
}

struct guest_image *guest_image_use(struct guest_image *g)
{
	g->users++;
	return g;
}

void guest_image_unuse(struct guest_image *g)
{
	if (g == NULL || --g->users > 0)
		return;
	io_close_all(g->image, LIVE_GUEST_IMAGE);
	io_close_all(&g->changes, 1);
	io_close_all(&g->later, 1);
	image_charge_unuse(g->core, g->held);
	image_charge_unuse(g->core, g->changes_held);
	session_memory_give_back(g->core, g->lender);
	free(g);
}

/* *ret goes to the engine, which reads the descriptors of the memory from it. */
int guest_image_wait(struct guest_image *g, int *ret, struct err *e)
{
	int ends[2];

	if (g->later >= 0)
		return err_set(e, ERR_CONFLICT, "an engine waits for this memory already");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_sys(e, "memory of a guest");
	g->later = ends[0];
	*ret = ends[1];
	return 0;
}

/* Take the descriptors over, and send them to an engine that waits for them. */
void guest_image_settle(struct guest_image *g, int devices, int changes)
{
	const int fds[] = { devices, changes };
	struct err e;

	g->image[1] = devices;
	g->changes = changes;
	g->pending = false;
	if (g->later < 0)
		return;
	/* The socket has room for one message. An engine that does not get it fails. */
	if (io_send(g->later, "", 1, fds, changes >= 0 ? 2 : 1, &e) < 0)
		log_warn("a guest does not get its memory", "session_id=%s error=%s", g->source,
			 e.msg);
	io_close_all(&g->later, 1);
}
