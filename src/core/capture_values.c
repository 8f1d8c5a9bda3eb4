#include "capture_values.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "buf.h"
#include "core_private.h"
#include "session_parts.h"
#include "storage_msg.h"
#include "template_stack.h"

#define VALUES_MAX (4U << 20) /* a session has 512 KiB at a time, and old ones */

static void put_text(struct buf *b, const char *text)
{
	uint32_t n = (uint32_t)strlen(text);

	buf_put(b, &n, sizeof(n));
	buf_put(b, text, n);
}

/* Where the places of the host template are; others have one, at the root. */
static void put_places(const struct core *c, struct buf *b)
{
	for (uint32_t i = 0; i < STORAGE_HOST_MAX; i++)
		put_text(b, i > 0 && i < c->o.host.nlayers ? c->o.host.layers[i].at : "");
}

static int make_file(const struct buf *b, int *ret, struct err *e)
{
	OWN_FD fd = memfd_create("values", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_sys(e, "memfd");
	for (size_t at = 0; at < b->len;) {
		ssize_t n = write(fd, b->data + at, b->len - at);

		if (n < 0)
			return err_sys(e, "write values");
		at += (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return err_sys(e, "seal values");
	*ret = TAKE_FD(fd);
	return 0;
}

int capture_values(struct session *s, const char *kind, int *ret, struct err *e)
{
	struct buf b = BUF_INIT(VALUES_MAX);
	size_t places;
	int result;

	*ret = -1;
	if (strcmp(kind, "pause") == 0 || s->core->o.config->captured_secrets != CAPTURED_REFUSE)
		return 0;
	b.secret = true;
	put_places(s->core, &b);
	places = b.len;
	result = session_parts_add_values(s, strcmp(kind, "fork") == 0, &b, e);
	/* Layers of a pause, or of the fork that made the session, were not searched when they were
	 * written: they may hold values, and would go along. */
	if (result == 0 && b.len > places && s->own != NULL && s->own->nlayers > 0)
		result = err_set_reason(
			e, REASON_SECRETS_IN_FILES,
			"files from before a pause without memory, or from the session that this "
			"one was forked from, cannot be searched for values of secrets: use a new "
			"session, or set captured_secrets to allow");
	else if (result == 0 && b.len > places)
		result = make_file(&b, ret, e);
	buf_release(&b);
	return result;
}
