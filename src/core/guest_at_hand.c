/* guest_at_hand.c - see guest_at_hand.h. */
#include "guest_at_hand.h"

#include <string.h>

#include "core_private.h"
#include "memory_images.h"
#include "root_images.h"
#include "session_guest.h"
#include "session_spec.h"
#include "template_stack.h"
#include "templates_private.h"

static struct root_image *find_root(struct template_version *v, const struct store_session *row)
{
	struct template_stack stack;
	struct err ignored;

	if (session_spec_stack(v, row, NULL, &stack, NULL, &ignored) < 0)
		return NULL;
	return root_image_at_hand(v, &stack);
}

bool guest_root_is_current(struct template_version *v, const struct store_session *row,
			   const char *root)
{
	const struct root_image *now = find_root(v, row);

	return now != NULL && strcmp(now->layer, root) == 0;
}

/* The images of such a session, if none has to be made or loaded. */
static bool find_images(struct template_version *v, const struct store_session *row,
			const struct boot_request *r, struct root_image **ret_root,
			struct memory_image **ret_memory)
{
	struct memory_image_ask ask = { .memory_bytes = r->memory_bytes,
					.vcpus = r->vcpus,
					.guest = v->core->o.guest_key };

	*ret_root = find_root(v, row);
	if (*ret_root == NULL)
		return false;
	ask.root = *ret_root;
	*ret_memory = memory_image_at_hand(v->core, &ask);
	return *ret_memory != NULL;
}

bool guest_is_at_hand(struct template_version *v, const struct store_session *row)
{
	struct memory_image *memory;
	struct boot_request r;
	struct root_image *root;

	guest_fill_request(v->core, row, row->id, &r);
	return r.engine == BOOT_GVISOR || find_images(v, row, &r, &root, &memory);
}

int guest_at_hand(struct template_version *v, const struct store_session *row, const char *id,
		  struct boot_request *ret, int *fds, char ret_root[STORE_ID_MAX], struct err *e)
{
	struct memory_image *memory;
	struct root_image *root;

	guest_fill_request(v->core, row, id, ret);
	ret_root[0] = '\0';
	if (ret->engine == BOOT_GVISOR)
		return guest_fill_fds(v->core, -1, NULL, ret, fds, e);
	if (!find_images(v, row, ret, &root, &memory))
		return err_set(e, ERR_CONFLICT, "the images of the guest are not in memory");
	memcpy(ret_root, root->layer, sizeof(root->layer));
	return guest_fill_fds(v->core, root->fd, memory->image, ret, fds, e);
}
